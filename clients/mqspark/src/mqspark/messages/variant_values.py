"""Spark's variants as typed values of a message: the inverse of :mod:`mqspark.messages.variants`."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqclient.wire import properties as types
from mqclient.wire.properties import TypedValue, encode_value
from mqspark.errors import SchemaError
from mqspark.messages import variants

_NUMBERS: Final = {
    variants.INT8: (types.BYTE, struct.Struct("<b")),
    variants.INT16: (types.SHORT, struct.Struct("<h")),
    variants.INT32: (types.INT, struct.Struct("<i")),
    variants.INT64: (types.LONG, struct.Struct("<q")),
    variants.FLOAT: (types.FLOAT, struct.Struct("<f")),
    variants.DOUBLE: (types.DOUBLE, struct.Struct("<d")),
}
_DECIMALS: Final = {8 << 2: 4, 9 << 2: 8, 10 << 2: 16}
"""First byte to bytes of the number; JSON that Spark has parsed holds its fractions so."""
_SIMPLE: Final[dict[int, TypedValue]] = {
    variants.NULL: (types.NULL, None),
    variants.TRUE: (types.BOOLEAN, True),
    variants.FALSE: (types.BOOLEAN, False),
}
_SIZE = struct.Struct("<I")


def is_variant(kind: Any) -> bool:
    """Is this the Arrow type of a variant?"""
    return bool(pa.types.is_struct(kind) and {field.name for field in kind} == {"value", "metadata"})


def variant_values(column: Any, name: str) -> list[bytes]:
    """The cells as typed values, each with its type id; a null is the value null.

    Raises SchemaError for values that no message can hold: dates and times, objects, arrays.
    """
    found = pc.struct_field(column, "value").dictionary_encode()
    encoded = [encode_value(*_value(raw, name)) for raw in found.dictionary.to_pylist()]
    null = encode_value(types.NULL, None)
    return [null if at is None else encoded[at] for at in found.indices.to_pylist()]


def _value(raw: bytes, name: str) -> TypedValue:
    try:
        return _decoded(raw)
    except (KeyError, IndexError, struct.error, UnicodeDecodeError):
        raise SchemaError(
            f"the column {name} holds a variant that is not a boolean, number, string or binary: a message has no such value; "
            "cast it, or write it as a string with to_json"
        ) from None


def _decoded(raw: bytes) -> TypedValue:
    first = raw[0]
    if first & 3 == variants.SHORT_STRING:
        return types.STRING, raw[1 : 1 + (first >> 2)].decode()
    simple = _SIMPLE.get(first)
    if simple is not None:
        return simple
    if first in (variants.LONG_STRING, variants.BINARY):
        body = raw[5 : 5 + _SIZE.unpack_from(raw, 1)[0]]
        return (types.BYTES, body) if first == variants.BINARY else _long_string(body.decode())
    if first in _DECIMALS:
        unscaled = int.from_bytes(raw[2 : 2 + _DECIMALS[first]], "little", signed=True)
        return types.DOUBLE, float(Decimal(unscaled).scaleb(-raw[1]))
    kind, form = _NUMBERS[first]
    return kind, form.unpack_from(raw, 1)[0]


def _long_string(text: str) -> TypedValue:
    """Only a CHAR is in the long form though the short one would do."""
    wide = text.encode("utf-16-le")
    if len(wide) == 2:
        return types.CHAR, int.from_bytes(wide, "little")
    return types.STRING, text
