"""Messages of the core client, sent and received.

Source: ``protocol-spec/``, chapters "Message encoding" and "Large messages".
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from mqclient.core.runtime import Runtime
from mqclient.errors import IllegalStateError, LargeMessageBodyError, MQError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, TYPE_TEXT, CoreMessage
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING, TypedValue, Value

BodySource = BinaryIO | Iterable[bytes] | AsyncIterable[bytes]
"""The source of the body of a large message: a file (``read(n)``), or an iterator or async iterator of chunks of any size."""

_INT_RANGE = range(-(2**31), 2**31)
_LONG_RANGE = range(-(2**63), 2**63)


class Recipient(Protocol):
    """The :class:`mqclient.core.api.ClientConsumer` that got a message: which one it is, and how it acknowledges."""

    @property
    def queue_name(self) -> str: ...

    @property
    def filter_string(self) -> str | None: ...

    @property
    def browse_only(self) -> bool: ...

    @property
    def closed(self) -> bool: ...

    def acknowledge(self, message: ClientMessage) -> Awaitable[None]:
        """Acknowledge everything that was taken up to ``message``."""

    def individual_acknowledge(self, message: ClientMessage) -> Awaitable[None]: ...


@dataclass(slots=True)
class ClientMessage(CoreMessage):
    """A message; its fields are those of :class:`mqclient.wire.message.CoreMessage`.

    ``properties`` hold (type id, value) pairs; :meth:`put` and :meth:`get` deal with plain Python values.
    """

    body_source: BodySource | None = None
    """Sending: the body is streamed from here as a large message, and ``body`` is ignored."""
    delivery_count: int = 0
    """Receiving: 1 for the first delivery."""
    large: LargeBody | None = None
    """Receiving: the body of a large message, to be read before the next message of the same consumer is received; ``body`` is empty."""
    consumer: Recipient | None = None
    """Receiving: the consumer that got the message."""
    incarnation: int = 0
    """Receiving: how often the consumer had been created anew when the message came (used by acknowledgements)."""
    frame_size: int = 0
    """Receiving: bytes of credits that the message took, without the chunks of a large body."""
    encode_size: int = 0
    """Bytes of the encoded message, known when it was received or sent."""
    strict: bool = False
    """Sending refuses a body that is not of the form that the type asks for; ``session.create_message`` sets it."""

    @property
    def redelivered(self) -> bool:
        return self.delivery_count > 1

    @property
    def compressed(self) -> bool:
        """Is the body on the wire compressed?  (``read_body`` and ``large`` give the plain bytes.)"""
        return bool(self.get(KEY_LARGE_COMPRESSED))

    def put(self, key: str, value: Value, kind: int | None = None) -> None:
        """Set a property.  Without ``kind`` an int becomes INT if it fits and LONG otherwise, a float DOUBLE."""
        self.properties[key] = typed(value) if kind is None else (kind, value)

    @property
    def text(self) -> str | None:
        """The text of a text message; None for a null text.

        Raises ``IllegalStateError`` for a message of another type, ``LargeMessageBodyError`` for a large one (decode the bytes of
        ``message.large.read()`` with ``mqclient.wire.bodies.decode_text``), ``MalformedPacketError`` for a body that is no text.
        """
        self._must_be_text()
        return decode_text(self.plain_body())

    @text.setter
    def text(self, text: str | None) -> None:
        self._must_be_text()
        self.body = encode_text(text)

    def _must_be_text(self) -> None:
        if self.type != TYPE_TEXT:
            raise IllegalStateError(f"a message of type {self.type} has no text; only one of type {TYPE_TEXT} (TYPE_TEXT) has")

    def acknowledge(self) -> Awaitable[None]:
        """Acknowledge this message and all before it; see :meth:`mqclient.core.api.ClientConsumer.acknowledge`."""
        return self._owner().acknowledge(self)

    def individual_acknowledge(self) -> Awaitable[None]:
        return self._owner().individual_acknowledge(self)

    def plain_body(self) -> bytes:
        """The body of a message that is not large, decompressed when a sender compressed it.

        Raises ``LargeMessageBodyError`` for a large message (read ``large``) and for a damaged compressed body.
        """
        if self.large is not None:
            raise LargeMessageBodyError("the body of a large message is read with message.large.read(), save_to() or async iteration")
        if not self.compressed:
            return self.body
        try:
            return zlib.decompress(self.body)
        except zlib.error as error:
            raise LargeMessageBodyError(f"the compressed body cannot be read: {error}") from error

    def _owner(self) -> Recipient:
        if self.consumer is None:
            raise IllegalStateError("only a received message can be acknowledged")
        return self.consumer


def typed(value: Value) -> TypedValue:
    """The property type that a plain Python value gets.  Raises TypeError or OverflowError when there is none."""
    if value is None:
        return NULL, None
    if isinstance(value, bool):
        return BOOLEAN, value
    if isinstance(value, str):
        return STRING, value
    if isinstance(value, int):
        if value in _INT_RANGE:
            return INT, value
        if value in _LONG_RANGE:
            return LONG, value
        raise OverflowError(f"{value} does not fit in 64 bits")
    if isinstance(value, float):
        return DOUBLE, value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BYTES, bytes(value)
    raise TypeError(f"a property cannot hold a {type(value).__name__}; allowed are None, bool, int, float, str and bytes")


PROPERTY_TYPES = {
    "boolean": BOOLEAN,
    "byte": BYTE,
    "bytes": BYTES,
    "short": SHORT,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "char": CHAR,
}
"""Names for ``put(…, kind=)``."""


class LargeBody:
    """The body of a large message while it arrives.  The body can be read once, by one reader.

    The buffer is bounded by the consumer's window: credits for a chunk are returned when the chunk is taken.
    """

    __slots__ = ("_chunks", "_decompressor", "_error", "_finished", "_open", "_patiently", "_returned", "_runtime", "_size", "_waiter")

    def __init__(
        self,
        runtime: Runtime,
        message: ClientMessage,
        stored_size: int,
        returned: Callable[[int, bool], None],
        patiently: Callable[[Callable[[], Any], str], Awaitable[None]],
    ) -> None:
        """``returned(frame_size, last)`` is called for each chunk that was taken or dropped.

        ``patiently(wait, what)`` awaits the future of ``wait()``, and raises ``ConnectionTimedOutError`` after a limit of time.
        """
        self._runtime = runtime
        self._returned = returned
        self._patiently = patiently
        self._chunks: deque[tuple[bytes, int, bool]] = deque()
        self._waiter: Any = None
        self._error: MQError | None = None
        self._finished = False
        self._open = True
        self._decompressor = zlib.decompressobj() if message.compressed else None
        size = message.get(KEY_LARGE_SIZE)
        self._size: int | None = size if isinstance(size, int) else None if message.compressed else stored_size

    @property
    def size(self) -> int | None:
        """Bytes of the body as the sender gave it (uncompressed); None when the sender did not say."""
        return self._size

    @property
    def claimed(self) -> bool:
        """Has reading begun, or has the body been given up?"""
        return not self._open

    @property
    def finished(self) -> bool:
        """Has the last chunk been taken?"""
        return self._finished

    def read(self) -> Awaitable[bytes]:
        """The whole body.

        Raises ``LargeMessageBodyError`` when it was read or given up before, ``LargeMessageInterruptedError`` when the connection or
        consumer ended before the last chunk, ``ConnectionTimedOutError`` when a chunk does not come within ``call_timeout``.
        """
        return self._runtime.spawn(self._read())

    def save_to(self, file: BinaryIO) -> Awaitable[None]:
        """Write the body to ``file``, chunk by chunk; errors as in :meth:`read`."""
        return self._runtime.spawn(self._save_to(file))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body in chunks; errors as in :meth:`read`.  A loop that is left before the last one gives up the rest."""
        self._claim()
        try:
            while not self._finished:
                chunk = await self._next()
                if chunk:
                    yield chunk
        finally:
            self._waiter = None  # it was this one
            self.discard()

    def discard(self, error: MQError | None = None) -> None:
        """Give up the rest of the body, reading raises ``error``; credits of chunks that still come are returned at once."""
        if self._finished:
            return
        self._open = False
        self._error = self._error or error or LargeMessageBodyError("the body was given up: it has to be read before the next receive")
        while self._chunks:
            _, frame_size, last = self._chunks.popleft()
            self._finished = self._finished or last
            self._returned(frame_size, last)
        self._wake()

    def feed(self, chunk: bytes, frame_size: int, last: bool) -> None:
        """A chunk arrived (from the consumer)."""
        if self._error is not None:
            self._finished = self._finished or last
            self._returned(frame_size, last)
            return
        self._chunks.append((chunk, frame_size, last))
        self._wake()

    def _claim(self) -> None:
        if not self._open:
            raise self._error or LargeMessageBodyError("the body has been read already")
        self._open = False

    async def _read(self) -> bytes:
        return b"".join([chunk async for chunk in self])

    async def _save_to(self, file: BinaryIO) -> None:
        async for chunk in self:
            file.write(chunk)

    async def _next(self) -> bytes:
        while not self._chunks:
            if self._error is not None:
                raise self._error
            await self._patiently(self._wait, "the next part of a large message")
        chunk, frame_size, last = self._chunks.popleft()
        self._finished = last
        self._returned(frame_size, last)
        if self._decompressor is None:
            return chunk
        try:
            return self._decompressor.decompress(chunk) + (self._decompressor.flush() if last else b"")
        except zlib.error as error:
            self.discard()
            raise LargeMessageBodyError(f"the compressed body cannot be read: {error}") from error

    def _wait(self) -> Any:
        self._waiter = self._runtime.create_future()
        return self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            self._runtime.resolve(waiter, None)
