"""A connection to one broker, for the driver and the executors of Spark: calls that wait, errors of one sentence, and patience.

    for node in nodes(options):
        with connect(options, node) as broker:
            found = broker.survey("orders", -1)
            for block in broker.blocks("orders", found.after, found.until): ...

A call whose connection is lost is made again over a new one, for ``reconnectTimeout``: every call here may be made twice without harm,
unless it says otherwise.  The first connection of a query gets ``connectTimeout`` only, so that a wrong address is noticed at once.

Between calls nothing runs: a broker hears nothing meanwhile, and ends the connection after its time to live (60 s unless the URL says
otherwise); the next call then opens another.  A ``Broker`` belongs to one thread of one process and cannot be pickled; a :class:`Node` can.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypedDict, TypeVar, Unpack

from mqclient.core.api import (
    ROUTING_ANYCAST,
    ROUTING_MULTICAST,
    AddressQueryResult,
    QueueConfiguration,
    QueueQueryResult,
)
from mqclient.core.readers import MessageBlock
from mqclient.core.runtime import new_uuid
from mqclient.core.session.session import Session
from mqclient.errors import QueueExistsError
from mqclient.management import Management, ManagementError
from mqclient.wire.packets import READ_BYTES_MAX, START_OLDEST, IdCacheState, ReaderRange, ReaderState
from mqspark.broker.connection import Connection
from mqspark.broker.nodes import Node
from mqspark.errors import BadOptionError, MqsparkError, PermissionDeniedError, ReaderMissingError
from mqspark.options import Options

T = TypeVar("T")
ID_CACHE_DEFAULT: Final = 20_000
"""Duplicate ids that Artemis keeps for an address unless its configuration says otherwise."""
_log = logging.getLogger(__name__)


def nodes(options: Options, *, patient: bool = False) -> list[Node]:
    """Every broker of the cluster that ``url`` leads to, in the order of their node ids; of a broker that is alone just that one.

    ``patient``: wait for a broker as long as a running query may.  Raises :class:`BrokerUnreachableError`, :class:`LoginError`.
    """
    with connect(options, patient=patient) as broker:
        return broker.members()


def connect(options: Options, node: Node | None = None, *, patient: bool | None = None, **settings: Any) -> Broker:
    """Connect and log in.

    Without ``node``: to any broker that ``url`` names, within ``connectTimeout``; with it to that one, within ``reconnectTimeout``, because
    it was there when the query began.  ``patient`` chooses the limit otherwise.  ``settings`` are fields of
    :class:`mqclient.core.api.LocatorSettings` that win over the URL.

    Raises :class:`BrokerUnreachableError` and :class:`LoginError`.
    """
    broker = Broker(options, node, settings)
    try:
        broker.open((node is not None) if patient is None else patient)
    except BaseException:
        broker.close()
        raise
    return broker


class Limits(TypedDict, total=False):
    """Upper limits of a range: it ends at the id ``until``, with so many messages or bytes; -1, as by default: no limit.

    ``parts``: how many parts of similar size its ``ends`` tell at most, 1 by default.
    """

    until: int
    max_messages: int
    max_bytes: int
    parts: int


class Broker(Connection):
    """Made by :func:`connect`.  Every method raises errors of :mod:`mqspark.errors`, unless it says otherwise."""

    def __init__(self, options: Options, node: Node | None, settings: dict[str, Any]) -> None:
        super().__init__(options, node, settings)
        self._has_readers: bool | None = None
        self._management: tuple[Session, Management] | None = None
        """The session whose connection management runs on, and management; None before the first operation."""

    @property
    def has_readers(self) -> bool:
        """Does the broker know named readers?  mqbroker does, Artemis does not."""
        if self._has_readers is None:
            self._has_readers = self.call("asking for readers", lambda session: session.readers.supported())
        return self._has_readers

    # --- readers

    def open_reader(self, queue: str, reader: str, start: int = START_OLDEST) -> ReaderState:
        """Take over a reader, which is made if the queue has none of that name; an earlier user of the reader is fenced.

        ``start``, for a new one: -1 before the oldest message, -2 behind the newest, n after message n.  Raises :class:`MissingQueueError`,
        :class:`ReaderRefusedError`, :class:`PermissionDeniedError`.
        """
        return self.call(f"opening reader {reader} of queue {queue}", lambda session: session.readers.open(queue, reader, start))

    def reader_state(self, queue: str, reader: str, position: int) -> tuple[int, int, int]:
        """(epoch, settled, reserved) of a reader that has come to ``position``: without opening it, if the user may manage the broker.

        Raises :class:`ReaderMissingError`.
        """
        missing = ReaderMissingError(f"queue {queue} has no reader {reader}: it was removed")
        try:
            rows = json.loads(self.manage("broker", "listReaders", queue, repeat=True))
            row = next((each for each in rows if each["name"] == reader), None)
            if row is None:
                raise missing
            return row["epoch"], row["settled"], row["reserved"]
        except PermissionDeniedError as error:
            _log.info("%s; opening the reader instead", error)
        state = self.open_reader(queue, reader, position)
        if state.epoch == 1:
            # Opening has made the reader anew: a reader that was removed must not come back and hold messages for ever.
            self.remove_reader(queue, reader)
            raise missing
        return state.epoch, state.settled, state.reserved

    def handed_out(self, queue: str, after: int, until: int) -> None:
        """The ids of the messages of a range, where positions are no ids; here they are, and all of them belong to it."""

    def reserve(self, queue: str, reader: str, epoch: int, after: int, **limits: Unpack[Limits]) -> ReaderRange:
        """Get the range behind ``after``, and keep it for the reader.  Raises :class:`FencedError`."""
        doing = f"reserving messages of queue {queue} for reader {reader}"
        return self.call(doing, lambda session: session.readers.reserve(queue, reader, epoch, after, **limits))

    def survey(self, queue: str, after: int, **limits: Unpack[Limits]) -> ReaderRange:
        """As :meth:`reserve`, but no message is kept for a reader."""
        return self.call(f"looking through queue {queue}", lambda session: session.readers.survey(queue, after, **limits))

    def read(self, queue: str, after: int, until: int, *, max_bytes: int = READ_BYTES_MAX, selector: str | None = None) -> MessageBlock:
        """The next messages of a range (after, until], at most ``max_bytes`` of them, but at least one.  The messages stay in the queue."""

        doing = f"reading queue {queue}"
        return self.call(doing, lambda session: session.readers.read(queue, after, until, max_bytes=max_bytes, filter_string=selector))

    def check_selector(self, queue: str, selector: str) -> None:
        """Raise BadOptionError when the broker does not understand the option ``selector``."""
        try:
            self.read(queue, 0, 0, selector=selector)
        except BadOptionError as error:
            raise BadOptionError(f"the option selector: {error}") from error

    def blocks(
        self, queue: str, after: int, until: int, *, max_bytes: int = READ_BYTES_MAX, selector: str | None = None
    ) -> Iterator[MessageBlock]:
        """A range (after, until] block by block; the next one is on its way while the caller deals with the last."""
        position = after
        reading: Any = None
        over: Session | None = None

        def step(session: Session) -> Awaitable[MessageBlock | None]:
            nonlocal reading, over
            if over is not session:
                over = session
                reading = session.readers.blocks(queue, position, until, max_bytes=max_bytes, filter_string=selector)
            following: Awaitable[MessageBlock | None] = reading.next()
            return following

        while position < until:
            block = self.call(f"reading queue {queue}", step)
            if block is None:
                return
            position = block.position
            yield block

    def body(self, queue: str, message_id: int, offset: int, size: int = READ_BYTES_MAX) -> bytes:
        """A piece of the body of a large message, at most 4 MiB; shorter than ``size`` only where the body ends."""
        doing = f"reading the body of message {message_id} of queue {queue}"
        return self.call(doing, lambda session: session.readers.body(queue, message_id, offset, size))

    def settle(self, queue: str, reader: str, epoch: int, until: int) -> None:
        """The reader is done with everything up to ``until``; durable when this returns.  Raises :class:`FencedError`."""
        doing = f"settling messages of queue {queue} for reader {reader}"
        self.call(doing, lambda session: session.readers.settle(queue, reader, epoch, until))

    def remove_reader(self, queue: str, reader: str) -> None:
        """Forget the reader; messages that it had not settled stay in the queue."""
        self.call(f"removing reader {reader} of queue {queue}", lambda session: session.readers.remove(queue, reader))

    # --- addresses and queues

    def queue_query(self, queue: str) -> QueueQueryResult:
        return self.call(f"asking for queue {queue}", lambda session: session.queue_query(queue))

    def address_query(self, address: str) -> AddressQueryResult:
        return self.call(f"asking for address {address}", lambda session: session.address_query(address))

    def create_queue(self, name: str, address: str | None = None, *, multicast: bool = False, selector: str | None = None) -> None:
        """Create a durable queue unless there is one of that name.  ``address`` None: the same as ``name``."""
        routing = ROUTING_MULTICAST if multicast else ROUTING_ANYCAST
        configuration = QueueConfiguration(name=name, address=address, routing_type=routing, filter_string=selector, auto_delete=False)

        async def create(session: Session) -> None:
            try:
                await session.create_queue(configuration)
            except QueueExistsError:
                return

        self.call(f"creating queue {name}", create)

    def subscribe_topic(self, topic: str, subscription: str, selector: str | None = None) -> str:
        """Create the queue of a durable subscription unless it is there, and give its name, which is that of a shared JMS subscription.

        Raises :class:`BadOptionError` when it belongs to another topic, or has another selector than one that is asked for.
        """
        # The package of JMS imports Twisted, which takes a quarter of the time that a process of Spark needs to begin here.
        from mqclient.jms.subscriptions import subscription_queue

        name = subscription_queue(None, subscription, durable=True)
        found = self.queue_query(name)
        if not found.exists:
            try:
                self.create_queue(name, topic, multicast=True, selector=selector)
            except BadOptionError as error:
                raise BadOptionError(f"the option selector: {error}") from error
            found = self.queue_query(name)
        if found.exists and found.address != topic:
            raise BadOptionError(
                f"the subscription {subscription} belongs to the address {found.address}, not to {topic}: choose another name"
            )
        if selector is not None and (found.filter_string or None) != selector:
            raise BadOptionError(
                f"the subscription {subscription} has the selector {found.filter_string!r}, not {selector!r}: choose another name, "
                "or delete the queue"
            )
        return name

    def id_cache(self, address: str) -> IdCacheState:
        """The cache of duplicate ids of ``address``.  For an Artemis that this user may not manage the default is assumed."""
        if self.has_readers:
            return self.call(f"asking for the duplicate id cache of {address}", lambda session: session.readers.id_cache(address))
        reason: object = "its answer has no number"
        try:
            persisted = bool(self.attribute("broker", "PersistIDCache"))
            text = self.manage("broker", "getAddressSettingsAsJSON", address, repeat=True)
            size = cache_size_of(text) or cache_size_of({"idCacheSize": self.attribute("broker", "IDCacheSize")})
            if size is not None:
                return IdCacheState(size, persisted)
        except MqsparkError as error:
            reason = error
        text = "%s does not say how many duplicate ids it keeps for %s (%s): the default, %d, is assumed"
        _log.warning(text, self.place, address, reason, ID_CACHE_DEFAULT)
        return IdCacheState(ID_CACHE_DEFAULT, True)

    # --- management

    def manage(self, resource: str, operation: str, *parameters: object, repeat: bool = False) -> Any:
        """The result of a management operation, as JSON values; ``resource``: ``broker``, ``address.NAME``, ``queue.NAME``.

        ``repeat``: it may be made again when the connection was lost before its answer; without it that is an error, and whether the
        operation was done is not known.
        """
        return self._manage(f"the operation {operation} of {resource}", lambda one: one.invoke(resource, operation, *parameters), repeat)

    def attribute(self, resource: str, name: str) -> Any:
        """The value of an attribute of the management interface, as JSON values."""
        return self._manage(f"the attribute {name} of {resource}", lambda one: one.attribute(resource, name), True)

    # --- inside

    def _manage(self, doing: str, function: Callable[[Management], Awaitable[T]], repeat: bool) -> T:
        async def managed(session: Session) -> T:
            if self._management is None or self._management[0] is not session:
                own = await session.factory.create_session()
                self._management = session, await Management.open(own, new_uuid(self.runtime))
            return await function(self._management[1])

        try:
            return self.call(doing, managed, repeat=repeat)
        except MqsparkError as error:
            if isinstance(error.__cause__, ManagementError):
                raise MqsparkError(f"{doing} at {self.place}: {error.__cause__}") from error.__cause__
            raise


__all__ = ["Broker", "Node", "connect", "nodes"]


def cache_size_of(settings: object) -> int | None:
    """The cache size in the answer of ``getAddressSettingsAsJSON``; None when there is none in it."""
    try:
        found = json.loads(settings) if isinstance(settings, str) else settings
    except ValueError:
        return None
    size = found.get("idCacheSize", found.get("id-cache-size")) if isinstance(found, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
