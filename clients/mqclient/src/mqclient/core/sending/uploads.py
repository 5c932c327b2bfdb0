"""Large messages on their way to the broker: chunks, compression, one at a time per session.

Source: ``protocol-spec/``, chapter "Large messages".
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from typing import Any, Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.listeners import SendAcknowledgementHandler
from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Mutex
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.sending.sendable import CHUNK_SIZE_MAX, encoded
from mqclient.core.sending.work import OpenTransaction
from mqclient.core.settings import LocatorSettings
from mqclient.errors import IllegalStateError, LargeMessageInterruptedError
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, encode_headers, encode_message
from mqclient.wire.packets import NullResponse, SessionSendContinuation, SessionSendLarge
from mqclient.wire.properties import BOOLEAN, LONG

_CONTINUATION_OVERHEAD = HEADER_SIZE + 4 + 1 + 1 + 8 + 4
"""Bytes of a continuation's frame besides its chunk; the last one has 8 more."""


class _ConnectionReplaced(Exception):
    """The session was created anew before the last chunk was sent: the broker has dropped the others."""


class Uploader(Protocol):
    """The producer of a large message, as the upload sees it."""

    id: int

    def check_send(self, era: int) -> None:
        """Raise why a send that began in that era must not be written."""

    async def send_regular(
        self, message: ClientMessage, address: str, buffer: bytes, block: bool, handler: SendAcknowledgementHandler | None, era: int
    ) -> Any:
        """Send in one packet; returns the future of the broker's answer if one is to be waited for, else None."""


class LargeUploads:
    """The large messages of one session."""

    def __init__(
        self,
        channel: Channel,
        settings: LocatorSettings,
        flow: ProducerFlow,
        async_sends: AsyncSends,
        transaction: OpenTransaction,
        auto_commit_sends: bool,
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._flow = flow
        self._async_sends = async_sends
        self._transaction = transaction
        self._auto_commit_sends = auto_commit_sends
        self._mutex = Mutex(channel.runtime)
        self._chunk_size = min(settings.min_large_message_size, CHUNK_SIZE_MAX)

    async def send(
        self, producer: Uploader, message: ClientMessage, address: str, block: bool, handler: SendAcknowledgementHandler | None, era: int
    ) -> Any:
        """Send ``message`` in chunks; returns the future of the broker's answer if one is to be waited for, else None.

        Raises ``LargeMessageInterruptedError`` when a failure cuts off a body that cannot be read again.
        """
        async with self._mutex:
            while True:
                body = _Body(message, self._chunk_size)
                try:
                    return await self._send(producer, message, body, address, block, handler, era)
                except _ConnectionReplaced:
                    if body.from_source or not self._auto_commit_sends or self._settings.exactly_once:
                        raise LargeMessageInterruptedError(
                            "the connection failed before the whole body was sent; the broker has dropped the message"
                        ) from None

    async def _send(
        self,
        producer: Uploader,
        message: ClientMessage,
        body: _Body,
        address: str,
        block: bool,
        handler: SendAcknowledgementHandler | None,
        era: int,
    ) -> Any:
        settings = self._settings
        chunk_size = self._chunk_size
        wire = replace(message, properties=dict(message.properties), body=b"", body_source=None)
        # A body that was compressed before, and is passed on so: the message itself says how long it was.
        is_passed_on = wire.compressed and KEY_LARGE_SIZE in wire.properties and not settings.compress_large_message
        if settings.compress_large_message:
            body.compress(settings.compression_level)
            wire.properties[KEY_LARGE_COMPRESSED] = (BOOLEAN, True)
        chunk = await body.next_chunk()
        if settings.compress_large_message and len(chunk) < chunk_size:
            wire.body = chunk
            wire.properties[KEY_LARGE_SIZE] = (LONG, body.plain_size)
            return await producer.send_regular(message, address, encoded(encode_message, wire), block, handler, era)
        headers = encoded(encode_headers, wire)
        if len(headers) >= chunk_size:
            raise IllegalStateError(
                f"headers and properties of {len(headers)} bytes are not allowed for a large message; minLargeMessageSize is {chunk_size}"
            )
        channel = self._channel
        await channel.ready(writable=True)
        producer.check_send(era)
        incarnation = channel.incarnation
        self._transaction.sent()
        channel.send(SessionSendLarge(headers))
        message.encode_size = len(headers)
        await self._flow.acquire(producer, address, len(headers))
        while True:
            last = len(chunk) < chunk_size
            await self._async_sends.room()
            await channel.ready(writable=True)
            producer.check_send(era)
            if channel.incarnation != incarnation:
                raise _ConnectionReplaced
            packet = SessionSendContinuation(
                chunk, not last, -1 if is_passed_on else body.plain_size, correlation_id=0, sender_id=producer.id
            )
            answer = self._transmit(packet, message, last, block, handler)
            if answer is not None:
                await answer
            if last:
                # The broker has the message: neither a refusal of credits nor the wait for these must look as if it had not.
                self._flow.charge(address, len(chunk) + _CONTINUATION_OVERHEAD + 8)
                return None
            await self._flow.acquire(producer, address, len(chunk) + _CONTINUATION_OVERHEAD)
            chunk = await body.next_chunk()

    def _transmit(
        self, packet: SessionSendContinuation, message: ClientMessage, last: bool, block: bool, handler: SendAcknowledgementHandler | None
    ) -> Any:
        channel = self._channel
        if last and block:
            packet.requires_response = True
            return channel.call(packet, NullResponse, bound=True)
        if channel.protocol.window is not None:
            packet.requires_response = True
            packet.correlation_id = self._async_sends.register(message, handler if last else None, len(packet.chunk))
            channel.send(packet, tag=packet.correlation_id)
            return None
        channel.send(packet)
        if last and handler is not None:
            self._async_sends.written(message, handler)
        return None


class _Body:
    """Cuts the body into chunks; a chunk shorter than ``chunk_size`` (possibly empty) is the last."""

    def __init__(self, message: ClientMessage, chunk_size: int) -> None:
        self.plain_size = 0
        """Bytes read so far, before compression; the size of the body after the last chunk."""
        self.from_source = message.body_source is not None
        self._chunk_size = chunk_size
        self._parts = _parts(message, chunk_size)
        self._buffer = bytearray()
        self._compressor: Any = None
        self._ended = False

    def compress(self, level: int) -> None:
        self._compressor = zlib.compressobj(level)

    async def next_chunk(self) -> bytes:
        size = self._chunk_size
        while len(self._buffer) < size and not self._ended:
            try:
                part = await self._parts.__anext__()
            except StopAsyncIteration:
                self._ended = True
                if self._compressor is not None:
                    self._buffer += self._compressor.flush()
            else:
                self.plain_size += len(part)
                self._buffer += part if self._compressor is None else self._compressor.compress(part)
        chunk = bytes(self._buffer[:size])
        del self._buffer[:size]
        return chunk


async def _parts(message: ClientMessage, size: int) -> AsyncIterator[bytes]:
    source: Any = message.body_source
    if source is None:
        for start in range(0, len(message.body), size):
            yield message.body[start : start + size]
    elif hasattr(source, "read"):
        while True:
            part = source.read(size)
            if inspect.isawaitable(part):
                part = await part
            if not part:
                return
            yield part
    elif isinstance(source, AsyncIterable):
        async for part in source:
            yield part
    else:
        for part in source:
            yield part
