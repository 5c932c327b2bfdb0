"""Targets for the messages of a run: addresses checked for a session before, with the queues that get every message sent there."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from mqbroker.messaging.core import BRIDGE_CACHE
from mqbroker.messaging.message.message import PROPERTIES_CHECKED_FROM
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.routing.bindings_group import Rotation
from mqbroker.server.runs.property_tables import BRIDGE_DUPLICATE_ID, BridgedTable, PlainTable, Table, look_through
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.message import HEADERS_SIZE_MIN
from mqclient.wire.primitives import decode_utf_16
from mqclient.wire.properties import bytes_property, with_property

if TYPE_CHECKING:
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.routing.remote import RemoteBinding
    from mqbroker.server.server_state import ServerState
    from mqbroker.server.session_state import SessionState

TARGETS_MAX = 100
"""Addresses of one session, each with the queues that a link has named, whose messages can take the fast way; with more the session forgets
all and begins anew."""

SEND_SIZE_MIN = HEADER_SIZE + 4 + HEADERS_SIZE_MIN
"""Bytes of a frame with a message, without its trailer."""

_ID = struct.Struct(">q")
_pack_i64 = _ID.pack
_unpack_i32 = struct.Struct(">i").unpack_from


class Sender(Protocol):
    """The sends of a session."""

    messages_sent: int

    @property
    def nameless(self) -> bool:
        """Does the session lack the user that messages must have here?"""

    def resolve(self, name: str) -> tuple[str, str | None, int | None]:
        """(address, queue, routing type of the prefix) that ``name`` from a client stands for."""


class Turns:
    """Queues that take turns, each with the property that its messages get."""

    __slots__ = ("_next", "_queues")

    def __init__(self, rotation: Rotation) -> None:
        self._next = rotation.next
        self._queues = [(each, None) if isinstance(each, Queue) else (each.store_and_forward, _entry(each)) for each in rotation.bindings]

    def next(self) -> tuple[Queue, bytes | None]:
        """The queue whose turn it is, and the property that its messages get."""
        return self._queues[self._next()]


class Target:
    """The queues for the messages of a run; without ``queues`` and ``turns`` no message takes the fast way.

    ``raw`` is the encoded address as it stands in a message, ``table`` the template of the property tables, and ``ids_name`` the name of
    the cache of duplicate ids.  Messages for the queue of another broker get a property that names the queue; with ``turns`` each message
    goes to the queue whose turn it is.  ``bridged``: a link brings the messages, which name their queues.  ``changes``: :meth:`changed`
    makes the bytes of each message.
    """

    __slots__ = ("_entry", "address", "bridged", "changes", "durable_ids", "ids_name", "queues", "raw", "table", "turns")

    def __init__(
        self,
        raw: bytes,
        address: Address,
        queues: tuple[Queue, ...],
        table: Table,
        remote: RemoteBinding | None = None,
        rotation: Rotation | None = None,
    ) -> None:
        self.raw = raw
        self.address = address
        self.queues = queues if remote is None else (remote.store_and_forward,)
        self.durable_ids = [queue.queue_id for queue in self.queues if queue.definition.durable]
        self.table = table
        self.bridged = isinstance(table, BridgedTable)
        self.ids_name = f"{BRIDGE_CACHE}{address.name}" if self.bridged else address.name
        self.turns = None if rotation is None else Turns(rotation)
        self.changes = self.bridged or remote is not None or rotation is not None
        self._entry = None if remote is None else _entry(remote)

    def changed(self, data: bytes, headers: int, properties: int, end: int, message_id: int, chosen: list[Queue]) -> bytes:
        """The message in a frame, with its id and with the properties of its target.  The queue whose turn it is gets added to
        ``chosen``."""
        table, entry = self.table, self._entry
        parts = [data[HEADER_SIZE:headers], _pack_i64(message_id)]
        if table.head:
            parts += data[headers + 8 : properties], table.head
            for first, last in table.kept:
                parts.append(data[properties + first : properties + last])
            return b"".join(parts)
        parts.append(data[headers + 8 : end])
        if self.turns is not None:
            queue, entry = self.turns.next()
            chosen.append(queue)
        return b"".join(parts) if entry is None else with_property(b"".join(parts), properties - HEADER_SIZE, entry)


def plain_address(server: ServerState, sender: Sender, name: str, routing_type: int | None) -> Address | None:
    """The address that a client means by ``name``.

    None when messages with this routing type cannot take the fast way: the address or its queue does not exist yet, messages get another
    expiration or a stamp, or ``name`` has a prefix or names a queue.  The result holds until the routing table changes.
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


class RunTargets:
    """The targets of one session."""

    __slots__ = ("_core", "_known", "_last", "_routing_version", "_security_version", "_sender", "_server", "_session")

    def __init__(self, session: SessionState, sender: Sender) -> None:
        self._session = session
        self._sender = sender
        self._server = session.server
        self._core = session.server.messaging.core
        self._known: dict[tuple[bytes, bytes, int | None], Target] = {}
        """By address, named queues and routing type; the latter two only for messages from a link."""
        self._last: Target | None = None
        self._routing_version = self._security_version = -1

    def forget(self) -> None:
        """Find out anew about every address."""
        self._known.clear()
        self._last = None

    def find(self, data: bytes, end: int) -> Target | None:
        """The target of the message in a frame, which ends at ``end``; None when the message cannot be in a run."""
        routing_version, security_version = self._core.routing.version, self._server.security.version
        if self._routing_version != routing_version or self._security_version != security_version:
            self.forget()
            self._routing_version, self._security_version = routing_version, security_version
        at: int = _unpack_i32(data, HEADER_SIZE)[0] + 12 if end >= SEND_SIZE_MIN else 0
        if at < HEADER_SIZE + 12 or at + 5 > end or not data[at]:
            return None
        bridged = data.find(BRIDGE_DUPLICATE_ID, at, end) >= 0
        last = self._last
        if last is not None and not bridged and not last.bridged and data.startswith(last.raw, at):
            return last
        length: int = _unpack_i32(data, at + 1)[0]
        fixed = at + 5 + length
        if length < 0 or length & 1 or fixed + 37 > end:
            return None
        raw = data[at:fixed]
        properties = fixed + (36 if data[fixed] == 1 else 20)
        target = self._bridged(raw, data, properties, end) if bridged else self._plain(raw, data, properties, end)
        if target is None or not (target.queues or target.turns):
            return None
        self._last = target
        return target

    def _keep(self, key: tuple[bytes, bytes, int | None], target: Target) -> None:
        if len(self._known) >= TARGETS_MAX:
            self._known.clear()
        self._known[key] = target

    # --- messages of producers

    def _plain(self, raw: bytes, data: bytes, properties: int, end: int) -> Target | None:
        key = raw, b"", None
        target = self._known.get(key)
        if target is None and end - properties <= PROPERTIES_CHECKED_FROM:
            found = look_through(data, properties, end)
            target = None if found is None else self._resolve(raw, found.routing_type)
            if target is not None:
                self._keep(key, target)
        return target

    def _resolve(self, raw: bytes, routing_type: int | None) -> Target | None:
        """The target of an address; None when the next message may have another one."""
        core, name = self._core, decode_utf_16(raw[5:])
        address = core.addresses.get(name)
        if address is None or not self._session.permissions.knows("send", name):
            return None
        table = PlainTable(routing_type)
        if plain_address(self._server, self._sender, name, routing_type) is None:
            return Target(raw, address, (), table)
        route = core.routing.route(name, routing_type)
        return Target(raw, address, route.fixed or (), table, route.fixed_remote, route.rotation)

    # --- messages of links

    def _bridged(self, raw: bytes, data: bytes, properties: int, end: int) -> Target | None:
        last = self._last
        if last is not None and last.raw == raw and isinstance(last.table, BridgedTable) and last.table.fits(data, properties, end):
            return last
        table = BridgedTable()
        if not self._session.auto_commit_sends or not table.look(data, properties, end):
            return None
        key = raw, table.queue_ids, table.routing_type
        target = self._known.get(key)
        if target is not None:
            target.table = table
        else:
            target = self._resolve_stated(raw, table)
            if target is not None:
                self._keep(key, target)
        return target

    def _resolve_stated(self, raw: bytes, table: BridgedTable) -> Target | None:
        """The queues that :func:`mqbroker.messaging.delivery.arriving.take_arrival` would choose, where they do not depend on the
        message."""
        permissions, core, name, routing_type = self._session.permissions, self._core, decode_utf_16(raw[5:]), table.routing_type
        known = core.addresses.get(name)
        if known is None or not permissions.knows("send", name):
            return None
        nobody = Target(raw, known, (), table)
        if plain_address(self._server, self._sender, name, routing_type) is None or core.routing.route(name, routing_type).diverted:
            return nobody
        bound = {queue.queue_id: queue for queue in core.routing.bound(name)}
        queues: list[Queue] = []
        for (number,) in _ID.iter_unpack(table.queue_ids):
            queue = bound.get(number)
            if queue is None or queue in queues:
                return nobody
            definition = queue.definition
            if not definition.enabled or definition.purge_on_no_consumers or routing_type not in (None, definition.routing_type):
                return nobody
            if not permissions.knows("send", definition.address, queue.name):
                return None
            queues.append(queue)
        return Target(raw, known, tuple(queues), table)


def _entry(binding: RemoteBinding) -> bytes:
    return bytes_property(binding.route_key, binding.route_value)
