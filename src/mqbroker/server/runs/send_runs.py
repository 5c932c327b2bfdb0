"""Plain messages in a row: the fast way for what a chunk of bytes brings from a busy producer (decision 9).

A message is *plain* when nothing about it needs a decision of its own: its address exists, was checked for this session before, and routes
every message to the same queues, or to the same queue of another broker; it has no schedule or other property for the broker but its
routing type, and behind that a duplicate id only if it is new.  Plain messages that follow each other are stored as one batch, with their
duplicate ids if each has one and all are of one length, and become visible, are counted and answered together.  Everything else goes
through :meth:`mqbroker.server.session.sends.SessionSends.send`, one by one, and nobody can tell the difference but by the time it takes.

Slightly longer than other modules: the one loop over all messages reads what the objects beside it have found out.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mqbroker.messaging.message.message import PROPERTIES_CHECKED_FROM, Message
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Reference
from mqbroker.messaging.routing.bindings_group import Rotation
from mqbroker.server.runs.arrival_runs import ArrivalRuns
from mqbroker.server.runs.plain_addresses import Sender, plain_address
from mqbroker.server.runs.property_looks import DUPLICATE_ID, INTERNAL, id_behind, look_through
from mqbroker.server.runs.run_ids import RunIds
from mqclient.errors import MalformedPacketError, MQError
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.hot import VERSION_CORRELATION, send_trailer_size
from mqclient.wire.message import HEADERS_SIZE_MIN
from mqclient.wire.packets import NullResponse, SessionSend
from mqclient.wire.primitives import decode_utf_16
from mqclient.wire.properties import BYTES, STRING, bytes_property, check_block, check_entries, walk, with_property

if TYPE_CHECKING:
    from mqbroker.messaging.message.memory import AddressMemory
    from mqbroker.messaging.queues.address import Address
    from mqbroker.messaging.routing.remote import RemoteBinding
    from mqbroker.server.session_state import SessionState

PLAINS_MAX = 100
"""Addresses of one session whose messages can take the fast way; a session that sends to more begins anew."""

SEND_SIZE_MIN = HEADER_SIZE + 4 + HEADERS_SIZE_MIN
"""Bytes of a frame with a message, without its trailer."""

_I32 = struct.Struct(">i")
_TYPE_CHANNEL = struct.Struct(">bq")
_ANSWER = struct.Struct(">ibqq")
_unpack_i32 = _I32.unpack_from
_pack_i64 = struct.Struct(">q").pack
_unpack_fixed = struct.Struct(">bBqqb").unpack_from
_unpack_trailer = struct.Struct(">Bq").unpack_from
_pack_answer = _ANSWER.pack
_ANSWER_LENGTH = _ANSWER.size - 4
_NOTHING_KNOWN = b"\xff"
"""Begins no property block."""


class _Plain:
    """An address (with a routing type) whose messages can be plain; without ``queues`` they never are.

    ``raw`` are its bytes in a message, ``routed`` those of the property block up to the routing type, as they were in the last message that
    was looked through, and ``left`` the number of entries behind them.  A block of ``size`` bytes that begins with ``known`` and has each
    of ``fixed`` (place, bytes) in it differs from one that was looked through in the values of the client alone: there is nothing to find
    out, and its duplicate id is at ``id_at``; that of the block that was looked through last is at ``found_id``.  ``entry`` is the property
    that says to which queue of another broker they go.  With a ``rotation`` each goes to the queue whose turn it is.
    """

    __slots__ = (
        "address",
        "durable_ids",
        "entry",
        "fixed",
        "found_id",
        "id_at",
        "known",
        "left",
        "queues",
        "raw",
        "rotation",
        "routed",
        "routing_type",
        "seen",
        "size",
    )

    def __init__(
        self, raw: bytes, address: Address, routing_type: int | None, queues: tuple[Queue, ...], remote: RemoteBinding | None
    ) -> None:
        self.raw = raw
        self.address = address
        self.routing_type = routing_type
        self.queues = queues
        self.durable_ids = [queue.queue_id for queue in queues if queue.definition.durable]
        self.entry = None if remote is None else bytes_property(remote.route_key, remote.route_value)
        self.known = self.routed = _NOTHING_KNOWN
        self.left = 0
        self.size = self.seen = -1
        self.fixed: list[tuple[int, bytes]] = []
        self.id_at: tuple[int, int] | None = None
        self.found_id: tuple[int, int] | None = None
        self.rotation: _Turns | None = None

    def differs(self, data: bytes, start: int) -> bool:
        """Has the block at ``start``, whose size and beginning are known, other entries?"""
        for place, raw in self.fixed:  # noqa: SIM110 - a generator would cost more than the comparisons
            if not data.startswith(raw, start + place):
                return True
        return False

    def look(self, data: bytes, start: int, end: int) -> bool:
        """Look through the property block: is it one of a plain message, and can all of it be decoded?"""
        routed = self.routed
        place: tuple[int, int] | None = None
        if not data.startswith(routed, start) or data.find(INTERNAL, start + len(routed), end) >= 0:
            behind = id_behind(data, start + len(routed), end) if data.startswith(routed, start) else None
            if behind is not None:
                place = behind
            else:
                found = look_through(data, start, end)
                if found is None or found.routing_type != self.routing_type:
                    return False
                self.routed, place = found.routed, found.id_at
                self.left = _unpack_i32(data, start + 1)[0] - found.entries if self.routed else 0
        try:
            if self.routed:
                check_entries(data, start + len(self.routed), end, self.left)
            else:
                check_block(data, start, end)
        except MalformedPacketError:
            return False
        if self.seen == end - start:
            self._learn(data, start, end)
        self.seen = end - start
        self.found_id = None if place is None else (place[0] - start, place[1] - start)
        return True

    def _learn(self, data: bytes, start: int, end: int) -> None:
        """Blocks of this size come again: remember all of it but the values of the client."""
        pieces = []
        position = start
        own = start + len(self.routed)
        self.id_at = None
        for key_start, key_end, kind, value_start, value_end in walk(data, start, end):
            if value_end > own:
                if data[key_start:key_end] == DUPLICATE_ID:
                    self.id_at = value_start + 4 - start, value_end - start
                stays = value_start + 4 if kind in (STRING, BYTES) else value_start
                pieces.append((position - start, data[position:stays]))
                position = value_end
        pieces.append((position - start, data[position:end]))
        self.known = pieces[0][1]
        self.fixed = [(place, raw) for place, raw in pieces[1:] if raw]
        self.size = end - start


class _Turns:
    """Queues that take turns, with the entry that a message for each of them gets."""

    __slots__ = ("entries", "next", "queues")

    def __init__(self, rotation: Rotation) -> None:
        self.next = rotation.next
        self.queues: list[Queue] = []
        self.entries: list[bytes | None] = []
        for binding in rotation.bindings:
            if isinstance(binding, Queue):
                self.queues.append(binding)
                self.entries.append(None)
            else:
                self.queues.append(binding.store_and_forward)
                self.entries.append(bytes_property(binding.route_key, binding.route_value))


class SendRuns:
    """Runs of plain messages of one session."""

    __slots__ = (
        "_arrivals",
        "_begin",
        "_core",
        "_enabled",
        "_last",
        "_plains",
        "_routing_version",
        "_security_version",
        "_sender",
        "_server",
        "_session",
        "_trailer",
    )

    def __init__(self, session: SessionState, sender: Sender) -> None:
        self._session = session
        self._sender = sender
        self._server = session.server
        self._core = session.server.messaging.core
        self._begin = _TYPE_CHANNEL.pack(SessionSend.TYPE, session.channel)
        self._trailer = send_trailer_size(session.version)
        self._enabled = session.version >= VERSION_CORRELATION
        self._plains: dict[bytes, _Plain] = {}
        self._last: _Plain | None = None
        self._arrivals = ArrivalRuns(session, sender)
        self._routing_version = self._security_version = -1

    def take(self, frames: list[bytes], index: int) -> int:
        """Handle the frames from ``index`` on as far as they are plain; returns the index of the first that is not."""
        data = frames[index]
        end = len(data) - self._trailer
        if not self._enabled or end < SEND_SIZE_MIN or self._session.closed:
            return index
        plain = self._find(data, _I32.unpack_from(data, HEADER_SIZE)[0] + 4, end)
        if plain is None:
            return self._arrivals.take(frames, index)
        begin, trailer, channel = self._begin, self._trailer, self._session.channel
        raw, known, memory, name, copies = plain.raw, plain.known, plain.address.memory, plain.address.name, len(plain.queues) or 1
        raw_size, known_size, block_size, fixed_bytes, entry, grown = len(raw), len(known), plain.size, plain.fixed, plain.entry, 0
        next_id = self._core.store.next_id
        messages: list[Message] = []
        answers: list[bytes | None] = []
        sizes: list[int] = []
        turns = plain.rotation
        forwards = entry is not None or turns is not None
        chosen: list[int] = []
        transacted = not self._session.auto_commit_sends
        ids = RunIds(self._core, name, transacted)
        layout_id, run_durable, with_ids = plain.id_at, -1, False
        takes_all = (transacted or memory.paging is not None) and self._core.paging.takes_all(memory)
        pages = memory if takes_all and not transacted and turns is None else None
        for at in range(index, len(frames)):
            data = frames[at]
            size = len(data)
            end = size - trailer
            if end < SEND_SIZE_MIN or not data.startswith(begin, 4):
                break
            headers: int = _unpack_i32(data, HEADER_SIZE)[0] + 4
            fixed = headers + 8 + raw_size
            if headers < HEADER_SIZE + 4 or fixed + 37 > end or not data.startswith(raw, headers + 8):
                break
            fixed += 17 if data[fixed] == 1 else 1
            values: tuple[int, int, int, int, int] = _unpack_fixed(data, fixed)
            _, durable, expiration, _, _ = values
            properties = fixed + 19
            if end - properties > PROPERTIES_CHECKED_FROM:
                break
            id_at = layout_id
            if (
                end - properties != block_size
                or not data.startswith(known, properties)
                or (id_at is None and data.find(INTERNAL, properties + known_size, end) >= 0)
                or (fixed_bytes and plain.differs(data, properties))
            ):
                if not plain.look(data, properties, end):
                    break  # the other way says what is wrong with it, if anything is
                known, known_size, block_size, fixed_bytes = plain.known, len(plain.known), plain.size, plain.fixed
                layout_id, id_at = plain.id_at, plain.found_id
            has_id = id_at is not None
            if (has_id or with_ids) and (turns is not None or not ids.fits(data, properties, id_at, bool(messages))):
                break
            if durable != run_durable:
                if messages:
                    break  # what needs no disk does not wait for what comes after it
                run_durable = durable
            if pages is None and (memory.full or memory.paging is not None) and not (transacted and takes_all):
                break
            try:
                if has_id:
                    ids.reserve()
                message_id = next_id()
            except MQError:
                break  # the other way tells the client
            if has_id:
                ids.take()
                with_ids = True
            told: tuple[int, int] = _unpack_trailer(data, end)
            flag, correlation_id = told
            buffer = b"".join((data[HEADER_SIZE:headers], _pack_i64(message_id), data[headers + 8 : end]))
            if forwards:
                if turns is not None:
                    number = turns.next()
                    chosen.append(number)
                    entry = turns.entries[number]
                if entry is not None:
                    buffer = with_property(buffer, properties - HEADER_SIZE, entry)
                    grown += len(buffer) - end + HEADER_SIZE
            message = Message(buffer, headers - HEADER_SIZE, name, message_id, durable != 0, expiration, properties - HEADER_SIZE)
            if pages is None:
                memory.hold(message, copies)
            messages.append(message)
            answers.append(_pack_answer(_ANSWER_LENGTH, NullResponse.TYPE, channel, correlation_id) if flag else None)
            sizes.append(size)
        if messages and turns is not None:
            self._finish_turns(plain, messages, [turns.queues[number] for number in chosen], answers, sizes)
        elif messages:
            self._finish(plain, messages, answers, sizes, grown, ids, pages)
        else:
            return self._arrivals.take(frames, index)
        return index + len(messages)

    def forget(self) -> None:
        """Find out anew about every address."""
        self._plains.clear()
        self._last = None
        self._arrivals.forget()

    def _finish(
        self,
        plain: _Plain,
        messages: list[Message],
        answers: list[bytes | None],
        sizes: list[int],
        grown: int,
        ids: RunIds,
        pages: AddressMemory | None,
    ) -> None:
        """Store the messages of a run, which have ``grown`` by so many bytes; what follows from it happens in its order."""
        session = self._session
        count = len(messages)
        self._sender.messages_sent += count
        plain.address.routed_messages += count
        queues = plain.queues
        for queue in queues:
            queue.arriving += count
        if not session.auto_commit_sends:
            for message in messages:
                session.transaction.add_send(message, [Reference(message, queue) for queue in queues])
            ids.join(session.transaction)
            session.context.run(0, session.finish_run, answers, sizes)
            return
        core = self._core
        if pages is not None:
            batch = core.store.begin()
            core.paging.page_run(batch, pages, messages, queues)
            if ids:
                ids.store(batch)
            session.context.run(core.store.commit(batch), session.finish_run, answers, sizes)
            return
        ticket = 0
        durable = bool(plain.durable_ids) and messages[0].durable
        if durable or ids:
            batch = core.store.begin()
            if durable:
                batch.add_messages(messages, plain.durable_ids)
            if ids:
                ids.store(batch)
            ticket = core.store.commit(batch)
            if not core.options.journal_sync_non_transactional:
                ticket = 0
        session.context.run(ticket, self._arrive, queues, messages, answers, sizes, grown)

    def _arrive(
        self, queues: tuple[Queue, ...], messages: list[Message], answers: list[bytes | None], sizes: list[int], grown: int
    ) -> None:
        """The messages are stored: on to their queues, and the sender is told."""
        size = sum(sizes) - len(sizes) * (HEADER_SIZE + self._trailer) + grown
        for queue in queues:
            if queue.deleted:
                self._server.messaging.sending.deliver([Reference(message, queue) for message in messages])
            else:
                queue.add_arrived(messages, messages[0].durable, size)
        self._session.finish_run(answers, sizes)

    def _finish_turns(
        self, plain: _Plain, messages: list[Message], queues: list[Queue], answers: list[bytes | None], sizes: list[int]
    ) -> None:
        """As :meth:`_finish`, for messages of which each goes to one of ``queues``."""
        session, core = self._session, self._core
        self._sender.messages_sent += len(messages)
        plain.address.routed_messages += len(messages)
        for queue in queues:
            queue.arriving += 1
        references = [Reference(message, queue) for message, queue in zip(messages, queues, strict=True)]
        if not session.auto_commit_sends:
            for reference in references:
                session.transaction.add_send(reference.message, [reference])
            session.context.run(0, session.finish_run, answers, sizes)
            return
        ticket = 0
        if messages[0].durable:
            batch = core.store.begin()
            durable = [reference for reference in references if reference.queue.definition.durable]
            for reference in durable:
                batch.add_message(reference.message, (reference.queue.queue_id,))
            if durable:
                ticket = core.store.commit(batch)
            if not core.options.journal_sync_non_transactional:
                ticket = 0
        session.context.run(ticket, self._arrive_turns, references, answers, sizes)

    def _arrive_turns(self, references: list[Reference], answers: list[bytes | None], sizes: list[int]) -> None:
        self._server.messaging.sending.deliver(references)
        self._session.finish_run(answers, sizes)

    # --- what is known of addresses

    def _find(self, data: bytes, headers: int, end: int) -> _Plain | None:
        """What is known of the address of the message in a frame, whose headers begin at ``headers``; None when it cannot be plain."""
        routing_version, security_version = self._core.routing.version, self._server.security.version
        if self._routing_version != routing_version or self._security_version != security_version:
            self.forget()
            self._routing_version, self._security_version = routing_version, security_version
        at = headers + 8
        last = self._last
        if headers < HEADER_SIZE + 4 or at + 5 > end or not data[at]:
            return None
        if last is not None and data.startswith(last.raw, at):
            return last
        length: int = _unpack_i32(data, at + 1)[0]
        raw = data[at : at + 5 + length]
        fixed = at + len(raw)
        if length < 0 or length & 1 or fixed + 37 > end:
            return None
        plain = self._plains.get(raw)
        if plain is None:
            if end - fixed > PROPERTIES_CHECKED_FROM:
                return None
            found = look_through(data, fixed + (36 if data[fixed] == 1 else 20), end)
            plain = None if found is None else self._resolve(raw, found.routing_type)
            if plain is None:
                return None
            if len(self._plains) >= PLAINS_MAX:
                self._plains.clear()
            self._plains[raw] = plain
        if not plain.queues and plain.rotation is None:
            return None
        self._last = plain
        return plain

    def _resolve(self, raw: bytes, routing_type: int | None) -> _Plain | None:
        """Find out about an address; None when that may be different for the next message."""
        session, core = self._session, self._core
        name = decode_utf_16(raw[5:])
        address = core.addresses.get(name)
        if address is None or not session.permissions.knows("send", name):
            return None
        queues: tuple[Queue, ...] = ()
        remote: RemoteBinding | None = None
        rotation: Rotation | None = None
        if plain_address(session.server, self._sender, name, routing_type) is not None:
            route = core.routing.route(name, routing_type)
            queues, remote, rotation = route.fixed or (), route.fixed_remote, route.rotation
            if remote is not None:
                queues = (remote.store_and_forward,)
        plain = _Plain(raw, address, routing_type, queues, remote)
        if rotation is not None:
            plain.rotation = _Turns(rotation)
        return plain
