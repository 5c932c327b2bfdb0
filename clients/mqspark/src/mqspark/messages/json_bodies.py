"""Bodies in JSON as a struct of a given schema, by Arrow's reader: many bodies in one call.

A body fits when it is one JSON object (or ``null``) whose fields have the types of the schema; further fields are passed over, missing ones
are null.  Types are not converted: a number in quotes is no number, and a number is no string.  Dates and times are text in ISO 8601.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from mqspark.errors import SchemaError
from mqspark.messages.ranges import Mask, binary_parts, spread

_MORE: Final = 1024
"""Bytes beyond the text in a block of the reader, so that it is never cut."""


def check_json_schema(struct: pa.StructType) -> None:
    """Raise SchemaError when the reader makes no such struct."""
    try:
        _read(b'{"i":0,"v":null}\n', struct)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f"bodies in JSON cannot be read as {struct}: {error}") from error


def parse_bodies(bodies: pa.Array, struct: pa.StructType) -> tuple[pa.Array, Mask]:
    """(the structs, null where there is no body or it does not fit; which do not fit)."""
    rows = np.flatnonzero(bodies.is_valid().to_numpy(zero_copy_only=False))
    bad = np.zeros(len(bodies), np.bool_)
    chosen = bodies if len(rows) == len(bodies) else bodies.take(pa.array(rows))
    parts: list[pa.Array] = []
    _parse(chosen.view(pa.binary()), struct, rows, bad, parts)
    found = pa.concat_arrays(parts) if parts else pa.nulls(0, struct)
    return spread(found, rows, len(bodies)), bad


def _parse(bodies: pa.Array, struct: pa.StructType, rows: np.ndarray, bad: Mask, parts: list[pa.Array]) -> None:
    """Append the structs of all bodies to ``parts``; bodies that do not fit are found by halving, and are null."""
    count = len(bodies)
    if not count:
        return
    found = _structs(bodies, struct)
    if found is not None:
        parts.append(found)
    elif count == 1:
        bad[rows[0]] = True
        parts.append(pa.nulls(1, struct))
    else:
        middle = count // 2
        _parse(bodies[:middle], struct, rows[:middle], bad, parts)
        _parse(bodies[middle:], struct, rows[middle:], bad, parts)


def _structs(bodies: pa.Array, struct: pa.StructType) -> pa.Array | None:
    """The structs of bodies that all fit; None when one does not.

    Each body travels in an object with its number, so that no body can end early, or go on in the next one, without being noticed.
    """
    count = len(bodies)
    offsets, data = binary_parts(bodies)
    data = data[offsets[0] : offsets[-1]]
    if bool(((data == 10) | (data == 13)).any()):  # line breaks are white space between tokens, and separate the objects for the reader
        bodies = pc.replace_substring(pc.replace_substring(bodies, pattern=b"\n", replacement=b" "), pattern=b"\r", replacement=b" ")
    numbers = pa.array(np.arange(count)).cast(pa.string()).view(pa.binary())
    constants = [pa.scalar(text, pa.binary()) for text in (b'{"i":', b',"v":', b"}\n", b"")]
    lines = pc.binary_join_element_wise(constants[0], numbers, constants[1], bodies, constants[2], constants[3])
    offsets, data = binary_parts(lines)
    text = data[offsets[0] : offsets[-1]].tobytes()
    try:
        text.decode()
        table = _read(text, struct)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    if table.num_rows != count or not np.array_equal(table["i"].to_numpy(), np.arange(count)):
        return None
    found = table["v"].combine_chunks()
    return found if found.type == struct else found.cast(struct)


def _read(text: bytes, struct: pa.StructType) -> pa.Table:
    wrapper = pa.schema([("i", pa.int64()), ("v", _as_read(struct))])
    reading = pj.ReadOptions(use_threads=False, block_size=len(text) + _MORE)
    parsing = pj.ParseOptions(explicit_schema=wrapper, unexpected_field_behavior="ignore")
    return pj.read_json(pa.BufferReader(text), reading, parsing)


def _as_read(kind: pa.DataType) -> pa.DataType:
    """The type with times in place of dates: the reader takes dates as numbers only."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_as_read(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_read(kind.value_type)))
    return kind
