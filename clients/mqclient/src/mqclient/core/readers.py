"""Named readers of a session: durable positions on queues whose messages can be read again and again until they are settled.

Only mqbroker has them; :meth:`Readers.supported` asks.  One range is read block by block, while the next block is on its way::

    state = await session.readers.open("orders", "warehouse")
    found = await session.readers.reserve("orders", "warehouse", state.epoch, state.settled)
    blocks = session.readers.blocks("orders", found.after, found.until)
    async for block in blocks:
        ...
    await session.readers.settle("orders", "warehouse", state.epoch, found.until)

No object is made per message: a block has the received bytes of its messages, and arrays for ``numpy.frombuffer``.

Source: ``protocol-spec/``, chapter "Readers".
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.runtime import Runtime, starts
from mqclient.errors import MalformedPacketError, MQError, NotImplementedByBrokerError, UnblockedError
from mqclient.wire.packets import (
    BINDING_QUERY_ANSWERS,
    READ_BYTES_MAX,
    READERS_ADDRESS,
    START_OLDEST,
    BindingQuery,
    IdCacheQuery,
    IdCacheState,
    NullResponse,
    Packet,
    ReaderBody,
    ReaderBodyChunk,
    ReaderMessages,
    ReaderOpen,
    ReaderRange,
    ReaderRead,
    ReaderRemove,
    ReaderReserve,
    ReaderSettle,
    ReaderState,
)

KIND_MESSAGE = 0
"""A message as in SESS_RECEIVE_MSG: i32 that says where the body ends, body, headers and properties."""
KIND_LARGE = 1
"""A large message: i64 size of its body, then headers and properties."""
MESSAGE_SIZE_MIN = 8
"""Bytes that every message of a block has at least, so that its first fields can be read without checking its size."""

_KINDS = bytes((KIND_MESSAGE, KIND_LARGE))
_ENTRY_SIZE = 8 + 4 + 4 + 1
_REPEATS_MAX = 3
"""Requests for the same block after it was lost with its connection."""


class MessageBlock:
    """Messages of a range, in the order of their ids.

    The four arrays are big endian and without gaps, ``count`` items each: ``ids`` (i64), ``delivery_counts`` (i32), ``sizes`` (i32, bytes
    of each message), ``kinds`` (i8).  ``messages`` has the messages back to back.  All five are views of the received frame, which lives
    as long as one of them.
    """

    __slots__ = ("count", "delivery_counts", "end", "ids", "kinds", "lost", "messages", "position", "sizes")

    def __init__(self, packet: ReaderMessages) -> None:
        """Raises ``MalformedPacketError`` naming the field when the arrays, sizes and messages do not fit together."""
        self.position = packet.position
        """Everything of the range up to this id was looked at; where the next read goes on."""
        self.end = packet.end
        """Is the range done?"""
        self.lost = packet.lost
        """Was something of the range settled or removed before it was read?"""
        self.count = count = packet.count
        data = memoryview(packet.messages)
        if not 0 <= count <= len(data) // _ENTRY_SIZE:
            raise _malformed("count", f"{count} messages cannot fit in {len(data)} bytes")
        self.ids = data[: 8 * count]
        self.delivery_counts = data[8 * count : 12 * count]
        self.sizes = data[12 * count : 16 * count]
        self.kinds = data[16 * count : 17 * count]
        self.messages = data[17 * count :]
        if count:
            self._check()
        elif self.messages:
            raise _malformed("messages", f"{len(self.messages)} bytes follow, of no message")

    def _check(self) -> None:
        sizes = array("i")
        sizes.frombytes(self.sizes)
        if sys.byteorder == "little":
            sizes.byteswap()
        least, total = min(sizes), sum(sizes)
        if least < MESSAGE_SIZE_MIN:
            raise _malformed("sizes", f"a message of {least} bytes; the smallest has {MESSAGE_SIZE_MIN}")
        if total != len(self.messages):
            raise _malformed("sizes", f"{total} bytes together, but {len(self.messages)} follow")
        unknown = self.kinds.tobytes().translate(None, _KINDS)
        if unknown:
            raise _malformed("kinds", f"{unknown[0]} is not a kind of message")


def _malformed(field: str, reason: str) -> MalformedPacketError:
    return MalformedPacketError(ReaderMessages.NAME, field, reason)


class ReadingSession(Protocol):
    """The session, as its readers see it."""

    runtime: Runtime
    channel: Channel

    @property
    def closed(self) -> bool: ...


class Readers:
    """The calls about readers.  All raise the error that the broker answers, or the ``MQError`` of a lost connection.

    Positions are message ids, which ascend strictly; a range (after, until] begins behind ``after``.
    """

    def __init__(self, session: ReadingSession) -> None:
        self.runtime: Runtime = session.runtime
        self._session = session

    @starts
    async def supported(self) -> bool:
        """Does the broker know readers?  Has no side effects, also where it does not."""
        return bool((await self._answer(BindingQuery(READERS_ADDRESS), *BINDING_QUERY_ANSWERS)).exists)

    def open(self, queue: str, reader: str, start: int = START_OLDEST) -> Awaitable[ReaderState]:
        """Take over a reader, which is made if the queue has none of that name.

        ``start`` is where a new reader begins: -1 before the oldest message, -2 behind the newest, n after message n.  An earlier user of
        the reader is fenced: its epoch is refused from now on.
        """
        return self._call(ReaderOpen(queue, reader, start), ReaderState)

    def reserve(
        self,
        queue: str,
        reader: str,
        epoch: int,
        after: int,
        *,
        until: int = -1,
        max_messages: int = -1,
        max_bytes: int = -1,
        parts: int = 1,
    ) -> Awaitable[ReaderRange]:
        """Get the range after ``after`` and keep its messages for the reader, durably.  -1: as far, as many as there are.

        The range is cut into at most ``parts`` parts of similar size, whose ends are in ``ends``.
        """
        return self._call(ReaderReserve(queue, reader, epoch, after, until, max_messages, max_bytes, parts), ReaderRange)

    def survey(
        self, queue: str, after: int, *, until: int = -1, max_messages: int = -1, max_bytes: int = -1, parts: int = 1
    ) -> Awaitable[ReaderRange]:
        """As :meth:`reserve`, but no message is kept for a reader."""
        return self._call(ReaderReserve(queue, None, 0, after, until, max_messages, max_bytes, parts), ReaderRange)

    @starts
    async def read(
        self, queue: str, after: int, until: int, *, max_bytes: int = READ_BYTES_MAX, filter_string: str | None = None
    ) -> MessageBlock:
        """The next messages of a range, of at most ``max_bytes`` together, but at least one.  The messages stay in the queue."""
        return MessageBlock(await self._answer(ReaderRead(queue, after, until, max_bytes, filter_string), ReaderMessages))

    def blocks(self, queue: str, after: int, until: int, *, max_bytes: int = READ_BYTES_MAX, filter_string: str | None = None) -> Blocks:
        """A range block by block; the next one is asked for before the last one is handed over."""
        return Blocks(self._session, ReaderRead(queue, after, until, max_bytes, filter_string))

    @starts
    async def body(self, queue: str, message_id: int, offset: int, size: int = READ_BYTES_MAX) -> bytes:
        """A piece of the body of a large message, at most 4 MiB; shorter than ``size`` only where the body ends."""
        return bytes((await self._answer(ReaderBody(queue, message_id, offset, size), ReaderBodyChunk)).data)

    @starts
    async def settle(self, queue: str, reader: str, epoch: int, until: int) -> None:
        """Settle all messages up to ``until``.  Messages that all readers of the queue have settled are removed, durably."""
        await self._answer(ReaderSettle(queue, reader, epoch, until), NullResponse)

    @starts
    async def remove(self, queue: str, reader: str) -> None:
        """Forget the reader; messages that it had not settled stay in the queue."""
        await self._answer(ReaderRemove(queue, reader), NullResponse)

    def id_cache(self, address: str) -> Awaitable[IdCacheState]:
        """The number of duplicate ids that the broker keeps for an address, and whether a restart keeps them."""
        return self._call(IdCacheQuery(address), IdCacheState)

    # --- inside

    def _call(self, packet: Packet, expects: type[Packet]) -> Awaitable[Any]:
        return self.runtime.spawn(self._answer(packet, expects))

    async def _answer(self, packet: Packet, *expects: type[Packet]) -> Any:
        await self._session.channel.ready()
        return await self._session.channel.call(packet, *expects)


class Blocks:
    """A range that is read block by block.

    When one block is handed over, the next is asked for already: the broker makes it and the network carries it while the caller deals with
    the first.  A block that is lost with its connection is asked for again, where the session goes on over a new one.
    """

    def __init__(self, session: ReadingSession, request: ReaderRead) -> None:
        self._session = session
        self._request = request
        self._coming: Any = None
        self._ended = False

    async def next(self) -> MessageBlock | None:
        """The next block, None behind the last.  After an error the range can be gone on with: nothing of it is skipped."""
        if self._ended:
            return None
        repeats = 0
        while True:
            coming, self._coming = self._coming, None
            if coming is None:
                await self._session.channel.ready()
                coming = self._ask()
            outcome = await coming
            if isinstance(outcome, MessageBlock):
                break
            repeats += 1
            if not isinstance(outcome, UnblockedError) or repeats > _REPEATS_MAX or self._session.closed:
                raise outcome
        if outcome.end:
            self._ended = True
        else:
            self._request.after = outcome.position
            if self._session.channel.error is None:
                self._coming = self._ask()
        return outcome

    def __aiter__(self) -> AsyncIterator[MessageBlock]:
        return self

    async def __anext__(self) -> MessageBlock:
        block = await self.next()
        if block is None:
            raise StopAsyncIteration
        return block

    def _ask(self) -> Any:
        request = self._request
        again = ReaderRead(request.queue, request.after, request.until, request.max_bytes, request.filter)
        return self._session.runtime.spawn(self._outcome(self._session.channel.call(again, ReaderMessages)))

    async def _outcome(self, answer: Any) -> MessageBlock | MQError:
        """A block, or the error as a value, because the caller may not await it."""
        try:
            return MessageBlock(await answer)
        except MQError as error:
            return error


class SessionThatAsks(Protocol):
    @property
    def readers(self) -> Readers: ...


async def ask_id_cache(session: SessionThatAsks, address: str) -> IdCacheState:
    """The duplicate ids that the broker keeps of an address.  Raises ``NotImplementedByBrokerError`` when this is no mqbroker."""
    if not await session.readers.supported():
        raise NotImplementedByBrokerError("only mqbroker answers this question without rights of management")
    state: IdCacheState = await session.readers.id_cache(address)
    return state
