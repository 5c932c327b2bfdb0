"""Checks and creations on the broker before the client uses a destination.

The rules are those of the Java client (``protocol-spec/``, "Destination lookup and auto-creation"): ask first, create a missing address or
queue where the address settings of the broker allow that, refuse a destination of the other kind.  One :class:`Lookup` belongs to one
session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from mqclient.core.api import AddressQueryResult, ClientSession, QueueConfiguration, QueueQueryResult
from mqclient.errors import QueueExistsError
from mqclient.jms.destinations import ANYCAST, MULTICAST, Destination
from mqclient.jms.exceptions import IllegalStateException, InvalidDestinationException

T = TypeVar("T")
PREPARED_MAX = 1000
"""Destinations that a session remembers as ready for sending; a session that writes to more of them asks again."""


class Call(Protocol):
    """Runs a call of the core client in its own thread, waits, and turns its errors into JMS exceptions."""

    def __call__(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T: ...


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _routing_type(text: str) -> int:
    return {"ANYCAST": ANYCAST, "MULTICAST": MULTICAST}[text.upper()]


_OPTIONS: Final[dict[str, Callable[[str], object]]] = {
    "routing-type": _routing_type,
    "filter-string": str,
    "durable": _flag,
    "max-consumers": int,
    "purge-on-no-consumers": _flag,
    "exclusive": _flag,
    "last-value": _flag,
    "last-value-key": str,
    "non-destructive": _flag,
    "consumers-before-dispatch": int,
    "delay-before-dispatch": int,
    "group-rebalance": _flag,
    "group-rebalance-pause-dispatch": _flag,
    "group-buckets": int,
    "group-first-key": str,
    "auto-delete": _flag,
    "auto-delete-delay": int,
    "auto-delete-message-count": int,
    "ring-size": int,
    "enabled": _flag,
}


SUBSCRIPTION: Final = frozenset(("routing-type", "filter-string", "durable"))
"""Options in the name of a topic that have no effect on its subscriptions."""


def apply_options(configuration: QueueConfiguration, destination: Destination, fixed: frozenset[str] = frozenset()) -> QueueConfiguration:
    """Set the queue attributes in the destination's name, except those in ``fixed``.  Unknown ones are ignored, as in Java."""
    for name, text in destination.attributes.items():
        parse = _OPTIONS.get(name)
        if parse is None or name in fixed:
            continue
        try:
            setattr(configuration, name.replace("-", "_"), parse(text))
        except (KeyError, ValueError):
            raise InvalidDestinationException(f"{destination}: {name}={text} is not a valid value") from None
    return configuration


class Lookup:
    """Queries and creations over one session of the core client."""

    def __init__(self, call: Call, session: ClientSession) -> None:
        self._call = call
        self._session = session
        self._prepared: dict[Destination, None] = {}

    def address(self, name: str) -> AddressQueryResult:
        return self._call(self._session.address_query, name)

    def queue(self, name: str) -> QueueQueryResult:
        return self._call(self._session.queue_query, name)

    def create_queue(self, configuration: QueueConfiguration) -> None:
        """Create the queue, unless another client has just created it."""
        self._call(self._create_queue_if_missing, configuration)

    async def _create_queue_if_missing(self, configuration: QueueConfiguration) -> None:
        try:
            await self._session.create_queue(configuration)
        except QueueExistsError:
            pass

    def create_temporary_queue(self, name: str, routing_type: int | None, filter: str | None) -> None:
        """A queue that ends with the connection, on an address of its own; None takes the broker's default routing type."""
        wanted = QueueConfiguration(
            name=name,
            routing_type=routing_type,
            filter_string=filter,
            durable=False,
            temporary=True,
            max_consumers=-1,
            purge_on_no_consumers=False,
        )
        self._call(self._session.create_queue, wanted)

    def delete_queue(self, name: str) -> None:
        self._call(self._session.delete_queue, name)

    def prepare_send(self, destination: Destination) -> None:
        """Make sure that messages can be sent to ``destination``; asked once per destination, always for a temporary one."""
        if destination in self._prepared or destination.routing_type is None:
            return
        if destination.routing_type == ANYCAST:
            self._prepare_queue_send(destination)
        else:
            self._prepare_topic(destination)
            if destination.fully_qualified:
                self._ensure_queue(destination, self.address(destination.address))
        self._remember(destination)

    def _remember(self, destination: Destination) -> None:
        if destination.temporary:
            return  # it can go away at any time, and must not be created anew by sending
        if len(self._prepared) >= PREPARED_MAX:
            self._prepared.clear()
        self._prepared[destination] = None

    def _prepare_queue_send(self, destination: Destination) -> None:
        found = self.address(destination.address)
        if not found.exists:
            if destination.temporary or not (found.auto_create_addresses and found.auto_create_queues):
                raise _missing(destination)
            self._call(self._session.create_address, destination.address, [ANYCAST], True)
        elif not found.supports_anycast:
            raise InvalidDestinationException(f"{destination}: the address exists but does not support anycast; it is a topic")
        self._ensure_queue(destination, found)

    def _ensure_queue(self, destination: Destination, found: AddressQueryResult) -> None:
        if self.queue(destination.name).exists:
            return
        if destination.temporary or not found.auto_create_queues:
            raise _missing(destination)
        self.create_queue(self._auto_created(destination, found))

    def _prepare_topic(self, destination: Destination) -> None:
        found = self.address(destination.address)
        if not found.exists:
            if destination.temporary or not found.auto_create_addresses:
                raise _missing(destination)
            self._call(self._session.create_address, destination.address, [MULTICAST], True)
        elif not found.supports_multicast:
            raise InvalidDestinationException(f"{destination}: the address exists but does not support multicast; it is a queue")

    def prepare_queue_consumer(self, destination: Destination) -> str:
        """Make sure that the queue of ``destination`` exists and can be consumed as such; its name."""
        found = self.address(destination.address)
        if not found.exists or destination.queue_name not in found.queue_names:
            if destination.temporary or not found.auto_create_queues:
                raise _missing(destination)
            self.create_queue(self._auto_created(destination, found))
        elif not destination.fully_qualified and self.queue(destination.queue_name).routing_type != ANYCAST:
            raise InvalidDestinationException(f"{destination}: the queue of this name is multicast; it belongs to a topic")
        self._remember(destination)
        return destination.queue_name

    def prepare_topic_consumer(self, destination: Destination) -> None:
        """Make sure that the address of a topic exists."""
        self._prepare_topic(destination)
        self._remember(destination)

    def prepare_topic_queue(self, destination: Destination) -> str:
        """Make sure that the queue of a topic's fully qualified name exists; its name."""
        self._prepare_topic(destination)
        self._ensure_queue(destination, self.address(destination.address))
        return destination.queue_name

    def prepare_browser(self, destination: Destination) -> None:
        """Make sure that there is something to browse."""
        found = self.address(destination.address)
        if not found.exists:
            if destination.temporary or not found.auto_create_queues:
                raise _missing(destination)
            self.create_queue(self._auto_created(destination, found))

    def temporary_subscription(self, destination: Destination, queue: str, filter: str | None) -> None:
        """The queue of a non-durable subscription."""
        wanted = _subscription(destination, queue, filter, durable=False, temporary=True, purge_on_no_consumers=False)
        self._call(self._session.create_queue, wanted)

    def durable_subscription(self, destination: Destination, queue: str, filter: str | None) -> None:
        """The queue of an unshared durable subscription.

        An existing queue with another selector or topic is deleted, with its messages, and created anew, as JMS asks; a queue managed by
        the broker's configuration stays as it is.
        """
        existing = self.queue(queue)
        if existing.exists:
            if existing.consumer_count > 0:
                raise IllegalStateException(f"the durable subscription {queue} has an active consumer")
            if _same(existing, destination, filter):
                return
            self.delete_queue(queue)
        self._call(self._session.create_queue, _subscription(destination, queue, filter, durable=True, purge_on_no_consumers=False))

    def shared_subscription(self, destination: Destination, queue: str, filter: str | None, *, durable: bool) -> None:
        """The queue of a shared subscription.  Another topic or selector is refused while the subscription lives."""
        found = self.address(destination.address)
        if not (found.exists or found.auto_create_addresses):
            raise _missing(destination)
        existing = self.queue(queue)
        if existing.exists and _same(existing, destination, filter):
            return
        self._call(self._session.create_shared_queue, _subscription(destination, queue, filter, durable=durable))

    def _auto_created(self, destination: Destination, found: AddressQueryResult) -> QueueConfiguration:
        wanted = QueueConfiguration(
            name=destination.queue_name,
            address=destination.address,
            routing_type=destination.routing_type,
            auto_created=True,
            max_consumers=found.default_max_consumers,
            purge_on_no_consumers=found.default_purge_on_no_consumers,
        )
        return apply_options(wanted, destination)


def _subscription(destination: Destination, queue: str, filter: str | None, **attributes: Any) -> QueueConfiguration:
    wanted = QueueConfiguration(
        name=queue, address=destination.address, routing_type=MULTICAST, filter_string=filter, max_consumers=-1, **attributes
    )
    return apply_options(wanted, destination, SUBSCRIPTION)


def _same(existing: QueueQueryResult, destination: Destination, filter: str | None) -> bool:
    return bool(existing.configuration_managed) or (
        existing.address == destination.address and (existing.filter_string or None) == (filter or None)
    )


def _missing(destination: Destination) -> InvalidDestinationException:
    if destination.temporary:
        return InvalidDestinationException(f"{destination} no longer exists")
    return InvalidDestinationException(f"{destination} does not exist, and the broker does not allow creating it on demand")
