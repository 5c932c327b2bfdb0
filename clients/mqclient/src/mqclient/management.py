"""Questions to the management address of a broker, mqbroker or Artemis (the Artemis manual, chapter "Management").

A request is a message with the resource and the operation in properties and the parameters as a JSON array in its text; the reply's text
is a JSON array with the one result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mqclient.core.api import ROUTING_ANYCAST, ClientConsumer, ClientProducer, ClientSession, QueueConfiguration
from mqclient.core.readers import ask_id_cache
from mqclient.core.runtime import new_uuid
from mqclient.errors import MQError, NotImplementedByBrokerError, OperationTimeoutError
from mqclient.wire.bodies import decode_text
from mqclient.wire.message import TYPE_TEXT
from mqclient.wire.packets import IdCacheState

MANAGEMENT_ADDRESS: Final = "activemq.management"
REPLY_TIMEOUT_MS: Final = 30_000
SUCCEEDED: Final = "_AMQ_OperationSucceeded"
"""The property of a reply that says whether the operation was carried out."""


class ManagementError(MQError):
    """The broker refused an operation or does not know it; the text is the broker's own."""


class Request(NamedTuple):
    """A question: the properties and the text of its message."""

    properties: dict[str, str]
    text: str | None


def operation(resource: str, name: str, parameters: object = ()) -> Request:
    """Have an operation of a resource carried out; ``parameters`` is a list or tuple of JSON values."""
    return Request({"_AMQ_ResourceName": resource, "_AMQ_OperationName": name}, json.dumps(parameters, separators=(",", ":")))


def attribute(resource: str, name: str) -> Request:
    """Ask for an attribute of a resource."""
    return Request({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, None)


def result(text: str | None, succeeded: object) -> Any:
    """The result, as JSON values, in the text of a reply.  Raises :class:`ManagementError` unless its property says ``succeeded``."""
    found = json.loads(text)[0] if text else None
    if not succeeded:
        raise ManagementError("the broker gave no reason" if found is None else str(found))
    return found


@dataclass(slots=True)
class Management:
    """Requests over a session, one at a time; the replies come to a temporary queue."""

    session: ClientSession
    producer: ClientProducer
    consumer: ClientConsumer
    timeout: int
    number: int = 0

    @classmethod
    async def open(cls, session: ClientSession, replies: str, timeout: int = REPLY_TIMEOUT_MS) -> Management:
        """``replies``: a unique name for the temporary queue.  ``timeout``: ms that an answer may take."""
        await session.create_queue(
            QueueConfiguration(name=replies, address=replies, routing_type=ROUTING_ANYCAST, durable=False, temporary=True)
        )
        consumer = await session.create_consumer(replies)
        producer = await session.create_producer(MANAGEMENT_ADDRESS)
        await session.start()
        return cls(session, producer, consumer, timeout)

    async def invoke(self, resource: str, name: str, *parameters: object) -> Any:
        """The result of an operation, as JSON values.

        Raises :class:`ManagementError` with the broker's reason, ``OperationTimeoutError`` without an answer in time.
        """
        return await self._ask(operation(resource, name, parameters))

    async def attribute(self, resource: str, name: str) -> Any:
        """The value of an attribute.  Raises as :meth:`invoke` does."""
        return await self._ask(attribute(resource, name))

    async def _ask(self, request: Request) -> Any:
        self.number += 1
        message = self.session.create_message(TYPE_TEXT)
        for name, value in request.properties.items():
            message.put(name, value)
        message.put("JMSReplyTo", self.consumer.queue_name)
        message.put("JMSCorrelationID", str(self.number))
        message.text = request.text
        await self.producer.send(message)
        while True:
            reply = await self.consumer.receive(self.timeout)
            if reply is None:
                raise OperationTimeoutError(f"no answer from the management address within {self.timeout / 1000:g} s")
            await self.consumer.acknowledge(reply)
            if reply.get("JMSCorrelationID") == str(self.number):
                break
        body = decode_text(await reply.large.read() if reply.large is not None else reply.plain_body())
        return result(body, reply.get(SUCCEEDED))


async def id_cache(session: ClientSession, address: str) -> IdCacheState:
    """The duplicate ids that a broker keeps of an address; an Artemis tells only who may manage it.  Raises MQError when it does not."""
    try:
        return await ask_id_cache(session, address)
    except NotImplementedByBrokerError:
        management = await Management.open(session, f"mqclient.ids.{new_uuid(session.runtime)}")
    persisted = bool(await management.attribute("broker", "PersistIDCache"))
    settings = json.loads(await management.invoke("broker", "getAddressSettingsAsJSON", address))
    size = settings.get("idCacheSize")
    if not isinstance(size, int):
        size = await management.attribute("broker", "IDCacheSize")
    return IdCacheState(int(size), persisted)
