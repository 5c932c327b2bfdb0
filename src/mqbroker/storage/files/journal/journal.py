"""Group commit over the journal of messages and the journal of bindings (decision 6).

Committed records gather in a *group*; while one write runs the next groups gather.  A group becomes one frame in the journal of messages,
one in that of bindings, or one in each.  Tickets count commits over both.  Waiters of all groups of one write are released together.

**Order on the disk.**  One write syncs, in this order: bindings; bodies of large messages that the new records name; pages; messages.  So a
message never exists without its queue or its body, and no page record without the page (see ``pager``).

**A group in both journals** must not be seen by half.  Both its frames begin with the same mark, an ascending number.  Bindings reach
the disk first; when a crash then keeps the frame of messages from it, recovery finds a mark in the bindings that is higher than any in the
journal of messages, and cuts the bindings there.  Only frames of the very last write can be in that state: any later write began after both
halves were durable.  A cut binding stays cut, since the next segment's header says where its predecessor ends.  And since all
frames of messages after the missing one are missing too, nothing survives that was committed after a cut binding and could depend on it.

Only one write is under way at a time.  The first that fails is the last: ``synced`` never moves again and nobody is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from mqbroker.messaging.event import Event
from mqbroker.messaging.ports import Cancellable, Clock, WritingTurn
from mqbroker.storage.disk.claim import Claim
from mqbroker.storage.disk.diskwriter import DiskWriter, Step, run_steps
from mqbroker.storage.files.journal.segments import Segment, SegmentLog
from mqbroker.storage.files.largebodies import FileLargeBody, LargeBodies
from mqbroker.storage.tickets import Tickets
from mqclient.storageformat.frames import FRAME_HEADER_SIZE
from mqclient.storageformat.records import encode_mark

if TYPE_CHECKING:
    from mqbroker.storage.files.journal.pages import Page, PageWrite

FRAME_CONTENT = 64 * 1024
"""Bytes of content at which a frame is closed: what one damaged place can cost, and far above the cost of a frame."""


SOON_MAX = 8 * 1024
"""Bytes of a group up to which the loop itself makes the frame, so that a replica has it before the own disk does anything."""

LATE_WRITE_SECONDS = 0.005
"""Seconds that acknowledgements that nobody waits for may stay in memory, so that they share a write with what comes next; a crash in
between delivers these messages again."""


class Group:
    """A group of records that will be written as a whole.

    ``parts`` are ``size`` bytes of message records for a frame in ``segment``; ``limit`` is the size at which the group is full.
    ``ticket`` is the one handed out last, 0 while the group is empty.
    """

    __slots__ = (
        "binding_end",
        "binding_offset",
        "binding_segment",
        "bindings",
        "bodies",
        "limit",
        "offset",
        "pages",
        "parts",
        "segment",
        "size",
        "ticket",
    )

    def __init__(self, segment: Segment, limit: int) -> None:
        self.segment = segment
        self.limit = limit
        self.parts: list[bytes] = []
        self.size = 0
        self.bindings: list[bytes] = []
        self.binding_segment: Segment | None = None
        self.bodies: list[FileLargeBody] = []
        self.pages: dict[Page, PageWrite] | None = None
        self.ticket = 0
        self.offset = 0
        self.binding_offset = 0
        self.binding_end = 0


class GroupPager(Protocol):
    """Writes what groups have for pages, before the journal of messages names it."""

    @property
    def nothing_to_write(self) -> bool:
        """Is there nothing to do for pages but what groups have for them?"""

    def seal(self, group: Group) -> None:
        """The group is closed: its page records, and the places of its frames."""

    def write_steps(self, groups: Sequence[Group], sync: bool) -> list[Step]:
        """Work of the disk writer that comes before the write of these groups."""

    def written(self, groups: Sequence[Group]) -> None:
        """The ``groups`` are durable."""


class Journal:
    """The two journals of a store, whose ``tickets`` it moves on.  ``busy`` is true while a write runs or is due."""

    _log = Logger()

    def __init__(
        self,
        messages: SegmentLog,
        bindings: SegmentLog,
        bodies: LargeBodies,
        tickets: Tickets,
        writer: DiskWriter,
        clock: Clock,
        datasync: bool,
        mark: int,
        pager: GroupPager | None,
        claim: Claim,
    ) -> None:
        self.messages = messages
        self.bindings = bindings
        self.rolled: Event[()] = Event()
        """A journal has begun a new segment."""
        self.closed = False
        self.busy = False
        self.urgent = False
        """Does anybody wait for the gathered records?  Records that nobody waits for are written together with the next ones."""
        self._pager = pager
        self._checks: list[Step] = [claim.check] if claim.token else []
        """The last steps of each write: only after them is it sure that a broker which takes the folder later reads the write."""
        self._bodies = bodies
        self._tickets = tickets
        self._writer = writer
        self._clock = clock
        self._datasync = datasync
        self._mark = mark
        """The highest mark in use."""
        self._sealed: list[Group] = []
        self._in_flight: list[Group] = []
        self._timer: Cancellable | None = None
        self._late_timer: Cancellable | None = None
        self._turn: WritingTurn | None = None
        """While there is none, a timer calls :meth:`flush`."""
        self.group = self._open_group(0)

    @property
    def backlog(self) -> int:
        """Bytes handed over that are not durable yet."""
        return self.group.size + sum(group.size for group in self._sealed) + sum(group.size for group in self._in_flight)

    def commit(self, parts: list[bytes], bindings: list[bytes]) -> Group:
        """Hand over records for the two journals; returns the group that they went into."""
        size = sum(map(len, parts))
        group = self.group
        if group.size + size > group.limit:
            group = self.next_group(size)
        group.parts += parts
        group.size += size
        group.bindings += bindings
        tickets = self._tickets
        tickets.last = group.ticket = tickets.last + 1
        self.want()
        return group

    def next_group(self, size: int) -> Group:
        """A group that takes a batch of ``size`` bytes, which the open one has no room for."""
        if self.closed:
            return Group(self.messages.current, -1)
        if self.group.ticket:
            self._seal()
        self.group = self._open_group(size)
        return self.group

    def seal_pages(self) -> None:
        """From now on the record of a page says how far its messages go.

        Else one that is made before the open group is closed, and comes behind it, would take back what that group says.
        """
        if self.group.pages is not None:
            self.next_group(0)

    def want(self) -> None:
        """Write the gathered records, which are needed, at the end of this turn, or after the write that is under way."""
        if self.busy:
            self.urgent = True
        else:
            self.schedule()

    def schedule(self) -> None:
        """Write at the end of this turn."""
        self.busy = True
        self.urgent = True
        if self._turn is None or not self._turn.active:
            self._timer = self._clock.call_later(0, self._due)

    def write_at_end_of(self, turn: WritingTurn) -> None:
        """Call :meth:`flush` at the end of each turn."""
        self._turn = turn
        turn.ended.subscribe(self.flush)

    def schedule_late(self) -> None:
        """Records have gathered that nobody waits for: write them with the next ones, but soon."""
        if self._late_timer is None and not self.closed:
            self._late_timer = self._clock.call_later(LATE_WRITE_SECONDS, self._late_due)

    def flush(self) -> None:
        """Write what has gathered now, if anybody needs it, unless a write is under way: then all of it follows right after that."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.urgent and not self._in_flight and not self.closed:
            self._write()

    def write_now(self) -> None:
        """Write what has gathered and wait for it; for the start, when nothing else is under way.  Raises OSError."""
        self._gather()
        error = run_steps(self._steps(self._in_flight))
        if error is not None:
            raise error
        self._written(None)

    def fail(self, error: BaseException) -> None:
        """A write failed: nothing is acknowledged from now on."""
        if not self.closed:
            self._tickets.fail(error)

    def close(self) -> None:
        """Forget what is not written."""
        self.closed = True
        self._sealed = []
        self._in_flight = []
        self.group = Group(self.messages.current, -1)
        for timer in (self._timer, self._late_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._late_timer = None
        self.busy = True

    def _due(self) -> None:
        self._timer = None
        self.flush()

    def _late_due(self) -> None:
        self._late_timer = None
        if not self._in_flight and not self.closed:
            self._write()

    def _gather(self) -> None:
        """Make everything that was committed the content of the next write."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.urgent = False
        filled = self.group.ticket
        if filled:
            self._seal()
        self._in_flight, self._sealed = self._sealed, []
        if filled:
            self.group = self._open_group(0)

    def _write(self) -> None:
        try:
            self._gather()
            self.busy = bool(self._in_flight)
            if self.busy:
                self._bodies.flush()
                self._writer.submit(self._steps(self._in_flight), self._written)
        except Exception as error:
            self._broken(error)

    def _broken(self, error: Exception) -> None:
        """This should not happen.  A journal that did not go on would let everybody wait for ever."""
        self._log.failure("the journal cannot continue")
        self.fail(error)

    def _open_group(self, size: int) -> Group:
        log = self.messages
        before = log.segments[-1], self.bindings.segments[-1]
        segment = log.room(size, self._mark)
        # Bindings of one write stay in one segment, since recovery looks for missing halves in the last one only; and a new one is begun
        # before the group is filled, so that its header does not count upon what the group says.
        if not any(each.bindings for each in self._sealed):
            self.bindings.room(0, self._mark)
        if before != (log.segments[-1], self.bindings.segments[-1]):
            self.rolled()
        return Group(segment, max(size, min(FRAME_CONTENT, log.file_size - segment.end - FRAME_HEADER_SIZE)))

    def _seal(self) -> None:
        """Close the open group and fix the places of its frames."""
        group = self.group
        if group.pages is not None and self._pager is not None:
            self._pager.seal(group)
        if group.bindings:
            size = sum(map(len, group.bindings))
            segment = group.binding_segment = self.bindings.current
            if group.parts:
                self._mark += 1
                mark = encode_mark(self._mark)
                group.parts.insert(0, mark)
                group.size += len(mark)
                group.bindings.insert(0, mark)
                size += len(mark)
            group.binding_offset = segment.end
            segment.end += FRAME_HEADER_SIZE + size
            group.binding_end = segment.end
        if group.parts:
            group.offset = group.segment.end
            group.segment.end += FRAME_HEADER_SIZE + group.size
        self._sealed.append(group)

    def _steps(self, groups: list[Group]) -> list[Step]:
        if len(groups) == 1:
            group = groups[0]
            segment = group.segment
            more = not group.parts or group.bindings or group.bodies or group.pages
            if segment.begun and not more and (self._pager is None or self._pager.nothing_to_write):
                # Nearly every write is such a one, while few messages are on their way.
                soon = None
                if self._datasync and group.size <= SOON_MAX and self._writer.idle:
                    soon = segment.write_soon(group.offset, group.parts, segment.synced)
                if soon is not None:
                    return [soon, *self._checks]
                return [partial(segment.write_frame, group.offset, group.parts, segment.synced, self._datasync), *self._checks]
        bindings = [(group.binding_segment, group.binding_offset, group.bindings) for group in groups if group.binding_segment is not None]
        steps = self._write_steps(self.bindings, bindings, sync=True)
        bodies = {body.body_id: body for group in groups for body in group.bodies}
        for body in bodies.values():
            steps += self._bodies.sync_steps(body)
        if self._pager is not None:
            steps += self._pager.write_steps(groups, self._syncs(groups))
        messages = [(group.segment, group.offset, group.parts) for group in groups if group.parts]
        return [*steps, *self._write_steps(self.messages, messages, self._syncs(groups)), *self._checks]

    def _syncs(self, groups: list[Group]) -> bool:
        """Is the journal of messages synced with this write?  Always when it has the other half of bindings, which are."""
        return self._datasync or any(group.parts and group.bindings for group in groups)

    def _write_steps(self, log: SegmentLog, frames: list[tuple[Segment, int, list[bytes]]], sync: bool) -> list[Step]:
        steps: list[Step] = []
        by_segment: dict[Segment, list[Step]] = {}
        for segment, offset, parts in frames:
            # Joined and summed up by the disk thread: most of that needs nothing of the interpreter.
            by_segment.setdefault(segment, []).append(partial(segment.write_frame, offset, parts, segment.synced))
        for segment, writes in by_segment.items():
            steps += log.write_steps(segment, writes, sync)
        return steps

    def _written(self, error: Exception | None) -> None:
        if self.closed:
            return
        if error is not None:
            self.fail(error)
            return
        try:
            ticket = self._take_in_flight()
        except Exception as failure:
            self._broken(failure)
            return
        if self.urgent:
            self._write()
        else:
            self.busy = False
            if self.group.ticket or self._sealed:
                self.schedule_late()
        if not self.closed:
            self._tickets.own.hold(ticket)

    def _take_in_flight(self) -> int:
        """The groups under way are on the disk.  Returns their last ticket."""
        ticket = self._tickets.own.reached
        synced = self._syncs(self._in_flight)
        for group in self._in_flight:
            ticket = group.ticket
            if group.binding_segment is not None:
                group.binding_segment.synced = group.binding_end
            if group.parts and synced:
                group.segment.synced = group.offset + FRAME_HEADER_SIZE + group.size
        if self._pager is not None:
            self._pager.written(self._in_flight)
        self._in_flight = []
        return ticket
