"""A message that was stored, as one that goes to certain queues of a running broker."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from mqclient.core.message import ClientMessage
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, KEY_ROUTE_TO, CoreMessage
from mqclient.wire.properties import BYTES


def to_queues(source: CoreMessage, queue_ids: Sequence[int], body: Iterable[bytes], large: bool) -> ClientMessage:
    """``source`` with its own headers and properties, durable, for exactly the queues with these ids; ``body`` is given in any pieces."""
    properties = dict(source.properties)
    if large and not source.get(KEY_LARGE_COMPRESSED):
        # Whoever sends the body counts it.  Of a compressed one nothing but this property says how long it was before.
        properties.pop(KEY_LARGE_SIZE, None)
    properties[KEY_ROUTE_TO] = (BYTES, struct.pack(f">{len(queue_ids)}q", *queue_ids))
    message = ClientMessage(
        type=source.type,
        durable=True,
        priority=source.priority,
        expiration=source.expiration,
        timestamp=source.timestamp,
        user_id=source.user_id,
        properties=properties,
    )
    if large:
        message.body_source = body
    else:
        message.body = b"".join(body)
    return message
