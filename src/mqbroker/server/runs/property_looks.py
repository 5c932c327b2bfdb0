"""What a plain message may say to the broker in its properties: its routing type and its duplicate id, and nothing else.

Source: ``protocol-spec/``, chapter "Message encoding".
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mqclient.errors import MalformedPacketError
from mqclient.wire.message import KEY_CID, KEY_DUPLICATE_ID, KEY_ROUTING_TYPE
from mqclient.wire.properties import BYTE, BYTES, STRING, walk

INTERNAL = "_AMQ_".encode("utf-16-le")
"""How the names of properties begin that are meant for the broker."""
DUPLICATE_ID = KEY_DUPLICATE_ID.encode("utf-16-le")

_I32 = struct.Struct(">i")
_unpack_i32 = _I32.unpack_from
_CID = KEY_CID.encode("utf-16-le")
_ROUTING_TYPE = KEY_ROUTING_TYPE.encode("utf-16-le")
_ENTRY = _I32.pack(len(DUPLICATE_ID)) + DUPLICATE_ID
_KIND_AT = len(_ENTRY)
_VALUE_AT = _KIND_AT + 5


class Look(NamedTuple):
    """``routed``: the block up to its routing type, and how many ``entries`` that are; ``id_at``: where the duplicate id is, or None."""

    routed: bytes
    routing_type: int | None
    entries: int
    id_at: tuple[int, int] | None


_NOTHING_INTERNAL = Look(b"", None, 0, None)


def look_through(data: bytes, start: int, end: int) -> Look | None:
    """A property block that a plain message can have, else None.  A duplicate id stands behind the routing type, if there is one."""
    if data.find(INTERNAL, start, end) < 0:
        return _NOTHING_INTERNAL
    routed, entries, number = b"", 0, 0
    routing_type: int | None = None
    id_at: tuple[int, int] | None = None
    try:
        for key_start, key_end, kind, value_start, value_end in walk(data, start, end):
            number += 1
            key = data[key_start:key_end]
            if key == _ROUTING_TYPE:
                routing_type = data[value_start]
                if kind != BYTE or routing_type > 1 or routed or id_at is not None:
                    return None
                routed, entries = data[start:value_end], number
                if data.find(INTERNAL, value_end, end) < 0:
                    return Look(routed, routing_type, entries, None)
            elif key == DUPLICATE_ID:
                if id_at is not None or not _is_id(kind, value_start + 4, value_end):
                    return None
                id_at = value_start + 4, value_end
            elif key != _CID and key.startswith(INTERNAL):
                return None
    except MalformedPacketError:
        return None
    return None if routing_type is None and id_at is None else Look(routed, routing_type, entries, id_at)


def id_behind(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """The place of the duplicate id when it is the entry at ``start`` and nothing for the broker follows; else None."""
    if not data.startswith(_ENTRY, start) or start + _VALUE_AT > end:
        return None
    first = start + _VALUE_AT
    last = first + _unpack_i32(data, start + _KIND_AT + 1)[0]
    if last > end or not _is_id(data[start + _KIND_AT], first, last) or data.find(INTERNAL, last, end) >= 0:
        return None
    return first, last


def _is_id(kind: int, first: int, last: int) -> bool:
    return last > first and (kind == BYTES or (kind == STRING and not (last - first) & 1))
