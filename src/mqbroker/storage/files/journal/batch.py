"""A batch of the file store: its records, encoded as they come, and their changes, applied at the commit."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, PagedMessage, PageFolder, PagePlace, PageReader, QueueRecord, StoreBatch
from mqbroker.storage.files.bindings import address_key, address_value, queue_key, queue_value, setting_key, setting_value
from mqbroker.storage.files.branches import encode_record
from mqbroker.storage.files.journal.pages import PageQueue, Passage
from mqbroker.storage.files.largebodies import FileLargeBody
from mqclient.storageformat.page_records import encode_page_count, encode_page_schedule
from mqclient.storageformat.page_state import has_bit
from mqclient.storageformat.records import (
    ACKNOWLEDGE,
    ACKNOWLEDGED,
    ADDRESS_BINDING,
    MESSAGE,
    QUEUE_BINDING,
    SETTING_BINDING,
    SINGLE_REFERENCE,
    JsonValue,
    encode_binding,
    encode_binding_gone,
    encode_branch_ends,
    encode_delivery_count,
    encode_duplicate_gone,
    encode_duplicate_id,
    encode_duplicate_ids,
    encode_message_head,
    encode_schedule,
)
from mqclient.wire.primitives import encode_simple_string

ADDRESSES_KEPT = 10_000
"""Encoded addresses kept for comparison; beyond that the table starts anew."""

_single_reference = SINGLE_REFERENCE.pack
_acknowledged = ACKNOWLEDGED.pack
_SINGLE_SIZE = SINGLE_REFERENCE.size
_ACKNOWLEDGED_SIZE = ACKNOWLEDGED.size


class Change(IntEnum):
    """The changes that a batch makes in the store's index at its commit."""

    ADD = 0
    ACKNOWLEDGE = 1
    COUNT = 2
    SCHEDULE = 3
    PUT_DUPLICATE = 4
    DELETE_DUPLICATE = 5
    PUT_BINDING = 6
    DELETE_BINDING = 7
    PUT_BRANCH = 8
    ADD_PREPARED = 9
    END_BRANCH = 10


ADD = Change.ADD
ACK = Change.ACKNOWLEDGE


class PageWork:
    """The work of a batch on pages; nothing of it counts before :meth:`mqbroker.storage.files.pages.pager.FilePager.apply`.

    ``messages`` are (folder, message, queue ids, those that survive a restart, page size).  ``settled`` are ranges of messages in memory
    and ``passed`` ranges of messages that were not read, both as (a queue's part of a page, first index, indexes, messages, durable
    ones); ``reads`` is how far readers go past messages.  ``details`` are (part, index, delivery count or None, scheduled ms or None).
    """

    __slots__ = ("details", "messages", "passed", "reads", "settled")

    def __init__(self) -> None:
        self.messages: list[tuple[Any, Message, tuple[int, ...], tuple[int, ...], int]] = []
        self.settled: list[tuple[PageQueue, int, int, int, int]] = []
        self.passed: list[tuple[PageQueue, int, int, int, int]] = []
        self.reads: list[Passage] = []
        self.details: list[tuple[PageQueue, int, int | None, int | None]] = []

    def acknowledge(self, queue_id: int, message: Message) -> None:
        """Settle one message that was taken; neighbours become one range."""
        place: Any = message.store_state
        queue: PageQueue | None = place.page.queues.get(queue_id)
        index: int = place.index
        if queue is None or has_bit(queue.bits, index):
            return
        durable = int(message.durable and queue.durable_messages > 0)
        if self.settled:
            last, first, indexes, messages, durables = self.settled[-1]
            if last is queue and first + indexes == index and bool(durables) == bool(durable):
                self.settled[-1] = (queue, first, indexes + 1, messages + 1, durables + durable)
                return
        self.settled.append((queue, index, 1, 1, durable))

    def go_past(self, passage: Passage) -> None:
        """Settle what a reader passes without reading it."""
        self.passed += passage.ranges
        self.reads.append(passage)


class FileBatch(StoreBatch):
    """See :class:`mqbroker.messaging.ports.StoreBatch`.

    ``parts`` are ``size`` bytes of records for the journal of messages, ``bindings`` records for the other one.
    ``acknowledged`` is how many of the ``changes`` are acknowledgements.
    """

    __slots__ = ("_addresses", "acknowledged", "bindings", "bodies", "changes", "pages", "parts", "size")

    def __init__(self, addresses: dict[str, bytes]) -> None:
        self._addresses = addresses
        self.acknowledged = 0
        self.parts: list[bytes] = []
        self.size = 0
        self.bindings: list[bytes] | None = None
        self.bodies: list[FileLargeBody] | None = None
        self.changes: list[tuple[Change, Any, Any]] = []
        self.pages: PageWork | None = None

    @property
    def urgent(self) -> bool:
        """Is it written soon although nobody waits?  Not acknowledgements alone: without them a message comes twice at worst."""
        pages = self.pages
        return self.acknowledged < len(self.changes) or (pages is not None and bool(pages.messages or pages.details))

    def add_message(self, message: Message, queue_ids: Sequence[int]) -> None:
        buffer = message.buffer
        length = len(buffer)
        headers = message.headers
        if message.large is None and len(queue_ids) == 1:
            known = self._addresses.get(message.address)
            if known is not None and buffer.startswith(known, headers + 8):
                queue_id = queue_ids[0]
                self.parts += (_single_reference(MESSAGE, 0, headers, length, 1, queue_id), buffer)
                self.size += _SINGLE_SIZE + length
                self.changes.append((ADD, message, queue_id))
                return
        if not queue_ids:
            return
        self._message(message, message_head(message, queue_ids, self._addresses))
        plain = message.large is None and len(queue_ids) == 1
        self.changes.append((ADD, message, queue_ids[0] if plain else tuple(queue_ids)))

    def add_messages(self, messages: Sequence[Message], queue_ids: Sequence[int]) -> None:
        known = self._addresses.get(messages[0].address) if messages else None
        if known is None or len(queue_ids) != 1:
            for message in messages:
                self.add_message(message, queue_ids)
            return
        queue_id = queue_ids[0]
        address = messages[0].address
        parts, changes = self.parts, self.changes
        size = 0
        for message in messages:
            buffer = message.buffer
            headers = message.headers
            if message.address != address or message.large is not None or not buffer.startswith(known, headers + 8):
                self.add_message(message, queue_ids)
                continue
            length = len(buffer)
            parts.append(_single_reference(MESSAGE, 0, headers, length, 1, queue_id))
            parts.append(buffer)
            size += _SINGLE_SIZE + length
            changes.append((ADD, message, queue_id))
        self.size += size

    def acknowledge(self, queue_id: int, message: Message) -> None:
        if message.store_state.__class__ is PagePlace:
            self._page_work().acknowledge(queue_id, message)
            return
        self.parts.append(_acknowledged(ACKNOWLEDGE, queue_id, message.message_id))
        self.size += _ACKNOWLEDGED_SIZE
        self.acknowledged += 1
        self.changes.append((ACK, message, queue_id))

    def add_paged(self, folder: PageFolder, message: Message, queue_ids: Sequence[int], durable_ids: Sequence[int], page_size: int) -> None:
        self._page_work().messages.append((folder, message, tuple(queue_ids), tuple(durable_ids), page_size))

    def acknowledge_unread(self, reader: PageReader) -> int:
        passage: Passage = reader.unread()  # type: ignore[attr-defined]
        self._page_work().go_past(passage)
        return passage.messages

    def acknowledge_until(self, reader: PageReader, key: int) -> tuple[int, bool, list[PagedMessage]]:
        passage, more = reader.unread_until(key)  # type: ignore[attr-defined]
        self._page_work().go_past(passage)
        return passage.messages, more, passage.taken

    def delivery_count(self, queue_id: int, message: Message, count: int) -> None:
        if message.store_state.__class__ is PagePlace:
            self._page_detail(queue_id, message, count, None)
            return
        self._record(encode_delivery_count(queue_id, message.message_id, count), Change.COUNT, message, (queue_id, count))

    def schedule(self, queue_id: int, message: Message, time_ms: int) -> None:
        if message.store_state.__class__ is PagePlace:
            self._page_detail(queue_id, message, None, time_ms)
            return
        self._record(encode_schedule(queue_id, message.message_id, time_ms), Change.SCHEDULE, message, (queue_id, time_ms))

    def add_duplicate_id(self, cache: str, duplicate_id: bytes, record_id: int) -> None:
        record = encode_duplicate_id(record_id, cache, duplicate_id)
        self._record(record, Change.PUT_DUPLICATE, record_id, record)

    def add_duplicate_ids(self, cache: str, size: int, ids: bytes, record_id: int) -> None:
        record = encode_duplicate_ids(record_id, cache, size, ids)
        self._record(record, Change.PUT_DUPLICATE, record_id, record)

    def delete_duplicate_id(self, record_id: int) -> None:
        self._record(encode_duplicate_gone(record_id), Change.DELETE_DUPLICATE, record_id, None)

    def put_branch(self, record: BranchRecord) -> None:
        encoded = encode_record(record)
        self._record(encoded, Change.PUT_BRANCH, record.branch_id, encoded)

    def add_prepared(self, branch_id: int, message: Message, queue_ids: Sequence[int]) -> None:
        if queue_ids:
            self._message(message, message_head(message, queue_ids, self._addresses, branch_id=branch_id))
            self.changes.append((Change.ADD_PREPARED, message, (branch_id, tuple(queue_ids))))

    def end_branch(self, branch_id: int, commit: bool) -> None:
        self._record(encode_branch_ends(branch_id, commit), Change.END_BRANCH, branch_id, commit)

    def put_address(self, record: AddressRecord) -> None:
        self._put(ADDRESS_BINDING, address_value(record), address_key(record.address_id))

    def delete_address(self, address_id: int) -> None:
        self._delete(ADDRESS_BINDING, address_key(address_id))

    def put_queue(self, record: QueueRecord) -> None:
        self._put(QUEUE_BINDING, queue_value(record), queue_key(record.queue_id))

    def delete_queue(self, queue_id: int) -> None:
        self._delete(QUEUE_BINDING, queue_key(queue_id))

    def put_setting(self, kind: str, key: str, value: str) -> None:
        self._put(SETTING_BINDING, setting_value(kind, key, value), setting_key(kind, key))

    def delete_setting(self, kind: str, key: str) -> None:
        self._delete(SETTING_BINDING, setting_key(kind, key))

    def _message(self, message: Message, head: bytes) -> None:
        body = message.large
        if body is not None:
            assert isinstance(body, FileLargeBody), "a large message's body must come from this store"
            self.bodies = [body] if self.bodies is None else [*self.bodies, body]
        self.parts += (head, message.buffer)
        self.size += len(head) + len(message.buffer)

    def _page_work(self) -> PageWork:
        if self.pages is None:
            self.pages = PageWork()
        return self.pages

    def _page_detail(self, queue_id: int, message: Message, count: int | None, time_ms: int | None) -> None:
        """A delivery count or a schedule; there is nothing to say of messages that do not outlive the broker."""
        place: Any = message.store_state
        queue = place.page.queues.get(queue_id)
        if queue is None or not message.durable or not queue.durable_messages:
            return
        number = place.page.number
        if count is not None:
            record = encode_page_count(queue_id, number, place.index, count)
        else:
            record = encode_page_schedule(queue_id, number, place.index, time_ms or 0)
        self.parts.append(record)
        self.size += len(record)
        self._page_work().details.append((queue, place.index, count, time_ms))

    def _record(self, record: bytes, change: Change, subject: object, value: object) -> None:
        self.parts.append(record)
        self.size += len(record)
        self.changes.append((change, subject, value))

    def _put(self, what: int, value: dict[str, JsonValue], key: dict[str, JsonValue]) -> None:
        record = encode_binding(what, value)
        self._binding(record, Change.PUT_BINDING, (what, *key.values()), record)

    def _delete(self, what: int, key: dict[str, JsonValue]) -> None:
        self._binding(encode_binding_gone(what, key), Change.DELETE_BINDING, (what, *key.values()), None)

    def _binding(self, record: bytes, change: Change, key: object, value: object) -> None:
        if self.bindings is None:
            self.bindings = []
        self.bindings.append(record)
        self.changes.append((change, key, value))


def message_head(message: Message, queue_ids: Sequence[int], addresses: dict[str, bytes], moved: bool = False, branch_id: int = 0) -> bytes:
    """The record of a message up to its buffer; the address goes into it only where it differs from the buffer's."""
    address = message.address
    known = addresses.get(address)
    if known is None:
        if len(addresses) >= ADDRESSES_KEPT:
            addresses.clear()
        known = addresses[address] = b"\x01" + encode_simple_string(address)
    same = message.buffer.startswith(known, message.headers + 8)
    body = message.large
    return encode_message_head(
        message.headers,
        len(message.buffer),
        queue_ids,
        None if same else address,
        None if body is None else (body.body_id, body.size),
        moved,
        branch_id,
    )
