"""Packets to bytes and back.

The packets on the message path have hand-written codecs in :mod:`mqclient.wire.hot`, to which both functions pass them on; the others
are written and read field by field from their tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqclient.errors import MalformedPacketError
from mqclient.wire import hot
from mqclient.wire.packets.base import ALL_GROUPS, CONNECTOR_KIND, PACKETS, Group, Packet
from mqclient.wire.packets.connection import (
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    ExceptionResponse,
    NullResponse,
    Topology,
)
from mqclient.wire.packets.messaging import (
    Acknowledge,
    CreateConsumer,
    FlowToken,
    IndividualAcknowledge,
    ProducerCredits,
    ProducerRequestCredits,
    SessionReceive,
    SessionReceiveContinuation,
    SessionSend,
    SessionSendContinuation,
)
from mqclient.wire.packets.sessions import (
    Commit,
)
from mqclient.wire.primitives import Decoder, Encoder


def encode_packet(packet: Packet, version: int) -> bytes:
    """The body of ``packet`` as a peer of protocol ``version`` reads it."""
    encode = _ENCODERS.get(packet.TYPE)
    if encode is not None:
        return encode(packet, version)
    out = Encoder()
    groups = 0
    present = getattr(packet, "groups", ALL_GROUPS)
    for entry in packet.FIELDS:
        if isinstance(entry, Group):
            groups += 1
            if groups > present or version < entry.since:
                break
        else:
            entry[1].write(out, getattr(packet, entry[0]))
    return bytes(out.data)


def decode_packet(packet_type: int, body: bytes, version: int) -> Packet:
    """Read the body of a packet that a peer of protocol ``version`` sent.

    Surplus bytes at the end are ignored, as by the Java peers.  Raises :class:`MalformedPacketError` naming packet and field.
    """
    decode = _DECODERS.get(packet_type)
    if decode is not None:
        return decode(body, version)
    cls = PACKETS.get(packet_type)
    if cls is None:
        raise MalformedPacketError("frame", "type", f"unknown packet type {packet_type}")
    source = Decoder(body, cls.NAME)
    values: dict[str, Any] = {}
    groups = 0
    for entry in cls.FIELDS:
        if isinstance(entry, Group):
            if source.remaining < entry.minimum or version < entry.since:
                values["groups"] = groups
                break
            groups += 1
        else:
            source.field = entry[0]
            values[entry[0]] = entry[1].read(source)
    else:
        if groups:
            values["groups"] = groups
    return cls(**values)


def _encode_topology(packet: Topology, version: int) -> bytes:
    out = Encoder()
    out.boolean(packet.exit)
    out.string(packet.node_id)
    kind = packet.TYPE
    if kind != ClusterTopology.TYPE:
        out.i64(packet.unique_event_id)
    if not packet.exit:
        CONNECTOR_KIND.write(out, packet.primary)
        CONNECTOR_KIND.write(out, packet.backup)
        out.boolean(packet.last)
    if kind != ClusterTopology.TYPE and (packet.groups or kind != ClusterTopologyV2.TYPE):
        out.nullable_string(packet.backup_group_name)
    if kind in (ClusterTopologyV3.TYPE, ClusterTopologyV4.TYPE):
        out.nullable_string(packet.scale_down_group_name)
    if kind == ClusterTopologyV4.TYPE:
        out.i32(packet.server_version)
    return bytes(out.data)


def _topology_decoder(cls: type[Topology]) -> Callable[[bytes, int], Packet]:
    def decode(body: bytes, version: int) -> Packet:
        source = Decoder(body, cls.NAME)
        source.field = "exit"
        packet = cls(source.boolean(), "")
        source.field = "node_id"
        packet.node_id = source.string()
        if cls.TYPE != ClusterTopology.TYPE:
            source.field = "unique_event_id"
            packet.unique_event_id = source.i64()
        if not packet.exit:
            source.field = "primary"
            packet.primary = CONNECTOR_KIND.read(source)
            source.field = "backup"
            packet.backup = CONNECTOR_KIND.read(source)
            source.field = "last"
            packet.last = source.boolean()
        if cls.TYPE == ClusterTopologyV2.TYPE:
            packet.groups = 1 if source.remaining else 0
        if cls.TYPE != ClusterTopology.TYPE and packet.groups:
            source.field = "backup_group_name"
            packet.backup_group_name = source.nullable_string()
        if cls.TYPE in (ClusterTopologyV3.TYPE, ClusterTopologyV4.TYPE):
            source.field = "scale_down_group_name"
            packet.scale_down_group_name = source.nullable_string()
        if cls.TYPE == ClusterTopologyV4.TYPE:
            source.field = "server_version"
            packet.server_version = source.i32()
        return packet

    return decode


def _encode_exception(packet: ExceptionResponse, version: int) -> bytes:
    out = Encoder()
    out.i32(packet.error_code)
    out.nullable_string(packet.message)
    if packet.correlation_id is not None and version >= hot.VERSION_CORRELATION:
        out.i64(packet.correlation_id)
    return bytes(out.data)


def _decode_exception(body: bytes, version: int) -> Packet:
    source = Decoder(body, ExceptionResponse.NAME)
    source.field = "error_code"
    code = source.i32()
    source.field = "message"
    message = source.nullable_string()
    correlated = version >= hot.VERSION_CORRELATION and source.remaining >= 8
    return ExceptionResponse(code, message, source.i64() if correlated else None)


_ENCODERS: dict[int, Callable[[Any, int], bytes]] = {
    ExceptionResponse.TYPE: _encode_exception,
    NullResponse.TYPE: lambda p, v: hot.encode_null_response(p.correlation_id, v),
    CreateConsumer.TYPE: lambda p, v: hot.encode_create_consumer(
        p.consumer_id, p.queue_name, p.filter_string, p.browse_only, p.requires_response, p.priority, v
    ),
    FlowToken.TYPE: lambda p, v: hot.encode_flow_token(p.consumer_id, p.credits),
    Acknowledge.TYPE: lambda p, v: hot.encode_acknowledge(p.consumer_id, p.message_id, p.requires_response),
    IndividualAcknowledge.TYPE: lambda p, v: hot.encode_acknowledge(p.consumer_id, p.message_id, p.requires_response),
    SessionSend.TYPE: lambda p, v: hot.encode_send(p.message, p.requires_response, p.correlation_id, p.sender_id, v),
    SessionSendContinuation.TYPE: lambda p, v: hot.encode_send_continuation(
        p.chunk, p.continues, p.message_body_size, p.requires_response, p.correlation_id, p.sender_id, v
    ),
    ProducerRequestCredits.TYPE: lambda p, v: hot.encode_credits(p.credits, p.address),
    ProducerCredits.TYPE: lambda p, v: hot.encode_credits(p.credits, p.address),
    SessionReceive.TYPE: lambda p, v: hot.encode_receive(p.message, p.consumer_id, p.delivery_count, v),
    SessionReceiveContinuation.TYPE: lambda p, v: hot.encode_receive_continuation(p.chunk, p.continues, p.consumer_id),
    Commit.TYPE: lambda p, v: hot.encode_commit(p.correlation_id, v),
    **{cls.TYPE: _encode_topology for cls in (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)},
}

_DECODERS: dict[int, Callable[[bytes, int], Packet]] = {
    ExceptionResponse.TYPE: _decode_exception,
    NullResponse.TYPE: lambda b, v: NullResponse(hot.decode_null_response(b, v)),
    CreateConsumer.TYPE: lambda b, v: CreateConsumer(*hot.decode_create_consumer(b, v)),
    FlowToken.TYPE: lambda b, v: FlowToken(*hot.decode_flow_token(b)),
    Acknowledge.TYPE: lambda b, v: Acknowledge(*hot.decode_acknowledge(b, Acknowledge.NAME)),
    IndividualAcknowledge.TYPE: lambda b, v: IndividualAcknowledge(*hot.decode_acknowledge(b, IndividualAcknowledge.NAME)),
    SessionSend.TYPE: lambda b, v: SessionSend(*hot.decode_send(b, v)),
    SessionSendContinuation.TYPE: lambda b, v: SessionSendContinuation(*hot.decode_send_continuation(b, v)),
    ProducerRequestCredits.TYPE: lambda b, v: ProducerRequestCredits(*hot.decode_credits(b, ProducerRequestCredits.NAME)),
    ProducerCredits.TYPE: lambda b, v: ProducerCredits(*hot.decode_credits(b, ProducerCredits.NAME)),
    SessionReceive.TYPE: lambda b, v: SessionReceive(*hot.decode_receive(b, v)),
    SessionReceiveContinuation.TYPE: lambda b, v: SessionReceiveContinuation(*hot.decode_receive_continuation(b)),
    Commit.TYPE: lambda b, v: Commit(hot.decode_commit(b, v)),
    **{cls.TYPE: _topology_decoder(cls) for cls in (ClusterTopology, ClusterTopologyV2, ClusterTopologyV3, ClusterTopologyV4)},
}
