"""Compaction: what is live in the oldest segments is written anew, so that those can go.  Small steps, one per written batch.

A step writes a few live records of the oldest segment at the end of the journal, as a batch like any other; the next one follows when
that is durable.  A crash in between leaves records twice, of which the later counts.  Nothing is moved within a file, and nothing is
removed before its copy is durable and the segment is noted as not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Clock
from mqbroker.storage.files.journal.batch import message_head
from mqbroker.storage.files.journal.journal import Journal
from mqbroker.storage.files.journal.live import LiveIndex, References
from mqbroker.storage.files.journal.maintenance import Maintenance
from mqbroker.storage.files.journal.pages import Kept
from mqbroker.storage.files.journal.segments import Segment, SegmentLog
from mqbroker.storage.settings import StoreSettings
from mqbroker.storage.tickets import Tickets
from mqclient.storageformat.records import encode_delivery_count, encode_schedule

STEP_RECORDS = 256
"""Records that one step of compaction moves at most."""

STEP_BYTES = 64 * 1024
"""Bytes that one step of compaction moves at most (and one record at least): about a millisecond of the loop."""

SWEEP_ENTRIES = 2000
"""Messages that one turn looks at for references to deleted queues."""


class Compactor:
    """Starts when a journal has begun a new segment; ends when there are few files, enough of them is live, or all were seen once."""

    def __init__(
        self,
        journal: Journal,
        index: LiveIndex,
        tickets: Tickets,
        maintenance: Maintenance,
        clock: Clock,
        settings: StoreSettings,
        addresses: dict[str, bytes],
    ) -> None:
        self._journal = journal
        self._index = index
        self._tickets = tickets
        self._maintenance = maintenance
        self._clock = clock
        self._min_files = settings.journal_compact_min_files
        self._percentage = settings.journal_compact_percentage
        self._addresses = addresses
        self._running: dict[SegmentLog, int] = {}
        """Journals under compaction, with the sequence at which it ends."""
        self._rest: dict[SegmentLog, int] = {}
        """After all of a journal was written anew: the sequence before which doing it again would gain nothing."""
        if self._min_files:
            journal.rolled.subscribe(self._rolled)
            self._rolled()

    def _rolled(self) -> None:
        self._clock.call_later(0, self._consider)

    def _consider(self) -> None:
        for log in (self._journal.messages, self._journal.bindings):
            rested = log.current.sequence >= self._rest.get(log, 0)
            if rested and log not in self._running and self._worthwhile(log):
                self._running[log] = log.current.sequence
                self._step(log)

    def _worthwhile(self, log: SegmentLog) -> bool:
        return len(log.segments) > self._min_files and log.bytes_live * 100 < self._percentage * log.bytes_used

    def _step(self, log: SegmentLog) -> None:
        if self._journal.closed:
            return
        if not log.segments[0].live:
            self._maintenance.trim()
        oldest = log.segments[0]
        if oldest.sequence >= self._running[log]:
            self._rest[log] = log.current.sequence + len(log.segments)
            del self._running[log]
            return
        if not self._worthwhile(log):
            del self._running[log]
            return
        ticket = self._move_messages(oldest) if log is self._journal.messages else self._move_bindings(oldest)
        if ticket:
            self._tickets.when_synced(ticket, self._step, log)
        else:
            self._clock.call_later(0, self._step, log)

    def _move_messages(self, oldest: Segment) -> int:
        """Returns the ticket, 0 when there was nothing worth moving."""
        parts: list[bytes] = []
        moved: list[tuple[Message, References]] = []
        numbered: list[tuple[int, bytes]] = []
        kept: list[tuple[Kept, int]] = []
        size = 0
        self._journal.seal_pages()
        for key in list(islice(oldest.live, STEP_RECORDS)):
            if size >= STEP_BYTES:
                break
            count = len(parts)
            if isinstance(key, Message):
                references = self._index.drop_gone(key)
                if references:
                    moved.append((key, references))
                    parts += _moved(key, references, self._addresses, self._index.branch_of(key))
            elif isinstance(key, Kept):
                parts.append(key.record())
                kept.append((key, len(parts[-1])))
            else:
                record: bytes = oldest.live[key]
                numbered.append((key, record))
                parts.append(record)
            size += sum(map(len, parts[count:]))
        if not parts:
            return 0
        group = self._journal.commit(parts, [])
        for message, references in moved:
            self._index.move(message, references, group.segment)
        for number, record in numbered:
            self._index.put_numbered(number, record, group.segment)
        for key, length in kept:
            self._index.keep(key, group.segment, length)
        return group.ticket

    def _move_bindings(self, oldest: Segment) -> int:
        records: list[tuple[object, bytes]] = list(islice(oldest.live.items(), STEP_RECORDS))
        group = self._journal.commit([], [record for _, record in records])
        for key, record in records:
            self._index.put_binding(key, record, self._journal.bindings.current)
        return group.ticket


class Sweeper:
    """Lets go of messages whose queues were deleted, a few per turn."""

    def __init__(self, journal: Journal, index: LiveIndex, clock: Clock) -> None:
        self._journal = journal
        self._index = index
        self._clock = clock
        self._sweep: Iterator[None] | None = None
        self._again = False
        index.queue_gone.subscribe(self._queue_gone)

    def _queue_gone(self) -> None:
        if self._sweep is not None:
            self._again = True
            return
        self._sweep = self._entries()
        self._clock.call_later(0, self._some)

    def _some(self) -> None:
        if self._sweep is None or self._journal.closed:
            return
        looked_at = sum(1 for _ in islice(self._sweep, SWEEP_ENTRIES))
        if looked_at == SWEEP_ENTRIES:
            self._clock.call_later(0, self._some)
            return
        self._sweep = None
        if self._again:
            self._again = False
            self._queue_gone()

    def _entries(self) -> Iterator[None]:
        for segment in list(self._journal.messages.segments):
            keys: list[Any] = list(segment.live)
            for key in keys:
                if isinstance(key, Message) and key.store_state is segment:
                    self._index.drop_gone(key)
                yield


def _moved(message: Message, references: References, addresses: dict[str, bytes], branch_id: int) -> list[bytes]:
    """The records that say all there is to say of a stored message."""
    parts = [message_head(message, list(references), addresses, moved=True, branch_id=branch_id), message.buffer]
    for queue_id, (count, scheduled) in references.items():
        if count:
            parts.append(encode_delivery_count(queue_id, message.message_id, count))
        if scheduled:
            parts.append(encode_schedule(queue_id, message.message_id, scheduled))
    return parts
