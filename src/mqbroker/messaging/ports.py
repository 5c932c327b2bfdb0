"""The needs of the messaging core that the layers above it fill: time, a store, bodies of large messages.

Completions are plain callbacks.  A *ticket* is a number that the store hands out for each piece of work; tickets ascend, and all work up to
a ticket is durable once the store's ``synced`` has reached that ticket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from mqbroker.messaging.event import Event
from mqbroker.messaging.message.large_body import LargeBody
from mqbroker.messaging.message.message import Message
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


class PagePlace:
    """The ``store_state`` of a message that was read from a page: which page, and its index there."""

    __slots__ = ("index", "page")

    def __init__(self, page: Any, index: int) -> None:
        self.page = page
        self.index = index


class PagedMessage(NamedTuple):
    """A message as a page has it for one queue.  ``scheduled`` replaces the message's own delivery time; None = that holds."""

    message: Message
    delivery_count: int
    scheduled: int | None


class PagedRows(NamedTuple):
    """Messages of a queue in a piece of a page, in columns, not decoded.

    ``keys`` ascend: each is the message's id, or a greater id of an earlier message.  ``counts`` (deliveries), ``bodies`` (of large
    messages) and ``scheduled`` are by row number.  A scheduled message has its place and the stored delivery time; -1 = the message's own
    time holds.
    """

    keys: list[int]
    ids: list[int]
    buffers: list[bytes]
    counts: dict[int, int]
    bodies: dict[int, LargeBody]
    scheduled: dict[int, tuple[PagePlace, int]]


class PageScan(Protocol):
    """Reads a queue's messages in the pages of an address, without taking any."""

    def copy(self) -> PageScan:
        """A PageScan at the same place."""

    def read(self, after: int = 0) -> PagedRows | None:
        """The next piece; pages with nothing but keys up to ``after`` may be left out.  None at the end, where more may come later.

        Raises NotYet.
        """


class PageReader(Protocol):
    """How far a queue has read in the pages of an address; each message is read once."""

    def read(self) -> list[PagedMessage] | None:
        """The queue's messages in the next piece of the pages, a bounded number; None at the end.  The queue has to settle them.

        Settled messages are left out.  ``store_state`` of a message is its :class:`PagePlace`.  A large message without another holder is
        held once.  Raises :class:`~mqbroker.messaging.message.not_yet.NotYet`.
        """

    def look(self, other: PageReader | None = None) -> PageReader:
        """A read-only copy at this position, for browsing; returns ``other`` if that is already further on."""

    def scan(self) -> PageScan:
        """A scan that begins where this reader stands."""

    def take(self, message: Message) -> None:
        """The queue takes a message that was looked at and that it has not read yet; it will not be read again."""

    def passed(self, place: PagePlace) -> bool:
        """Was this place read before now, or, by a queue, taken?"""


class PageListener(Protocol):
    """Whom a :class:`PageFolder` tells."""

    def arrived(self, queue_id: int, messages: int) -> None:
        """So many messages of a queue are durable in the pages, and can be read."""

    def lost(self, queue_id: int, messages: int) -> None:
        """So many messages of a queue, which were counted, cannot be read: they are set aside."""

    def emptied(self) -> None:
        """The last page is gone."""


class PageFolder(Protocol):
    """The pages of one address."""

    address: str
    listener: PageListener | None

    @property
    def messages(self) -> int:
        """All messages in existing pages; settled ones may be among them."""

    @property
    def page_count(self) -> int: ...

    def queue_ids(self) -> Iterable[int]:
        """The queues that something is left for."""

    def remaining(self, queue_id: int, durable: bool = False) -> int:
        """Number of messages that a queue has not read or settled; with ``durable`` only messages that survive a restart."""

    def reader(self, queue_id: int) -> PageReader:
        """A reader at the queue's first message that is left."""

    def forget(self, queue_id: int) -> None:
        """The queue is gone."""


class Pager(Protocol):
    """The pages in which messages of full addresses wait on the disk.  ``backlog`` are bytes handed over that are not durable yet.

    ``drained`` tells whenever the backlog has become less.
    """

    backlog: int
    drained: Event[()]

    def folder(self, address: str) -> PageFolder:
        """The folder of an address; it gets files with its first message."""

    def folders(self) -> Sequence[PageFolder]:
        """The folders of addresses that have pages."""


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
    """A stored branch is in doubt, or management has decided without its transaction manager."""

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
    """The data that survived.  Messages ascend by id; each has at least one reference.  Branches ascend by id."""

    addresses: list[AddressRecord] = field(default_factory=list)
    queues: list[QueueRecord] = field(default_factory=list)
    messages: list[tuple[Message, list[RecoveredReference]]] = field(default_factory=list)
    duplicate_ids: list[RecoveredDuplicateId] = field(default_factory=list)
    branches: list[RecoveredBranch] = field(default_factory=list)
    settings: dict[tuple[str, str], str] = field(default_factory=dict)
    """Settings that management has stored: (kind, key) to a JSON text."""
    inherited: list[Inherited] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    """Places of records of branches that cannot be read, for a person; they say nothing of the branches."""


@dataclass(slots=True)
class Inherited:
    """Data that another broker had, and this one has now, with all messages in their place.

    ``found`` has the ids of that broker's queues.  ``assign`` is called once all of them are there: it takes the ids that they have here,
    by the ids that they had there; None = the queue was deleted meanwhile, and goes with all that it had.  From then on the messages of the
    others are in the pages, before all others; it returns how many came, by address and (own) queue id.
    """

    found: Recovered
    assign: Callable[[Mapping[int, int | None]], dict[tuple[str, int], int]]


class StoreBatch(Protocol):
    """Work that becomes durable as a whole or not at all.  A batch has no effect before :meth:`Store.commit`.

    The caller holds the body of a large message until the commit, which holds it for the store.
    """

    def add_message(self, message: Message, queue_ids: Sequence[int]) -> None:
        """A message and its references on durable queues."""

    def add_messages(self, messages: Sequence[Message], queue_ids: Sequence[int]) -> None:
        """As :meth:`add_message` for each of them."""

    def acknowledge(self, queue_id: int, message: Message) -> None:
        """The reference is done with; a message without references is forgotten."""

    def add_paged(self, folder: PageFolder, message: Message, queue_ids: Sequence[int], durable_ids: Sequence[int], page_size: int) -> None:
        """A message for the pages of its address, for all of ``queue_ids``; a restart is survived on ``durable_ids`` alone.

        A page that would exceed ``page_size`` bytes is left.  The listener of ``folder`` hears of it once it is durable.
        """

    def acknowledge_unread(self, reader: PageReader) -> int:
        """The messages that ``reader`` has still to read are done with, as far as they are durable.  Returns the number of messages."""

    def acknowledge_until(self, reader: PageReader, key: int) -> tuple[int, bool, list[PagedMessage]]:
        """Acknowledge the next piece of unread messages of ``reader``, up to this key (see :class:`PagedRows`).

        Returns the number of messages, whether there may be more, and the scheduled messages in the piece, which the queue takes instead.
        Raises NotYet, with the batch unchanged.
        """

    def delivery_count(self, queue_id: int, message: Message, count: int) -> None: ...

    def schedule(self, queue_id: int, message: Message, time_ms: int) -> None:
        """The reference is to be delivered at ``time_ms`` (0 = at once)."""

    def add_duplicate_id(self, cache: str, duplicate_id: bytes, record_id: int) -> None: ...

    def add_duplicate_ids(self, cache: str, size: int, ids: bytes, record_id: int) -> None:
        """Several ids of ``size`` bytes each, oldest first, as one record."""

    def delete_duplicate_id(self, record_id: int) -> None:
        """Forget the record ``record_id``: one duplicate id, or all that were added together."""

    def put_branch(self, record: BranchRecord) -> None:
        """Keep a branch: a prepared one, or how it was decided without its transaction manager."""

    def add_prepared(self, branch_id: int, message: Message, queue_ids: Sequence[int]) -> None:
        """As :meth:`add_message`, for a message that does not count before its branch is committed."""

    def end_branch(self, branch_id: int, commit: bool) -> None:
        """End a branch: its messages become visible (``commit``) or are dropped.  Its acknowledgements are settled separately."""

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


class Condition(Protocol):
    """One of the things that must hold before work counts as durable."""

    def hold(self, ticket: int) -> None:
        """The condition holds for the work up to ``ticket``."""

    def withdraw(self) -> None:
        """The condition need not hold any more."""


class WritingTurn(Protocol):
    """The turn of the event loop as a store knows it: ``active`` is true during one, and ``ended`` tells of its end."""

    active: bool
    ended: Event[()]

    def run(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` in a turn."""


class Store(Protocol):
    """Keeps messages durably.  After a failed write ``failed`` is true, ``synced`` never moves again, and no work may be acknowledged.

    A store is made with a function that is called once, with the reason, when the store fails or is fenced.  A store is opened, loaded and
    stopped once, and may not be used after :meth:`stop`, :meth:`abort` or :meth:`withdraw`.
    """

    node_id: str
    failed: bool
    synced: int
    """The highest ticket whose work is durable."""
    overfull: Event[bool]
    """More work is on its way (True) than one of the places takes where it is kept: producers are to wait until that has an end (False)."""

    @property
    def pager(self) -> Pager | None:
        """None: this store has no pages, and messages of full addresses stay in memory."""

    def next_id(self) -> int:
        """A number for a message, queue, address or record; ascends strictly, also across restarts, and is never used twice."""

    def begin(self) -> StoreBatch: ...

    def commit(self, batch: StoreBatch) -> int:
        """Hand a batch over for writing; returns its ticket."""

    def ticket(self) -> int:
        """The ticket of the work handed over last."""

    def when_synced(self, ticket: int, function: Callable[..., object], *args: Any) -> None:
        """Call ``function`` once ``synced`` has reached ``ticket``: now, if it has and no other function waits, else in the order of these
        calls.

        Waiters of one written batch are called together, in order.  Never called after a failure.
        """

    def demand(self, name: str) -> Condition:
        """Let the work that is handed over from now on wait for one more condition, besides that the store has kept it.

        As long as the condition holds for nothing the store stalls: nothing fails, and work that needs no durability goes on.
        """

    def fence(self, reason: str) -> None:
        """Another store may have taken the place: this one hands nothing more to it, and ends as after a failed write.

        A write that is under way may still arrive.  Before :meth:`load` it makes that raise.
        """

    def create_large_body(self, body_id: int) -> LargeBody: ...

    # The life of a store.

    def open(self) -> None:
        """Take the place where the messages are, and learn the node id.  Raises StorageError (``mqbroker.storage.errors``) and OSError."""

    def load(self) -> Recovered:
        """Read the stored state, and become ready.  Raises the errors of :meth:`open`; the place is free again then, and unchanged.

        No read raises NotYet before the loop's next turn after :meth:`write_at_end_of`, because the start reads the paged messages that
        branches hold.
        """

    def write_at_end_of(self, turn: WritingTurn) -> None:
        """From now on write the work of each turn at the turn's end."""

    def stop(self, done: Callable[[], object]) -> None:
        """Write all remaining work and free the place, then call ``done``, also after a failure.  Other conditions of durability are not
        awaited."""

    def abort(self) -> None:
        """Leave at once: write nothing more, and call no waiting function."""

    def withdraw(self) -> None:
        """As :meth:`abort`, for a start that failed after :meth:`load`: undo the writes of that start."""
