"""Questions to the management address of a broker, mqbroker or Artemis (the Artemis manual, chapter "Management").

A request is a message with the resource and the operation in properties and the parameters as a JSON array in its text; the reply's text
is a JSON array with the one result.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mqclient.core.api import ROUTING_ANYCAST, ClientConsumer, ClientProducer, ClientSession, QueueConfiguration
from mqclient.errors import MQError, OperationTimeoutError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT

ADDRESS: Final = "activemq.management"
REPLY_TIMEOUT_MS: Final = 30_000

_REPLY_TO: Final = "JMSReplyTo"
_CORRELATION: Final = "JMSCorrelationID"


class ManagementError(MQError):
    """The broker refused an operation or does not know it; the text is the broker's own."""


class Management:
    """Requests over a session of its own, one at a time; the replies come to a temporary queue."""

    def __init__(self, session: ClientSession, producer: ClientProducer, consumer: ClientConsumer) -> None:
        self._session = session
        self._producer = producer
        self._consumer = consumer
        self._number = 0

    @classmethod
    async def open(cls, session: ClientSession, replies: str) -> Management:
        """``replies``: a name for the temporary queue that nobody else uses."""
        await session.create_queue(
            QueueConfiguration(name=replies, address=replies, routing_type=ROUTING_ANYCAST, durable=False, temporary=True)
        )
        consumer = await session.create_consumer(replies)
        producer = await session.create_producer(ADDRESS)
        await session.start()
        return cls(session, producer, consumer)

    async def invoke(self, resource: str, operation: str, *parameters: object) -> Any:
        """The result of an operation, as JSON values.  Raises :class:`ManagementError` with the broker's reason."""
        return await self._ask({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, json.dumps(parameters))

    async def attribute(self, resource: str, name: str) -> Any:
        """The value of an attribute.  Raises :class:`ManagementError`."""
        return await self._ask({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, None)

    async def _ask(self, properties: dict[str, str], body: str | None) -> Any:
        self._number += 1
        request = self._session.create_message(TYPE_TEXT)
        for name, value in properties.items():
            request.put(name, value)
        request.put(_REPLY_TO, self._consumer.queue_name)
        request.put(_CORRELATION, str(self._number))
        request.body = encode_text(body)
        await self._producer.send(request)
        while True:
            reply = await self._consumer.receive(REPLY_TIMEOUT_MS)
            if reply is None:
                raise OperationTimeoutError(f"no answer from the management address within {REPLY_TIMEOUT_MS // 1000} s")
            await self._consumer.acknowledge(reply)
            if reply.get(_CORRELATION) == str(self._number):
                break
        text = decode_text(await reply.large.read() if reply.large is not None else reply.plain_body())
        result = json.loads(text)[0] if text else None
        if not reply.get("_AMQ_OperationSucceeded"):
            raise ManagementError(str(result) if result is not None else "the broker gave no reason")
        return result


def id_cache_size(settings: object) -> int | None:
    """The cache size in the answer of ``getAddressSettingsAsJSON``; None when there is none in it."""
    try:
        found = json.loads(settings) if isinstance(settings, str) else settings
    except ValueError:
        return None
    size = found.get("idCacheSize", found.get("id-cache-size")) if isinstance(found, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
