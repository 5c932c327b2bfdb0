"""Messages that management sends."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid5

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.server.management.registry import ManagementError, as_bool, as_int
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import TYPE_BYTES, TYPE_TEXT, CoreMessage
from mqclient.wire.properties import STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.server.server import Server


def send_message(
    server: Server,
    address: str,
    queue: str | None,
    headers: Any,
    type: Any,
    body: Any,
    durable: Any,
    user: Any,
    password: Any,
    create_id: Any = False,
) -> str:
    """Send a message to an address, or to one queue of it; returns its id.  The body of all types but text is base64.

    With ``create_id`` the message also gets the user id that a JMS client would give it.
    """
    kind = as_int(type)
    if kind == TYPE_TEXT:
        content = encode_text(None if body is None else str(body))
    else:
        try:
            content = base64.b64decode(str(body or ""), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ManagementError(f"the body is not base64: {error}") from error
    properties: dict[str, TypedValue] = {str(key): (STRING, str(value)) for key, value in (headers or {}).items()}
    message_id = server.store.next_id()
    # Node id and message id together are unique.
    user_id = uuid5(NAMESPACE_OID, f"{server.node_id}/{message_id}").bytes if as_bool(create_id) else None
    message = CoreMessage(
        message_id=message_id,
        user_id=user_id,
        address=address,
        type=kind if kind else TYPE_BYTES,
        durable=as_bool(durable),
        timestamp=server.clock.wall_ms(),
        properties=properties,
        body=content,
    )
    server.messaging.sending.send(Message.of(message), address, queue, None, OperationContext(server.store))
    return str(message.message_id)
