"""Values of the wire for hypothesis, made from the grammar, and the way from them to packets and back."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import construct
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from mqclient.errors import MalformedPacketError
from mqclient.wire.packets import PACKETS, Packet, decode_packet, grammar
from mqclient.wire.packets.grammar_packets import Description, Presence, UpToTrailer, When
from mqclient.wire.primitives import Long, TransportConfiguration, Xid

REFUSED = "refused"


def examples(count: int) -> Any:
    """Settings of a property test: the same ``count`` examples in every run, however slow the machine."""
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def paired(text: str) -> str:
    """``text`` with the halves of surrogate pairs joined, as every reader returns it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


CHARACTERS = st.one_of(st.characters(), st.sampled_from("a\x00\x7f\x80\u07ff\u0800\ud83d\ude00\uffff😀"))
TEXT = st.text(CHARACTERS, max_size=12).map(paired)
I8 = st.integers(-0x80, 0x7F)
I16 = st.integers(-0x8000, 0x7FFF)
I32 = st.integers(-0x80000000, 0x7FFFFFFF)
I64 = st.integers(-0x8000000000000000, 0x7FFFFFFFFFFFFFFF)
BINARY = st.binary(max_size=20)
XID = st.tuples(I32, BINARY, BINARY)
PARAMETER = st.one_of(
    st.tuples(TEXT, st.just(0), st.booleans()),
    st.tuples(TEXT, st.just(1), I32),
    st.tuples(TEXT, st.just(2), I64),
    st.tuples(TEXT, st.just(3), TEXT),
)
TRANSPORT = st.tuples(TEXT, TEXT, st.lists(PARAMETER, max_size=3).map(tuple))
MESSAGE = st.tuples(BINARY, BINARY).map(lambda parts: struct.pack(">i", len(parts[0]) + 13) + parts[0] + parts[1])

BY_LABEL: dict[str, st.SearchStrategy[Any]] = {
    "i8": I8,
    "i16": I16,
    "i32": I32,
    "i64": I64,
    "f32": st.integers(0, 0xFFFFFFFF),
    "f64": st.integers(0, 0xFFFFFFFFFFFFFFFF),
    "char": st.integers(0, 0xFFFF),
    "bool": st.booleans(),
    "bool01": st.booleans(),
    "Str": TEXT,
    "NStr": st.none() | TEXT,
    "SStr": TEXT,
    "NSStr": st.none() | TEXT,
    "NBool": st.none() | st.booleans(),
    "NInt": st.none() | I32,
    "NLong": st.none() | I64,
    "Xid": XID,
    "TC": TRANSPORT,
    "bool, TC": st.none() | TRANSPORT,
    "i32 n, n × i8": st.lists(I8, max_size=4).map(tuple),
    "i32 n, n × i64": st.lists(I64, max_size=4).map(tuple),
    "i32 n, n × SStr": st.lists(TEXT, max_size=4).map(tuple),
    "i32 n, n × Xid": st.lists(XID, max_size=3).map(tuple),
    "i32 n, n bytes": BINARY,
    "bytes to the end": BINARY,
    "Hdrs": BINARY,
    "Msg": MESSAGE,
}
"""Values by the name of their type in the specification."""


def _inner(subcon: Any) -> Any:
    while isinstance(subcon, (construct.Renamed, When, UpToTrailer)):
        subcon = subcon.subcon
    return subcon


def group_count(description: Description) -> int:
    """Optional groups of a packet."""
    return sum(isinstance(entry.subcon, Presence) for entry in description.layout.subcons)


ALWAYS_ALL_GROUPS = ("SESS_CREATECONSUMER", "SESS_SEND_CONTINUATION")
"""Packets whose class has no notion of a missing group: they write as much as the version allows."""


def packet_values(description: Description) -> st.SearchStrategy[dict[str, Any]]:
    """Values of all fields of a packet, with a number of groups that its class can say."""
    fields = {entry.name: BY_LABEL[_inner(entry).label] for entry in description.layout.subcons if not isinstance(entry.subcon, Presence)}
    count = group_count(description)
    groups = st.just(count) if description.name in ALWAYS_ALL_GROUPS else st.integers(0, count)
    return st.fixed_dictionaries({**fields, "groups": groups})


def to_packet(description: Description, values: dict[str, Any]) -> Packet:
    """The packet object with these values."""
    cls = PACKETS[description.type]
    names = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    converted = {name: _to_object(name, value) for name, value in values.items() if name in names}
    if "groups" not in names and values["groups"] < group_count(description):
        converted["correlation_id"] = None
    return cls(**converted)


def _to_object(name: str, value: Any) -> Any:
    if value is None or not isinstance(value, tuple):
        return value
    if name in ("primary", "backup", "connector", "backup_connector"):
        return transport_object(value)
    if name == "xid":
        return Xid(*value)
    if name == "xids":
        return tuple(Xid(*xid) for xid in value)
    return value


def transport_object(value: tuple[Any, ...]) -> TransportConfiguration:
    """A connector as the runtime has it."""
    parameters = tuple((key, Long(parameter) if kind == 2 else parameter) for key, kind, parameter in value[2])
    return TransportConfiguration(value[0], value[1], parameters)


def transport_values(value: TransportConfiguration) -> tuple[Any, ...]:
    """A connector as the grammar has it."""
    kinds = {bool: 0, int: 1, Long: 2, str: 3}
    return value.name, value.factory_class_name, tuple((key, kinds[type(parameter)], parameter) for key, parameter in value.parameters)


def packet_fields(description: Description, packet: Packet) -> dict[str, Any]:
    """The values of a packet object, as :func:`grammar.parse` returns them; without ``groups`` where the class has none."""
    values = {name: getattr(packet, name) for name in grammar.field_names(description)}
    for name, value in values.items():
        if isinstance(value, TransportConfiguration):
            values[name] = transport_values(value)
    if hasattr(packet, "groups") and group_count(description):
        values["groups"] = packet.groups
    return values


def runtime_verdict(description: Description, body: bytes, version: int) -> Any:
    """What the codec of the runtime reads, or :data:`REFUSED`."""
    try:
        packet = decode_packet(description.type, body, version)
    except MalformedPacketError as error:
        named = error.packet == description.name and error.field in grammar.field_names(description)
        return REFUSED if named else f"names {error.packet}.{error.field}"
    return packet_fields(description, packet)


def grammar_verdict(description: Description, body: bytes, version: int, groups: bool) -> Any:
    """What the grammar reads, or :data:`REFUSED`; ``groups`` as the runtime class tells them."""
    try:
        values = grammar.parse(description.type, body, version)
    except construct.ConstructError:
        return REFUSED
    if not groups:
        del values["groups"]
    return values


@st.composite
def damage(draw: st.DrawFn, whole: bytes) -> bytes:
    """``whole`` with bytes cut out, put in or changed in one to three places."""
    body = whole
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        kind = draw(st.sampled_from(("cut", "end", "insert", "change", "length")))
        if kind == "cut":
            body = body[:at] + body[at + draw(st.integers(1, 8)) :]
        elif kind == "end":
            body = body[:at]
        elif kind == "insert":
            body = body[:at] + draw(st.binary(min_size=1, max_size=8)) + body[at:]
        elif kind == "change":
            junk = draw(st.binary(min_size=1, max_size=4))
            body = body[:at] + junk + body[at + len(junk) :]
        else:
            length = draw(st.sampled_from((-1, -0x80000000, 0x7FFFFFFF, 0, 1, 2, 3, 9, 0xFFF, 0x10000)))
            body = body[:at] + struct.pack(">i", length) + body[at + 4 :]
    return body
