"""Addresses and queues that a message needs, and that are made because it was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqclient.errors import AddressDoesNotExistError

if TYPE_CHECKING:
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.queues.queue import Queue


class Maker(Protocol):
    """Makes definitions."""

    def create_address(self, name: str, routing_types: Iterable[int], *, auto_created: bool) -> Address: ...

    def update_address(self, address: Address, routing_types: frozenset[int]) -> None: ...

    def create_queue(self, configuration: QueueConfiguration) -> Queue: ...


def auto_create_for_send(
    core: MessagingCore,
    maker: Maker,
    address_name: str,
    routing_type: int | None,
    queue_name: str | None,
    may: Callable[[str, str, str | None], None],
) -> None:
    """Make the missing address or queue for a message sent to ``address_name`` (with a fully qualified name, to its ``queue_name``).

    ``may(permission, address, queue)`` raises when the sender lacks a permission.  Raises AddressDoesNotExistError where auto-creation is
    off.
    """
    if routing_type is None and queue_name is None:
        return
    kind = routing_type
    if kind is None:
        kind = core.settings_of(address_name).default_queue_routing_type
    address = core.addresses.get(address_name)
    settings = core.settings_of(address_name)
    missing = AddressDoesNotExistError(f"AMQ229203: Address Does Not Exist: {address_name}")
    if address is None:
        if not settings.auto_create_addresses:
            raise missing
        may("createAddress", address_name, None)
        address = maker.create_address(address_name, (kind,), auto_created=True)
    elif kind not in address.routing_types:
        if not settings.auto_create_addresses:
            raise missing
        may("createAddress", address_name, None)
        maker.update_address(address, address.routing_types | {kind})
    if queue_name is None and kind == MULTICAST:
        return
    name = queue_name or address_name
    queue = core.queues.get(name)
    if queue is not None:
        if queue_name is None and queue.definition.routing_type != kind:
            raise missing
        return
    if queue_name is None and any(other.definition.routing_type == ANYCAST for other in address.queues):
        return
    if not settings.auto_create_queues:
        raise missing
    may("createDurableQueue", address_name, name)
    maker.create_queue(QueueConfiguration(name=name, address=address_name, routing_type=kind, durable=True, auto_created=True))
