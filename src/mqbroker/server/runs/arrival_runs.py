"""Messages that a bridge or a cluster connection brings, in a row: the fast way for what a chunk of bytes holds of them.

Each says to which queues it goes and has a duplicate id of the bridge (see :mod:`mqbroker.messaging.delivery.arriving`), and the property
tables of one link have the same shape: keys, types and lengths are where they were in the message before.  So a table is walked through
only where its shape is new; otherwise a few comparisons show that it has it, and the two properties are left out by their offsets.
Messages that follow each other to the same queues are stored with their duplicate ids as one batch, and become visible and are answered
together; those to an address that pages go to its pages as one batch.  A message whose id is known, and everything else, goes through
:meth:`mqbroker.server.session.sends.SessionSends.send`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mqbroker.messaging.core import BRIDGE_CACHE
from mqbroker.messaging.message.message import PROPERTIES_CHECKED_FROM, Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.routing.duplicates import ID_LENGTH_MAX
from mqbroker.server.runs.plain_addresses import Sender, plain_address
from mqclient.errors import MalformedPacketError, MQError
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.hot import VERSION_CORRELATION, send_trailer_size
from mqclient.wire.message import HEADERS_SIZE_MIN, KEY_BRIDGE_DUPLICATE_ID, KEY_CID, KEY_DUPLICATE_ID, KEY_ROUTE_TO, KEY_ROUTING_TYPE
from mqclient.wire.packets import NullResponse, SessionSend
from mqclient.wire.primitives import decode_utf_16
from mqclient.wire.properties import BYTE, BYTES, STRING, walk

if TYPE_CHECKING:
    from mqbroker.messaging.message.memory import AddressMemory
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.routing.duplicates import DuplicateIdCache
    from mqbroker.server.session_state import SessionState

TARGETS_MAX = 100
"""Addresses of one link, with the queues stated, whose messages can take the fast way; a link that sends to more begins anew."""

_SIZE_MIN = HEADER_SIZE + 4 + HEADERS_SIZE_MIN
_TYPE_CHANNEL = struct.Struct(">bq")
_ANSWER = struct.Struct(">ibqq")
_HEAD = struct.Struct(">Bi")
_ID = struct.Struct(">q")
_unpack_i32 = struct.Struct(">i").unpack_from
_pack_i64 = _ID.pack
_unpack_fixed = struct.Struct(">bBqqb").unpack_from
_unpack_trailer = struct.Struct(">Bq").unpack_from
_INTERNAL = "_AMQ_".encode("utf-16-le")
_ROUTING_TYPE = KEY_ROUTING_TYPE.encode("utf-16-le")
_ROUTE_TO = KEY_ROUTE_TO.encode("utf-16-le")
_BRIDGE_DUPLICATE_ID = KEY_BRIDGE_DUPLICATE_ID.encode("utf-16-le")
_KNOWN = frozenset((_ROUTING_TYPE, _ROUTE_TO, _BRIDGE_DUPLICATE_ID))
_OTHERS = frozenset(key.encode("utf-16-le") for key in (KEY_CID, KEY_DUPLICATE_ID))
"""Stay as they are: the duplicate id of the bridge counts, and not that of the client."""


class _Shape:
    """What the tables of many messages have in common; places count from the beginning of the table.

    A table of ``size`` bytes with each of ``fixed`` (place, bytes) in it has the same entries.  ``head`` and what is in ``kept`` (from, to)
    is the table without what the bridge has put into it; ``id_at`` is where the duplicate id of ``id_size`` bytes is.
    """

    __slots__ = ("fixed", "head", "id_at", "id_size", "kept", "queue_ids", "routing_type", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.fixed: list[tuple[int, bytes]] = []
        self.head = b""
        self.kept: list[tuple[int, int]] = []
        self.id_at = self.id_size = 0
        self.queue_ids = b""
        self.routing_type: int | None = None

    def matches(self, data: bytes, start: int, end: int) -> bool:
        if end - start != self.size:
            return False
        for place, raw in self.fixed:  # noqa: SIM110 - a generator would cost more than the comparisons
            if not data.startswith(raw, start + place):
                return False
        return True

    def goes_with(self, other: _Shape) -> bool:
        """Do messages with this shape go where those with the ``other`` go, and have ids of the same length?"""
        same = self.queue_ids == other.queue_ids and self.routing_type == other.routing_type
        return same and self.id_size == other.id_size

    def _fix(self, data: bytes, start: int, begin: int, end: int) -> None:
        if self.fixed:
            place, raw = self.fixed[-1]
            if start + place + len(raw) == begin:
                self.fixed[-1] = (place, raw + data[begin:end])
                return
        self.fixed.append((begin - start, data[begin:end]))

    def _keep(self, begin: int, end: int) -> None:
        if self.kept and self.kept[-1][1] == begin:
            begin = self.kept.pop()[0]
        self.kept.append((begin, end))

    @classmethod
    def of(cls, data: bytes, start: int, end: int) -> _Shape | None:
        """The shape of the table in ``data[start:end]``; None when a message with it is none that is meant here."""
        if end - start > PROPERTIES_CHECKED_FROM:
            return None
        if data.find(_BRIDGE_DUPLICATE_ID, start, end) < 0 or data.find(_ROUTE_TO, start, end) < 0:
            return None
        shape = cls(end - start)
        shape.fixed.append((0, data[start : start + _HEAD.size]))
        seen: set[bytes] = set()
        count, position = 0, start
        try:
            for key_start, key_end, kind, value_start, position in walk(data, start, end):
                count += 1
                key = data[key_start:key_end]
                stays = value_start + 4 if kind in (STRING, BYTES) else value_start
                if key in _KNOWN:
                    if key in seen or kind != (BYTE if key == _ROUTING_TYPE else BYTES):
                        return None
                    seen.add(key)
                elif key not in _OTHERS and key.startswith(_INTERNAL):
                    return None
                if key == _BRIDGE_DUPLICATE_ID:
                    shape.id_at, shape.id_size = stays - start, position - stays
                    if not 0 < shape.id_size <= ID_LENGTH_MAX:
                        return None
                elif key == _ROUTE_TO:
                    shape.queue_ids = data[stays:position]
                    stays = position
                else:
                    if key == _ROUTING_TYPE:
                        shape.routing_type = data[value_start]
                        stays = position
                    shape._keep(key_start - 4 - start, position - start)
                shape._fix(data, start, key_start - 4, stays)
        except MalformedPacketError:
            return None
        ids = shape.queue_ids
        if position != end or not shape.id_at or not ids or len(ids) % _ID.size or shape.routing_type not in (None, 0, 1):
            return None
        shape.head = _HEAD.pack(1, count - 2) if count > 2 else b"\0"
        return shape


def _address_of(data: bytes, at: int) -> bytes:
    """The encoded address at ``at``; empty where there is none."""
    length: int = _unpack_i32(data, at + 1)[0]
    raw = data[at : at + 5 + length]
    return raw if data[at] and length >= 0 and not length & 1 and len(raw) == 5 + length else b""


class _Target:
    """Queues of one address; without ``queues`` messages for them do not go this way."""

    __slots__ = ("address", "durable_ids", "queues")

    def __init__(self, address: Address | None, queues: tuple[Queue, ...]) -> None:
        self.address = address
        self.queues = queues
        self.durable_ids = [queue.queue_id for queue in queues if queue.definition.durable]


class ArrivalRuns:
    """Runs of messages that a link brings to one session."""

    def __init__(self, session: SessionState, sender: Sender) -> None:
        self._session = session
        self._sender = sender
        self._core = session.server.messaging.core
        self._begin = _TYPE_CHANNEL.pack(SessionSend.TYPE, session.channel)
        self._trailer = send_trailer_size(session.version)
        self._enabled = session.version >= VERSION_CORRELATION
        self._shape: _Shape | None = None
        self._targets: dict[tuple[bytes, bytes, int | None], _Target] = {}

    def forget(self) -> None:
        """Find out anew about every address."""
        self._targets.clear()

    def take(self, frames: list[bytes], index: int) -> int:
        """Handle the frames from ``index`` on as far as they are meant here; returns the index of the first that is not.

        What :meth:`forget` forgets must be of the routing table and the security settings of now.
        """
        if not self._enabled or not self._session.auto_commit_sends or frames[index].find(_BRIDGE_DUPLICATE_ID) < 0:
            return index
        session, begin, trailer, channel = self._session, self._begin, self._trailer, self._session.channel
        next_id, pack_answer, answer_length = self._core.store.next_id, _ANSWER.pack, _ANSWER.size - 4
        shape, raw, target = self._shape, b"", None
        record_id, run_durable, encoded = 0, -1, 0
        cache: DuplicateIdCache | None = None
        fresh: dict[bytes, None] = {}
        messages: list[Message] = []
        answers: list[bytes | None] = []
        sizes: list[int] = []
        for at in range(index, len(frames)):
            data = frames[at]
            end = len(data) - trailer
            headers: int = _unpack_i32(data, HEADER_SIZE)[0] + 4 if end >= _SIZE_MIN else 0
            if headers < HEADER_SIZE + 4 or headers + 13 > end or not data.startswith(begin, 4):
                break
            if target is None:
                raw = _address_of(data, headers + 8)
                if not raw:
                    break
            elif not data.startswith(raw, headers + 8):
                break
            fixed = headers + 8 + len(raw)
            if fixed + 37 > end:
                break
            fixed += 17 if data[fixed] == 1 else 1
            values: tuple[int, int, int, int, int] = _unpack_fixed(data, fixed)
            _, durable, expiration, _, _ = values
            properties = fixed + 19
            if shape is None or not shape.matches(data, properties, end):
                found = _Shape.of(data, properties, end)
                if found is None:
                    break
                if target is not None and shape is not None and not found.goes_with(shape):
                    break
                self._shape = shape = found
            if target is None:
                target = self._find(raw, shape)
                if target is None or target.address is None:
                    return index
                memory, name, copies = target.address.memory, target.address.name, len(target.queues)
                paging = self._core.paging
                pages = memory if memory.paging is not None and paging.takes_all(memory) else None
                cache = self._core.duplicate_ids(f"{BRIDGE_CACHE}{name}")
            id_at = properties + shape.id_at
            duplicate_id = data[id_at : id_at + shape.id_size]
            if cache is not None and (duplicate_id in cache or duplicate_id in fresh):
                break  # the answer waits for the one that came first
            if durable != run_durable:
                if messages:
                    break  # what needs no disk does not wait for what comes after it
                run_durable = durable
            if pages is None and (memory.full or memory.paging is not None):
                break
            try:
                if cache is not None and cache.persistent and not record_id:
                    record_id = next_id()
                message_id = next_id()
            except MQError:
                break  # the other way tells the sender
            parts = [data[HEADER_SIZE:headers], _pack_i64(message_id), data[headers + 8 : properties], shape.head]
            for first, last in shape.kept:
                parts.append(data[properties + first : properties + last])
            buffer = b"".join(parts)
            told: tuple[int, int] = _unpack_trailer(data, end)
            flag, correlation_id = told
            message = Message(buffer, headers - HEADER_SIZE, name, message_id, durable != 0, expiration, properties - HEADER_SIZE)
            if pages is None:
                memory.hold(message, copies)
            encoded += len(buffer)
            fresh[duplicate_id] = None
            messages.append(message)
            answers.append(pack_answer(answer_length, NullResponse.TYPE, channel, correlation_id) if flag else None)
            sizes.append(len(data))
        if messages and target is not None and target.address is not None:
            target.address.routed_messages += len(messages)
            self._sender.messages_sent += len(messages)
            for queue in target.queues:
                queue.arriving += len(messages)
            if pages is not None:
                ticket = self._page(target.queues, pages, messages, cache, list(fresh), record_id)
                session.context.run(ticket, session.finish_run, answers, sizes)
            else:
                ticket = self._store(target, messages, cache, list(fresh), record_id)
                session.context.run(ticket, self._arrive, target.queues, messages, answers, sizes, encoded)
        return index + len(messages)

    def _page(
        self,
        queues: tuple[Queue, ...],
        pages: AddressMemory,
        messages: list[Message],
        cache: DuplicateIdCache | None,
        ids: list[bytes],
        record_id: int,
    ) -> int:
        """As :meth:`_store`, into the pages of the address: the queues read the messages from there."""
        batch = self._core.store.begin()
        self._core.paging.page_run(batch, pages, messages, queues)
        if cache is not None:
            cache.add_run(ids, batch, record_id)
        return self._core.store.commit(batch)

    def _store(self, target: _Target, messages: list[Message], cache: DuplicateIdCache | None, ids: list[bytes], record_id: int) -> int:
        """The messages and their duplicate ids are one batch; returns the ticket to wait for."""
        core = self._core
        durable = bool(target.durable_ids) and messages[0].durable
        if not durable and cache is None:
            return 0
        batch = core.store.begin()
        if durable:
            batch.add_messages(messages, target.durable_ids)
        if cache is not None:
            cache.add_run(ids, batch, record_id)
        ticket = core.store.commit(batch)
        return ticket if core.options.journal_sync_non_transactional else 0

    def _arrive(
        self, queues: tuple[Queue, ...], messages: list[Message], answers: list[bytes | None], sizes: list[int], encoded: int
    ) -> None:
        """The messages are stored: on to their queues, and the sender is told."""
        for queue in queues:
            if queue.deleted:
                self._session.server.messaging.sending.deliver([Reference(message, queue) for message in messages])
            else:
                queue.add_arrived(messages, messages[0].durable, encoded)
        self._session.finish_run(answers, sizes)

    # --- what is known of addresses

    def _find(self, raw: bytes, shape: _Shape) -> _Target | None:
        """The queues that a message states; None when nothing can be said of them for the next one."""
        key = (raw, shape.queue_ids, shape.routing_type)
        target = self._targets.get(key)
        if target is None:
            target = self._resolve(decode_utf_16(raw[5:]), shape)
            if target is not None:
                if len(self._targets) >= TARGETS_MAX:
                    self._targets.clear()
                self._targets[key] = target
        return target

    def _resolve(self, name: str, shape: _Shape) -> _Target | None:
        """As :func:`mqbroker.messaging.delivery.arriving.take_arrival` does, where nothing depends on the message."""
        session, core = self._session, self._core
        if not session.permissions.knows("send", name):
            return None
        nobody = _Target(None, ())
        address = plain_address(session.server, self._sender, name, shape.routing_type)
        if address is None or core.routing.route(name, shape.routing_type).diverted:
            return nobody
        bound = {queue.queue_id: queue for queue in core.routing.bound(name)}
        queues: list[Queue] = []
        for (number,) in _ID.iter_unpack(shape.queue_ids):
            queue = bound.get(number)
            if queue is None or queue in queues:
                return nobody
            definition = queue.definition
            if not definition.enabled or definition.purge_on_no_consumers or shape.routing_type not in (None, definition.routing_type):
                return nobody
            if not session.permissions.knows("send", definition.address, queue.name):
                return None
            queues.append(queue)
        return _Target(address, tuple(queues))
