"""Senders without credits at a full address with policy BLOCK.

Most clients ask for credits, get none while the address is full, and so stop by themselves.  A peer that sends without asking is not read
from while the address is far over its limit.  But such a peer may also send acknowledgements, which make room: so :data:`SLICE` more bytes
are read every :data:`HELD_BACK_SECONDS`.  After :data:`OVERDRAFT_MAX` bytes the connection is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.errors import MalformedPacketError

if TYPE_CHECKING:
    from mqbroker.messaging.message.memory import AddressMemory
    from mqbroker.messaging.ports import Cancellable
    from mqbroker.messaging.queues.address import Address
    from mqbroker.server.session_state import SessionState
    from mqbroker.server.transport.connection import ServerConnection

CREDITS_HONOURED_MAX = 10 * 1024 * 1024
"""Bytes of unused credits for one address that a session may still send when the address is full."""

SLICE = 64 * 1024
"""Bytes that a sender without credits may send before it is held back, and after each pause."""

HELD_BACK_SECONDS = 1.0
"""The time without reading from a connection, unless the address has room before."""

OVERDRAFT_MAX = 64 * 1024 * 1024
"""Bytes that senders without credits may send to an address with policy BLOCK beyond its limit and tolerance; with more their connections
end."""

ADDRESSES_MAX = 1000
"""Addresses of one session whose credits are remembered; beyond them the session begins anew."""


class Overdraft:
    """The bytes that one session has sent to full addresses, and its credits for them."""

    __slots__ = ("_granted", "_sent", "_session")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._granted: dict[str, int] = {}
        self._sent: dict[str, int] = {}

    def granted(self, address: str, credits: int) -> None:
        """The session has got ``credits`` bytes."""
        if len(self._granted) >= ADDRESSES_MAX:
            self._granted.clear()
        self._granted[address] = min(self._granted.get(address, 0) + credits, CREDITS_HONOURED_MAX)
        self._sent.pop(address, None)

    def charge(self, address: Address, size: int) -> None:
        """The session sends ``size`` bytes to a full address.  Raises MalformedPacketError when its connection is to be given up."""
        memory = address.memory
        excess = memory.excess
        if memory.policy != "BLOCK" or excess <= 0:
            return
        if len(self._sent) >= ADDRESSES_MAX:
            self._sent.clear()
        sent = self._sent[address.name] = self._sent.get(address.name, 0) + size
        allowed = self._granted.get(address.name, 0) + SLICE
        if sent <= allowed:
            return
        if excess > OVERDRAFT_MAX:
            raise MalformedPacketError("SESS_SEND", "credits", f"address {address.name} is full, and the peer sends without credits")
        self._sent[address.name] = allowed - SLICE
        self._session.server.producers_blocked(address)
        _HeldBack(self._session.connection, memory)


class _HeldBack:
    """Stops reading from a connection until there is room, for at most :data:`HELD_BACK_SECONDS`."""

    __slots__ = ("_connection", "_memory", "_timer")

    def __init__(self, connection: ServerConnection, memory: AddressMemory) -> None:
        self._connection = connection
        self._memory = memory
        self._timer: Cancellable = connection.server.clock.call_later(HELD_BACK_SECONDS, self._over)
        connection.hold_back()
        memory.when_free(self._freed)

    def _freed(self) -> None:
        # Resume later, because the caller is settling messages.
        self._timer.cancel()
        self._timer = self._connection.server.clock.call_later(0, self._over)

    def _over(self) -> None:
        self._memory.forget(self._freed)
        self._connection.hear_again()
