"""Names from the ``coordination-id`` of competing primaries, as in Artemis: their name at the lock manager, and their node id."""

from __future__ import annotations

import uuid

_LENGTH = 16
"""Characters that count."""


def coordinated_name(coordination_id: str) -> str:
    """The name of the lock and of the number of all brokers with this ``coordination-id``."""
    text = coordination_id[:_LENGTH]
    return (text + "+" if len(text) % 2 else text).replace("-", ".")


def coordinated_node_id(coordination_id: str) -> str:
    """The node id of all brokers with this ``coordination-id``, in its text form.

    Each pair of characters gives one byte.  A character that is no hexadecimal digit counts as -1 in it, so that ids which differ in such
    characters only give the same node.
    """
    text = coordinated_name(coordination_id)
    pairs = zip(text[::2], text[1::2], strict=True)
    data = bytearray(((_digit(high) << 4) + _digit(low)) & 0xFF for high, low in pairs)
    data += bytes(_LENGTH - len(data))
    # A UUID of version 1.
    data[6] = data[6] & 0x0F | 0x10
    data[8] = data[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(data)))


def _digit(character: str) -> int:
    try:
        return int(character, 16)
    except ValueError:
        return -1
