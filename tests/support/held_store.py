"""A store in memory that tells what it was given, and holds it back when it is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqbroker.messaging.event import Event
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, QueueRecord


class RecordedBatch:
    """Keeps what it is told as tuples."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []

    def add_message(self, message: Message, queue_ids: Sequence[int]) -> None:
        self.entries.append(("message", message.message_id, tuple(queue_ids)))

    def add_messages(self, messages: Sequence[Message], queue_ids: Sequence[int]) -> None:
        for message in messages:
            self.add_message(message, queue_ids)

    def acknowledge(self, queue_id: int, message: Message) -> None:
        self.entries.append(("ack", queue_id, message.message_id))

    def delivery_count(self, queue_id: int, message: Message, count: int) -> None:
        self.entries.append(("count", queue_id, message.message_id, count))

    def schedule(self, queue_id: int, message: Message, time_ms: int) -> None:
        self.entries.append(("schedule", queue_id, message.message_id, time_ms))

    def add_duplicate_id(self, cache: str, duplicate_id: bytes, record_id: int) -> None:
        self.entries.append(("duplicate", cache, duplicate_id))

    def add_duplicate_ids(self, cache: str, size: int, ids: bytes, record_id: int) -> None:
        for at in range(0, len(ids), size):
            self.add_duplicate_id(cache, ids[at : at + size], record_id)

    def delete_duplicate_id(self, record_id: int) -> None:
        self.entries.append(("forget duplicate", record_id))

    def put_branch(self, record: BranchRecord) -> None:
        self.entries.append(("branch", record.branch_id, record.xid, record.state, record.acknowledged, record.duplicate_ids))

    def add_prepared(self, branch_id: int, message: Message, queue_ids: Sequence[int]) -> None:
        self.entries.append(("prepared", branch_id, message.message_id, tuple(queue_ids)))

    def end_branch(self, branch_id: int, commit: bool) -> None:
        self.entries.append(("end branch", branch_id, commit))

    def put_address(self, record: AddressRecord) -> None:
        self.entries.append(("address", record.name))

    def delete_address(self, address_id: int) -> None:
        self.entries.append(("delete address", address_id))

    def put_queue(self, record: QueueRecord) -> None:
        self.entries.append(("queue", record.name))

    def delete_queue(self, queue_id: int) -> None:
        self.entries.append(("delete queue", queue_id))

    def put_setting(self, kind: str, key: str, value: str) -> None:
        self.entries.append(("setting", kind, key, value))

    def delete_setting(self, kind: str, key: str) -> None:
        self.entries.append(("delete setting", kind, key))


class HeldStore:
    """Hands out tickets; nothing is durable before :meth:`sync` when ``held`` is true."""

    node_id = "node"
    failed = False
    pager = None

    def __init__(self) -> None:
        self.synced = 0
        self.overfull: Event[bool] = Event()
        self.held = False
        self.log: list[tuple[Any, ...]] = []
        self.bodies: dict[int, FakeBody] = {}
        self._last = 0
        self._ids = 1000
        self._waiting: list[tuple[int, Callable[..., object], tuple[Any, ...]]] = []

    def write_at_end_of(self, turn: object) -> None:
        """Batches are kept when they are committed."""

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def begin(self) -> RecordedBatch:
        return RecordedBatch()

    def commit(self, batch: Any) -> int:
        self._last += 1
        self.log.append(tuple(batch.entries))
        if not self.held:
            self.synced = self._last
        return self._last

    def ticket(self) -> int:
        return self._last

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        if not self._waiting and ticket <= self.synced:
            function(*args)
        else:
            self._waiting.append((ticket, function, args))

    def sync(self, ticket: int | None = None) -> None:
        """Everything up to ``ticket`` (None = all) is durable."""
        self.synced = self._last if ticket is None else ticket
        while self._waiting and self._waiting[0][0] <= self.synced:
            _, function, args = self._waiting.pop(0)
            function(*args)

    def create_large_body(self, body_id: int) -> FakeBody:
        self.bodies[body_id] = FakeBody(body_id)
        return self.bodies[body_id]

    def entries(self, kind: str) -> list[tuple[Any, ...]]:
        return [entry for batch in self.log for entry in batch if entry[0] == kind]


class FakeBody:
    def __init__(self, body_id: int) -> None:
        self.body_id = body_id
        self.content = bytearray()
        self.holders = 1

    @property
    def size(self) -> int:
        return len(self.content)

    def append(self, chunk: bytes) -> None:
        self.content += chunk

    def complete(self) -> None: ...

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.content[offset : offset + size])

    def hold(self) -> None:
        self.holders += 1

    def release(self) -> None:
        self.holders -= 1
