"""Addresses whose messages need no decision of their own, before it is asked where they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST

if TYPE_CHECKING:
    from mqbroker.messaging.queues.address import Address
    from mqbroker.server.server_state import ServerState


class Sender(Protocol):
    """The sends of a session."""

    messages_sent: int

    @property
    def nameless(self) -> bool:
        """Does the session lack the user that messages must have here?"""

    def resolve(self, name: str) -> tuple[str, str | None, int | None]:
        """(address, queue, routing type of the prefix) that a client means by ``name``."""


def plain_address(server: ServerState, sender: Sender, name: str, routing_type: int | None) -> Address | None:
    """The address that a client means by ``name``.

    None where there is something to find out or to do for a message with this routing type: the address or its queue is still to be
    made, what is sent there gets another expiration or a stamp, or the name means something else.  That may change with the routing table.
    """
    core = server.messaging.core
    address = core.addresses.get(name)
    if address is None or name == server.management_address or sender.resolve(name) != (name, None, None):
        return None
    settings = address.settings
    expires = settings.no_expiry or max(settings.expiry_delay, settings.min_expiry_delay, settings.max_expiry_delay) >= 0
    if expires or server.stamps_messages or sender.nameless:
        return None
    if routing_type is None:
        return address
    if routing_type not in address.routing_types:
        return None
    queue = core.queues.get(name)
    exists = routing_type == MULTICAST or (queue is not None and queue.definition.routing_type == ANYCAST)
    return address if exists else None
