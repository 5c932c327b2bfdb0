"""The active side of replication, for one replica: a copy of all files, and every change from then on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from twisted.logger import Logger

from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.mirror.changes import Buffer
from mqbroker.storage.mirror.copying import Copy
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.outgoing import Outgoing
from mqbroker.storage.tickets import Condition, Tickets

log = Logger(namespace="mqbroker.storage")

COPY_BEHIND_MAX = 4 * 1024 * 1024
"""Bytes that were copied and have no answer, beyond which nothing more is copied: what changes meanwhile is not to wait for long."""
BEHIND_MAX = 32 * 1024 * 1024
"""Bytes without an answer beyond which producers wait: the replica is slower than they are."""
LOST_BEHIND_MAX = 512 * 1024 * 1024
"""Bytes without an answer at which a replica is given up, although producers wait."""


class Progress(NamedTuple):
    """How far a copy has come, in bytes; ``all`` grows as long as the files are being looked at."""

    done: int
    all: int


class ReplicaFeed:
    """The stream of all that one replica is sent.

    ``tickets`` are those of the store whose files ``mirrored`` has; ``datasync`` says whether its work is synced.  ``call(function)`` lets
    another thread call on the loop, in a turn.  ``send(buffers)`` takes bytes of the stream, to be sent one after the other.
    ``copied()``: the replica has all of it, durably.  ``lost(reason)`` is called when the stream cannot go on; it has stopped then.
    """

    def __init__(
        self,
        mirrored: MirroredFileSystem,
        writer: DiskWriter,
        tickets: Tickets,
        datasync: bool,
        call: Callable[[Callable[[], object]], object],
        send: Callable[[Sequence[Buffer]], object],
        copied: Callable[[], object],
        lost: Callable[[str], object],
    ) -> None:
        self.behind = 0
        """Bytes that were sent and are not answered."""
        self._mirrored = mirrored
        self._writer = writer
        self._tickets = tickets
        self._datasync = datasync
        self._call = call
        self._send = send
        self._copied = copied
        self._lost = lost
        self._outgoing = Outgoing(call, self._flush)
        self._copy = Copy(mirrored, self._outgoing)
        self._sent: deque[tuple[int, int]] = deque()
        """Bytes that were sent together, with the number of the last change among them."""
        self._copy_sent: deque[tuple[int, int]] = deque()
        """How many bytes were copied when the change with this number was sent."""
        self._copy_answered = 0
        self._answered = 0
        self._condition: Condition | None = None
        self._kept: deque[tuple[int, int]] = deque()
        """Tickets that the own disk has reached, each with the number of the change that the replica has to answer for it."""
        self._no_longer_told: Callable[[], None] | None = None
        self._overfull = False
        self._stepping = False
        self._is_copied = False
        self._stopped = False

    @property
    def progress(self) -> Progress:
        return Progress(self._copy.done, self._copy.all)

    def start(self) -> None:
        """Begin the copy."""
        self._stepping = True
        self._writer.submit([partial(self._mirrored.attach, self._copy)], self._stepped)

    def answered(self, number: int) -> None:
        """The replica has done the changes up to this one.  Raises ValueError for one that was not sent."""
        if self._stopped:
            return
        if not self._answered <= number <= self._outgoing.taken:
            raise ValueError(f"change {number} was answered; changes {self._answered} to {self._outgoing.taken} can be")
        self._answered = number
        while self._sent and self._sent[0][0] <= number:
            self.behind -= self._sent.popleft()[1]
        while self._copy_sent and self._copy_sent[0][0] <= number:
            self._copy_answered = self._copy_sent.popleft()[1]
        if self._overfull and self.behind <= BEHIND_MAX // 2:
            self._set_overfull(False)
        self._hold()
        end = self._copy.end
        if end and not self._is_copied and number >= end:
            self._is_copied = True
            self._copied()
        self._go_on()

    def demand(self) -> Condition:
        """From now on work counts as durable only when the replica has it, too.  To be called once, after ``copied``.

        Of what others were told before, the replica has everything when it has answered what was sent until this returns; not earlier may
        it take the place of this broker.  When the feed is stopped or lost the condition holds for nothing more, and durable work waits
        until it is withdrawn.
        """
        self._flush()
        self._condition = condition = self._tickets.demand("replica", under_way=True)
        self._no_longer_told = self._tickets.own.held.subscribe(self._own_held)
        return condition

    def stop(self) -> None:
        """Tell the replica nothing more."""
        if self._stopped:
            return
        self._stopped = True
        self._mirrored.detach(self._copy)
        if self._no_longer_told is not None:
            self._no_longer_told()
        self._sent.clear()
        self._kept.clear()
        self.behind = 0
        if self._overfull:
            self._set_overfull(False)

    def _go_on(self) -> None:
        """Let the disk writer copy some more, if the replica keeps up."""
        if self._stepping or self._stopped or self._copy.end:
            return
        if self._copy.done - self._copy_answered >= COPY_BEHIND_MAX:
            return
        self._stepping = True
        self._writer.submit([self._copy.step], self._stepped)

    def _stepped(self, error: Exception | None) -> None:
        self._stepping = False
        if self._stopped:
            self._mirrored.detach(self._copy)
        elif error is not None:
            self._give_up(f"the files cannot be copied: {error}")
        else:
            self._flush()
            self._copy_sent.append((self._outgoing.taken, self._copy.done))
            self._go_on()

    def _flush(self) -> None:
        """Send what was told.  The journal may be about to hand a write over: a defect here costs the replica, not the store."""
        try:
            self._send_told()
        except Exception as error:
            log.failure("the replica cannot be sent what was written")
            self._call(partial(self._give_up, f"it cannot be sent what was written: {error}"))

    def _send_told(self) -> None:
        if self._stopped:
            return
        buffers = self._outgoing.take()
        if not buffers:
            return
        size = sum(map(len, buffers))
        self.behind += size
        self._sent.append((self._outgoing.taken, size))
        self._send(buffers)
        if self.behind > LOST_BEHIND_MAX:
            # Not here: the journal may be about to hand a write over.
            self._call(partial(self._give_up, f"the replica is {self.behind} bytes behind, and at most {LOST_BEHIND_MAX} are allowed"))
        elif self.behind > BEHIND_MAX and not self._overfull:
            self._set_overfull(True)

    def _set_overfull(self, overfull: bool) -> None:
        self._overfull = overfull
        self._tickets.overfull(overfull)

    def _own_held(self, ticket: int) -> None:
        """The own disk has the work up to this ticket, and so everything that was told of it."""
        self._flush()
        # Where work is synced its last change is a sync, and the last one that has ended.  Later changes are of the next write.
        self._kept.append((self._outgoing.synced if self._datasync else self._outgoing.number, ticket))
        self._hold()

    def _hold(self) -> None:
        reached = 0
        while self._kept and self._kept[0][0] <= self._answered:
            reached = self._kept.popleft()[1]
        if reached and self._condition is not None:
            self._condition.hold(reached)

    def _give_up(self, reason: str) -> None:
        if not self._stopped:
            self.stop()
            self._lost(reason)
