"""The state of pages that the records of the journal add up to, while it is read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mqclient.storageformat.page_records import (
    PageAcknowledgeRecord,
    PageBodyRecord,
    PageCountRecord,
    PageGoneRecord,
    PageJournalRecord,
    PageQueueRecord,
    PageRecord,
    PageScheduleRecord,
)

NOT_RECORDED = -1
"""In place of a scheduled time that the store was never told."""


def has_bit(bits: bytes | bytearray, index: int) -> bool:
    at = index >> 3
    return at < len(bits) and bool(bits[at] >> (index & 7) & 1)


def set_bits(bits: bytearray, first: int, indexes: int = 1) -> None:
    """Set a range of bits; ``bits`` grows as far as is needed."""
    end = first + indexes
    missing = ((end + 7) >> 3) - len(bits)
    if missing > 0:
        bits.extend(bytes(missing))
    while first < end and (first & 7 or end - first < 8):
        bits[first >> 3] |= 1 << (first & 7)
        first += 1
    whole = (end - first) >> 3
    bits[first >> 3 : (first >> 3) + whole] = b"\xff" * whole
    for index in range(first + 8 * whole, end):
        bits[index >> 3] |= 1 << (index & 7)


@dataclass(slots=True)
class StoredQueue:
    """A queue's part of a page.  ``sequence`` is the segment with the oldest record that is needed, None when there is none."""

    messages: int = 0
    acknowledged: int = 0
    bits: bytearray = field(default_factory=bytearray)
    details: dict[int, tuple[int, int]] = field(default_factory=dict)
    sequence: int | None = None


@dataclass(slots=True)
class StoredBody:
    sequence: int
    record: PageBodyRecord
    queue_ids: set[int]


@dataclass(slots=True)
class StoredPage:
    """``address`` is None until the page's own record has come."""

    sequence: int = 0
    end: int = 0
    messages: int = 0
    address: str | None = None
    queues: dict[int, StoredQueue] = field(default_factory=dict)
    bodies: dict[int, StoredBody] = field(default_factory=dict)

    @property
    def needed(self) -> bool:
        return any(queue.messages > queue.acknowledged for queue in self.queues.values())

    def queue(self, queue_id: int) -> StoredQueue:
        return self.queues.setdefault(queue_id, StoredQueue())


class StoredPages:
    """The pages by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, StoredPage] = {}
        self.unneeded: list[int] = []
        """Pages that are named although no queue has messages left in them."""

    def __bool__(self) -> bool:
        return bool(self.by_number)

    def apply(self, sequence: int, record: PageJournalRecord) -> None:
        """Take in the next record, which stands in segment ``sequence``."""
        if isinstance(record, PageGoneRecord):
            self.by_number.pop(record.page, None)
            return
        page = self.by_number.setdefault(record.page, StoredPage())
        if isinstance(record, PageRecord):
            page.sequence, page.end, page.messages, page.address = sequence, record.end, record.messages, record.address
            for queue_id, messages in record.queues:
                page.queue(queue_id).messages = messages
        elif isinstance(record, PageBodyRecord):
            known = page.bodies.get(record.index)
            page.bodies[record.index] = StoredBody(sequence, record, set(record.queue_ids) if known is None else known.queue_ids)
        else:
            self._queue(page, sequence, record)

    def _queue(
        self, page: StoredPage, sequence: int, record: PageAcknowledgeRecord | PageQueueRecord | PageCountRecord | PageScheduleRecord
    ) -> None:
        queue = page.queue(record.queue_id)
        if queue.sequence is None:
            queue.sequence = sequence
        if isinstance(record, PageAcknowledgeRecord):
            set_bits(queue.bits, record.first, record.indexes)
            queue.acknowledged += record.messages
            for index in [index for index in page.bodies if record.first <= index < record.first + record.indexes]:
                page.bodies[index].queue_ids.discard(record.queue_id)
        elif isinstance(record, PageQueueRecord):
            queue.sequence = sequence
            queue.acknowledged = record.acknowledged
            queue.bits = bytearray(record.bits)
            queue.details = {index: (count, time) for index, count, time in record.details}
            for index, body in page.bodies.items():
                if has_bit(record.bits, index):
                    body.queue_ids.discard(record.queue_id)
        else:
            count, time = queue.details.get(record.index, (0, NOT_RECORDED))
            if isinstance(record, PageCountRecord):
                queue.details[record.index] = (record.count, time)
            else:
                queue.details[record.index] = (count, record.time_ms)

    def drop_unrouted(self, is_queue: Callable[[int], bool]) -> None:
        """Forget deleted queues, and pages that no queue needs."""
        for number, page in list(self.by_number.items()):
            for queue_id in [each for each in page.queues if not is_queue(each)]:
                del page.queues[queue_id]
            for body in page.bodies.values():
                body.queue_ids &= page.queues.keys()
            if page.address is None or not page.needed:
                del self.by_number[number]
                self.unneeded.append(number)

    def bodies(self) -> set[int]:
        """The ids of the bodies of large messages that are needed."""
        return {body.record.body_id for page in self.by_number.values() for body in page.bodies.values() if body.queue_ids}
