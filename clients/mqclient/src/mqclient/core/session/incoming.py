"""Dispatch of the packets that arrive on a session's channel to the parts of the session."""

from __future__ import annotations

import struct
from typing import Protocol, cast

from mqclient.core.connection.channel import Channel
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.consuming.encoded import EncodedConsumer
from mqclient.core.sending.async_sends import AsyncSends
from mqclient.core.sending.encoded_sends import EncodedSends
from mqclient.core.sending.flow import ProducerFlow
from mqclient.errors import error_for_code
from mqclient.protocol.channel import counted
from mqclient.protocol.connection import PACKETS_AS_VIEWS
from mqclient.wire import hot
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.packets import (
    DisconnectConsumer,
    ExceptionResponse,
    NullResponse,
    Packet,
    PacketsConfirmed,
    ProducerCredits,
    ProducerFailCredits,
    ReceiveHeld,
    SessionReceive,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    decode_packet,
)

_NULL_RESPONSE = NullResponse.TYPE
_CORRELATED_SIZE = HEADER_SIZE + 8
_unpack_correlation = struct.Struct(">q").unpack_from


class ReceivingSession(Protocol):
    """The session that frames come for: the parts that they are given to."""

    channel: Channel
    flow: ProducerFlow
    async_sends: AsyncSends
    encoded_sends: EncodedSends | None
    encoded_consumers: dict[int, EncodedConsumer]

    def consumer(self, consumer_id: int) -> Consumer | None:
        """The consumer with that id, None when there is none (any more)."""


class Incoming:
    """Deals with frames in their order, and confirms them if the session has a confirmation window."""

    __slots__ = ("_session",)

    def __init__(self, session: ReceivingSession) -> None:
        self._session = session

    def frame_received(self, packet_type: int, frame: bytes) -> None:
        """Raises ``MalformedPacketError``."""
        session = self._session
        protocol = session.channel.protocol
        size = len(frame)
        is_counted = True
        if packet_type == SessionReceive.TYPE:
            message, consumer_id, delivery_count = hot.decode_receive(frame[HEADER_SIZE:], protocol.version)
            consumer = session.consumer(consumer_id) or session.encoded_consumers.get(consumer_id)
            if consumer is not None:
                consumer.arrivals.message_received(message, delivery_count, size)
        elif packet_type == SessionReceiveContinuation.TYPE:
            chunk, continues, consumer_id = hot.decode_receive_continuation(frame[HEADER_SIZE:])
            consumer = session.consumer(consumer_id) or session.encoded_consumers.get(consumer_id)
            if consumer is not None:
                consumer.arrivals.chunk_received(chunk, size, continues)
        elif packet_type == _NULL_RESPONSE and size == _CORRELATED_SIZE and session.encoded_sends is not None:
            self._confirm(protocol.processed(True, size))
            correlation: int = _unpack_correlation(frame, HEADER_SIZE)[0]
            if correlation <= 0 or not session.encoded_sends.answered(correlation):
                self._answered(NullResponse(correlation))
            return
        else:
            # A view replaces the bytes of bodies that are too large to copy.
            body = cast(bytes, memoryview(frame)[HEADER_SIZE:]) if packet_type in PACKETS_AS_VIEWS else frame[HEADER_SIZE:]
            packet = decode_packet(packet_type, body, protocol.version)
            is_counted = counted(packet)
            if packet.RESPONSE:
                # Answers are counted when they arrive, before the waiting call goes on.
                self._confirm(protocol.processed(is_counted, size))
                self._answered(packet)
                return
            self._dispatch(packet, size)
        self._confirm(protocol.processed(is_counted, size))

    def flush_confirmations(self) -> None:
        """Confirm received packets although the window is not full."""
        self._confirm(self._session.channel.protocol.flush())

    def _dispatch(self, packet: Packet, size: int) -> None:
        session = self._session
        if isinstance(packet, PacketsConfirmed):
            confirmed = session.channel.protocol.confirmed(packet.command_id)
            session.async_sends.confirmed(confirmed)
            if session.encoded_sends is not None:
                session.encoded_sends.confirmed(confirmed)
        elif isinstance(packet, ProducerCredits):
            session.flow.granted(packet.address, packet.credits)
            if session.encoded_sends is not None:
                session.encoded_sends.granted(packet.address, packet.credits)
        elif isinstance(packet, ProducerFailCredits):
            session.flow.refused(packet.address, packet.credits)
            if session.encoded_sends is not None:
                session.encoded_sends.refused_credits(packet.address)
        elif isinstance(packet, SessionReceiveLarge):
            receiver = session.consumer(packet.consumer_id) or session.encoded_consumers.get(packet.consumer_id)
            if receiver is not None:
                receiver.arrivals.large_received(packet, size)
        elif isinstance(packet, ReceiveHeld):
            held = session.encoded_consumers.get(packet.consumer_id)
            if held is not None:
                held.arrivals.held_received(packet.message_id, packet.delivery_count)
        elif isinstance(packet, DisconnectConsumer):
            consumer = session.consumer(packet.consumer_id)
            if consumer is not None:
                consumer.disconnected()
            encoded = session.encoded_consumers.pop(packet.consumer_id, None)
            if encoded is not None:
                encoded.arrivals.disconnected()

    def _answered(self, packet: Packet) -> None:
        session = self._session
        if isinstance(packet, NullResponse) and packet.correlation_id is not None and packet.correlation_id > 0:
            session.async_sends.acknowledged((packet.correlation_id,))
            return
        if isinstance(packet, ExceptionResponse) and packet.correlation_id is not None:
            error = error_for_code(packet.error_code, packet.message)
            if session.encoded_sends is not None and session.encoded_sends.refused(packet.correlation_id, error):
                return
            if session.async_sends.refused(packet.correlation_id, error):
                return
        if not session.channel.answered(packet) and isinstance(packet, ExceptionResponse):
            session.channel.runtime.log_warning(f"the broker refused a request that nobody waits for: {packet.error_code} {packet.message}")

    def _confirm(self, frame: bytes | None) -> None:
        if frame is not None:
            self._session.channel.write_raw(frame)
