"""The requests of a session about readers: open, reserve, read, settle (``protocol-spec/``, chapter "Readers").

Some requests have to wait for the disk or for a search through many messages.  No other request of the connection is handled until then, so
that answers keep the order of the requests; the peer counts as alive meanwhile.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.readers.reading import Block
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.transport.naming import split_qualified
from mqclient.errors import IllegalStateError, LargeMessageBodyError, MQError, QueueDoesNotExistError
from mqclient.wire import packets as wire

if TYPE_CHECKING:
    from mqbroker.messaging.message.large_body import LargeBody
    from mqbroker.messaging.queues.reader import Reader
    from mqbroker.messaging.readers.ranges import Range
    from mqbroker.server.session_state import SessionState

_FRAME = struct.Struct(">ibq")
_HEAD = struct.Struct(">qBBi")
_I64 = struct.Struct(">q")


class _Answer:
    """An answer that may come later; the connection handles no other request until then."""

    __slots__ = ("_connection", "_done", "_held", "_session")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._connection = session.connection
        self._done = False
        self._held = False

    def wait(self) -> None:
        """Hold the connection back if the answer has not been given yet."""
        if not self._done:
            self._held = True
            self._connection.hold_back()

    def give(self, packet: wire.Packet, ticket: int = 0) -> None:
        if not self._session.closed:
            self._session.reply(packet, ticket)
        self._go_on()

    def refuse(self, error: MQError) -> None:
        if not self._session.closed:
            self._session.reply_error(error)
        self._go_on()

    def _go_on(self) -> None:
        self._done = True
        if self._held:
            self._held = False
            self._connection.hear_again()


class SessionReaders:
    """The requests of one session about readers."""

    __slots__ = ("_readers", "_server", "_session")

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self._server = session.server
        self._readers = session.server.messaging.readers

    def _queue(self, name: str, permission: str) -> Queue:
        session = self._session
        stripped, _ = session.connection.naming.strip(name)
        address, qualified = split_qualified(stripped)
        queue = self._server.messaging.core.queues.get(qualified or address)
        if queue is None:
            raise QueueDoesNotExistError(f"AMQ229017: Queue {name} does not exist")
        session.permissions.check(permission, queue.definition.address, queue.name)
        return queue

    def _check_cluster(self) -> None:
        """Raises IllegalStateError where what a reader has reserved might come again at another broker, under other ids."""
        home = self._server.configuration.home_cluster
        if home is not None and home.enhanced is not None:
            raise IllegalStateError(
                "readers, such as Spark's, are refused in an enhanced cluster: after a takeover messages have other ids"
            )

    # --- readers

    def _open(self, packet: wire.ReaderOpen) -> None:
        self._check_cluster()
        queue = self._queue(packet.queue, "consume")
        answer = _Answer(self._session)

        def opened(reader: Reader, newest: int, ticket: int) -> None:
            log = queue.log
            state = wire.ReaderState(
                self._server.node_id,
                reader.epoch,
                reader.settled,
                reader.reserved,
                newest,
                0 if log is None else log.lag(reader),
                queue.definition.address,
            )
            answer.give(state, ticket)

        self._readers.open(queue, packet.reader, packet.start, opened, answer.refuse)
        answer.wait()

    def _remove(self, packet: wire.ReaderRemove) -> None:
        queue = self._queue(packet.queue, "consume")
        self._session.reply_null(-1, self._readers.remove(queue, packet.reader))

    def _reserve(self, packet: wire.ReaderReserve) -> None:
        self._check_cluster()
        queue = self._queue(packet.queue, "browse" if packet.reader is None else "consume")
        answer = _Answer(self._session)

        def reserved(found: Range, ticket: int) -> None:
            try:
                oldest = self._readers.oldest(queue)
            except NotYet as pending:
                self._wait(pending, reserved, found, ticket)
                return
            answer.give(wire.ReaderRange(found.after, found.until, found.messages, found.size, oldest, tuple(found.ends)), ticket)

        limits = (packet.max_messages, packet.max_bytes, packet.parts)
        self._readers.reserve(queue, packet.reader, packet.epoch, packet.after, packet.until, limits, reserved, answer.refuse)
        answer.wait()

    def _settle(self, packet: wire.ReaderSettle) -> None:
        queue = self._queue(packet.queue, "consume")
        answer = _Answer(self._session)
        self._readers.settle(
            queue, packet.reader, packet.epoch, packet.until, lambda ticket: answer.give(self._null(), ticket), answer.refuse
        )
        answer.wait()

    @staticmethod
    def _null() -> wire.NullResponse:
        return wire.NullResponse(-1)

    # --- messages

    def _read(self, packet: wire.ReaderRead) -> None:
        queue = self._queue(packet.queue, "browse")
        self._session.connection.filter_read(packet.filter)
        filter = parse_filter(packet.filter)
        max_bytes = min(max(packet.max_bytes, 1), wire.READ_BYTES_MAX)
        try:
            block = self._readers.read(queue, packet.after, packet.until, max_bytes, filter)
        except NotYet as pending:
            self._session.put_off(Undecided(pending.when_there))
        else:
            self._session.reply_frame(self._encoded(block))

    def _encoded(self, block: Block) -> bytes:
        """The frame of READER_MESSAGES, made by one join, without work per message."""
        rows = block.rows
        count = len(rows.ids)
        sizes = [*map(len, rows.buffers)]
        parts = rows.buffers
        kinds = bytes(count)
        counts = bytes(4 * count)
        if rows.bodies:
            parts = [*rows.buffers]
            marks = bytearray(count)
            for row, body in rows.bodies.items():
                marks[row] = 1
                sizes[row] += _I64.size
                parts[row] = _I64.pack(body.size) + parts[row]
            kinds = bytes(marks)
        if rows.counts:
            counts = struct.pack(f">{count}i", *(rows.counts.get(row, 0) for row in range(count)))
        size = _FRAME.size + _HEAD.size + 17 * count + sum(sizes)
        return b"".join(
            (
                _FRAME.pack(size - 4, wire.ReaderMessages.TYPE, self._session.channel),
                _HEAD.pack(block.position, 0xFF if block.end else 0, 0xFF if block.lost else 0, count),
                struct.pack(f">{count}q", *rows.ids),
                counts,
                struct.pack(f">{count}i", *sizes),
                kinds,
                *parts,
            )
        )

    def _body(self, packet: wire.ReaderBody) -> None:
        queue = self._queue(packet.queue, "browse")
        answer = _Answer(self._session)

        def found(body: LargeBody | None) -> None:
            if body is None:
                answer.refuse(
                    IllegalStateError(f"AMQ229908: queue {queue.name} has no large message {packet.message_id}: it was settled or removed")
                )
                return
            try:
                data = body.read(max(packet.offset, 0), min(max(packet.size, 0), wire.READ_BYTES_MAX))
            except NotYet as pending:
                self._wait(pending, found, body)
                return
            except OSError as error:
                answer.refuse(LargeMessageBodyError(f"the body of message {packet.message_id} cannot be read: {error}"))
                return
            answer.give(wire.ReaderBodyChunk(data))

        self._readers.find_body(queue, packet.message_id, found, answer.refuse)
        answer.wait()

    def _wait(self, pending: NotYet, function: Callable[..., object], *args: Any) -> None:
        """Try again in a later turn, for an answer that the connection waits for."""
        pending.when_there(partial(self._server.turn.run, function, *args))

    # --- duplicate ids

    def _id_cache(self, packet: wire.IdCacheQuery) -> None:
        options = self._server.messaging.core.options
        name, _ = self._session.connection.naming.strip(packet.address)
        size = self._server.messaging.core.settings_of(split_qualified(name)[0]).id_cache_size
        self._session.reply(wire.IdCacheState(max(options.id_cache_size if size is None else size, 0), options.persist_id_cache))

    HANDLERS: ClassVar[Mapping[int, Callable[[Any, Any], object]]] = {
        wire.ReaderOpen.TYPE: _open,
        wire.ReaderReserve.TYPE: _reserve,
        wire.ReaderRead.TYPE: _read,
        wire.ReaderBody.TYPE: _body,
        wire.ReaderSettle.TYPE: _settle,
        wire.ReaderRemove.TYPE: _remove,
        wire.IdCacheQuery.TYPE: _id_cache,
    }
