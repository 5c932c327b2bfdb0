"""What the messaging core needs of the layers above it: time, a store, bodies of large messages.

Completions are plain callbacks.  A *ticket* is a number that the store hands out for everything it is told to keep; tickets ascend,
and all work up to a ticket is durable once the store's ``synced`` has reached it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from mqbroker.messaging.message import Message
from mqclient.wire.primitives import Xid


class Cancellable(Protocol):
    """A call that is due later and may be taken back."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time: a monotonic clock for intervals and a wall clock for expiry and schedules."""

    def monotonic(self) -> float:
        """Seconds, never stepping back."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> Cancellable: ...


class LargeBody(Protocol):
    """The body of a large message, outside memory.  ``size`` is what was appended so far, in bytes.

    Several messages may share one body (a copy in a dead letter queue); each holds it once.
    """

    body_id: int
    size: int

    def append(self, chunk: bytes) -> None: ...

    def complete(self) -> None:
        """Nothing more will be appended; what is there becomes durable no later than the record of a message that uses it."""

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``; raises OSError when the file is damaged."""

    def hold(self) -> None:
        """One more message uses this body."""

    def release(self) -> None:
        """A message stopped using it; the last one removes it."""


@dataclass(slots=True)
class AddressRecord:
    """An address as the bindings keep it."""

    address_id: int
    name: str
    routing_types: frozenset[int]
    auto_created: bool = False


@dataclass(slots=True)
class QueueRecord:
    """A durable queue as the bindings keep it.  ``attributes`` are the queue attributes by name (JSON types)."""

    queue_id: int
    name: str
    address: str
    routing_type: int
    filter_string: str | None = None
    attributes: dict[str, bool | int | str | None] = field(default_factory=dict)


@dataclass(slots=True)
class RecoveredReference:
    """A message on a queue, as it was when the broker stopped.  ``scheduled`` is ms since the epoch, 0 = at once."""

    queue_id: int
    delivery_count: int = 0
    scheduled: int = 0


@dataclass(slots=True)
class RecoveredDuplicateId:
    """An entry of a duplicate id cache; entries are listed oldest first."""

    cache: str
    duplicate_id: bytes
    record_id: int


class BranchState(IntEnum):
    """What the store keeps of a branch: it is in doubt, or somebody has decided without its transaction manager."""

    PREPARED = 0
    COMMITTED = 1
    ROLLED_BACK = 2


@dataclass(slots=True)
class BranchRecord:
    """A branch of an XA transaction as the store keeps it.

    ``time_ms`` is when it began (ms since the epoch), ``acknowledged`` are (queue id, message id) of the references that it holds,
    ``duplicate_ids`` the record ids of the duplicate ids that came with it.
    """

    branch_id: int
    xid: Xid
    state: BranchState
    time_ms: int
    acknowledged: tuple[tuple[int, int], ...] = ()
    duplicate_ids: tuple[int, ...] = ()


@dataclass(slots=True)
class RecoveredBranch:
    """A branch with the messages that count once it is committed; they ascend by id, and each has at least one reference."""

    record: BranchRecord
    messages: list[tuple[Message, list[RecoveredReference]]] = field(default_factory=list)


@dataclass(slots=True)
class Recovered:
    """Everything that survived.  Messages ascend by id; each has at least one reference.  Branches ascend by id."""

    addresses: list[AddressRecord] = field(default_factory=list)
    queues: list[QueueRecord] = field(default_factory=list)
    messages: list[tuple[Message, list[RecoveredReference]]] = field(default_factory=list)
    duplicate_ids: list[RecoveredDuplicateId] = field(default_factory=list)
    branches: list[RecoveredBranch] = field(default_factory=list)
    settings: dict[tuple[str, str], str] = field(default_factory=dict)
    """What management stored: (kind, key) to a JSON text."""


class StoreBatch(Protocol):
    """Work that becomes durable as a whole or not at all.  Nothing happens before :meth:`Store.commit`."""

    def add_message(self, message: Message, queue_ids: Sequence[int]) -> None:
        """A message and its references on durable queues."""

    def add_messages(self, messages: Sequence[Message], queue_ids: Sequence[int]) -> None:
        """As :meth:`add_message` for each of them."""

    def acknowledge(self, queue_id: int, message: Message) -> None:
        """The reference is done with; a message without references is forgotten."""

    def delivery_count(self, queue_id: int, message: Message, count: int) -> None: ...

    def schedule(self, queue_id: int, message: Message, time_ms: int) -> None:
        """The reference is to be delivered at ``time_ms`` (0 = at once)."""

    def add_duplicate_id(self, cache: str, duplicate_id: bytes, record_id: int) -> None: ...

    def delete_duplicate_id(self, record_id: int) -> None: ...

    def put_branch(self, record: BranchRecord) -> None:
        """Keep a branch: a prepared one, or how it was decided without its transaction manager."""

    def add_prepared(self, branch_id: int, message: Message, queue_ids: Sequence[int]) -> None:
        """As :meth:`add_message`, for a message that does not count before its branch is committed."""

    def end_branch(self, branch_id: int, commit: bool) -> None:
        """The branch is done with: its messages count from now on, or they are gone.  What it acknowledged is not settled by this."""

    def put_address(self, record: AddressRecord) -> None:
        """Add an address, or replace the one with this id."""

    def delete_address(self, address_id: int) -> None: ...

    def put_queue(self, record: QueueRecord) -> None:
        """Add a queue, or replace the one with this id."""

    def delete_queue(self, queue_id: int) -> None:
        """The queue and all references on it are gone."""

    def put_setting(self, kind: str, key: str, value: str) -> None:
        """Keep something that management set (address settings, users, …) as a JSON text."""

    def delete_setting(self, kind: str, key: str) -> None: ...


class Store(Protocol):
    """Where messages survive.  After a failed write ``failed`` is true, ``synced`` never moves again, and nothing may be acknowledged."""

    node_id: str
    failed: bool
    synced: int
    """The highest ticket whose work is durable."""

    def next_id(self) -> int:
        """A number for a message, queue, address or record; ascends strictly, also across restarts, and is never used twice."""

    def begin(self) -> StoreBatch: ...

    def commit(self, batch: StoreBatch) -> int:
        """Hand a batch over for writing; returns its ticket."""

    def ticket(self) -> int:
        """The ticket of the work handed over last."""

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` once ``synced`` has reached ``ticket``: at once if it has and nobody waits, else in the order of these calls.

        Waiters of one written batch are called together, in order.  Never called after a failure.
        """

    def create_large_body(self, body_id: int) -> LargeBody: ...
