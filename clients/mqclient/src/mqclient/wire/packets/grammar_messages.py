"""Messages and their parts, described: the buffer of a message, its headers, properties and bodies."""

from __future__ import annotations

from typing import Any

import construct as cs

from mqclient.wire.packets.grammar_packets import UntilEnd
from mqclient.wire.packets.grammar_types import (
    BOOL,
    BOOL01,
    BYTES,
    CHAR,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    NSSTR,
    NSTR,
    SSTR,
    USER_ID,
    Mapped,
    Wire,
    as_tuple,
)

PROPERTY_TYPES: dict[int, tuple[str, Any]] = {
    0: ("NULL", cs.Pass),
    2: ("BOOLEAN", BOOL01),
    3: ("BYTE", I8),
    4: ("BYTES", BYTES),
    5: ("SHORT", I16),
    6: ("INT", I32),
    7: ("LONG", I64),
    8: ("FLOAT", F32),
    9: ("DOUBLE", F64),
    10: ("STRING", SSTR),
    11: ("CHAR", CHAR),
}
"""Name and encoding of each value type of a property table."""

STREAM_TYPES: dict[int, tuple[str, Any]] = {
    **{kind: entry for kind, entry in PROPERTY_TYPES.items() if kind != 0},
    2: ("BOOLEAN", BOOL),
    10: ("STRING", NSTR),
}
"""Name and encoding of each value type of a stream message."""

ENTRY = Mapped(
    cs.Struct(
        "key" / SSTR,
        "kind" / cs.Int8ub,
        "value" / cs.Switch(cs.this.kind, {kind: subcon for kind, (_, subcon) in PROPERTY_TYPES.items()}, default=cs.Error),
    ),
    *as_tuple("key", "kind", "value"),
)

PROPERTIES = Wire(
    "TypedProperties",
    Mapped(
        cs.Struct(
            "present" / cs.Rebuild(BOOL01, lambda context: bool(context.entries)),
            "entries" / cs.If(cs.this.present, cs.PrefixedArray(cs.Int32sb, ENTRY)),
        ),
        lambda found: tuple(found.entries or ()),
        lambda entries: {"entries": list(entries)},
    ),
    "00 for no properties, or 01, i32 n, and n entries of SStr key, i8 type and value",
)

HEADERS = cs.Struct(
    "message_id" / I64 * "given by the server; 0 in a message that is sent",
    "address" / NSSTR,
    "user_id" / USER_ID * "a UUID, the JMS message id",
    "type" / I8 * "see the table of message types",
    "durable" / BOOL01,
    "expiration" / I64 * "ms since 1970; 0 = never",
    "timestamp" / I64 * "ms since 1970; 0 = none",
    "priority" / I8 * "0 to 9",
    "properties" / PROPERTIES,
)
"""The headers-and-properties block (``Hdrs``)."""

MESSAGE = cs.Struct(
    "end_of_body" / cs.Rebuild(I32, lambda context: len(context.body) + 13) * "bytes of the body + 13",
    "body" / Wire("bytes", cs.Bytes(cs.this.end_of_body - 13)),
    *HEADERS.subcons,
)
"""A whole regular message (``Msg``) of version 129 and later."""

MESSAGE_BYTES = cs.Struct(
    "end_of_body" / cs.Rebuild(cs.Int32sb, lambda context: len(context.body) + 13),
    "body" / cs.Bytes(cs.this.end_of_body - 13),
    "headers" / cs.GreedyBytes,
)
"""A message of which only the body is found."""

OLD_MESSAGE_BYTES = cs.Struct(
    "end_of_body" / cs.Rebuild(I32, lambda context: len(context.body) + 17) * "bytes of the body + 17",
    "body" / Wire("bytes", cs.Bytes(cs.this.end_of_body - 17)),
    "end_of_message" / cs.Rebuild(I32, lambda context: 4 + len(context.body) + len(context.headers) + 17) * "bytes of `Msg` + 17",
    "headers" / Wire("Hdrs", cs.GreedyBytes),
)
"""A message in the layout of versions below 129."""

OLD_MESSAGE = Mapped(OLD_MESSAGE_BYTES, MESSAGE_BYTES.build, MESSAGE_BYTES.parse)
"""The old layout; the value is the message in the new one."""

TEXT_BODY = NSSTR
MAP_BODY = PROPERTIES
OBJECT_BODY = BYTES
STREAM_BODY = UntilEnd(
    Mapped(
        cs.Struct(
            "kind" / cs.Int8ub,
            "value" / cs.Switch(cs.this.kind, {kind: subcon for kind, (_, subcon) in STREAM_TYPES.items()}, default=cs.Error),
        ),
        *as_tuple("kind", "value"),
    )
)
