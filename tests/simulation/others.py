"""Clients at work that are neither plain senders nor plain receivers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mqclient.core.api import ClientMessage, QueueConfiguration
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.session.session import Session
from mqclient.errors import MQError, QueueDoesNotExistError, QueueExistsError
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import TYPE_TEXT
from mqclient.wire.properties import BYTE, FLOAT, LONG, SHORT
from tests.simulation.model import Subscription
from tests.simulation.policies import DEAD_LETTERS
from tests.simulation.receivers import AcknowledgingReceiver
from tests.simulation.settings import ANYCAST, MULTICAST
from tests.simulation.workload import COLOR, Actor

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

NEVER = float("inf")
SELECTORS = (
    None,
    "text LIKE 'temporary._%' AND number BETWEEN 0 AND 100",
    "text NOT LIKE '%|_none' ESCAPE '|' AND text NOT IN ('x', 'y')",
    "number * 2 + 1 > -1 AND NOT (number / 3 < -5 OR number - 1 > 1000)",
    "ratio < 2.5e0 AND ratio >= 0.25 AND flag = TRUE AND missing IS NULL AND flag IS NOT NULL",
    "AMQPriority >= 0 AND AMQDurable IN ('DURABLE', 'NON_DURABLE') AND AMQTimestamp >= 0",
    "tiny < 100 AND small >= 300 AND big > 2147483647 AND single = 1.5 AND single < 2.5 AND ratio > single - 5",
    "-single < 0 AND -big < 0 AND -number < 0 AND -ratio < 0 AND +number > 0",
    "text + number + ratio + single + big + flag <> '' AND 'a' + 1.0E10 = 'a1.0E10' AND 'a' + 1.0E-5 <> 'a'",
    "number / 0 > 1 AND number % 7 >= 0 AND (number % 0 = 5) IS NULL OR number > 0",
    "big + 1 > 5 AND ratio * 2 >= 0 AND 0x1F = 31 AND 017 = 15 AND 5L = 5 AND number + 2147483647 < 0",
    "convert_string_expressions:digits = 17 AND digits > 2 AND digits < 18.5",
    "/* all */ \"text\" LIKE 'temp_rary%.%-%' -- the rest\n AND text NOT LIKE '%z_z%q_'",
    "text LIKE '%o_a%' AND text LIKE '%_a_y.%' AND text NOT LIKE 'x%' AND text LIKE '%r_r_._e%'",
    "XPATH '/order[@id]' AND XPATH 'not(//missing) and count(/order/item[. = \"x\"]) = 1'",
    "NOT XPATH '//missing' OR blob IS NULL",
    "(flag OR missing = 'nothing') AND (number NOT BETWEEN 50 AND 60) AND text <> 'x'",
)
"""All of them take everything that is sent to them here."""


class Subscriber(AcknowledgingReceiver):
    """Has a durable subscription with a selector, deletes it now and then, and begins another one under the same name."""

    def __init__(self, simulation: Simulation, name: str, address: str) -> None:
        super().__init__(simulation, name, f"{name}.subscription", True)
        self._address = address
        self._color = self.rng.choice(("", "red", "green"))
        self._subscription: Subscription | None = None

    async def _open(self, session: Session) -> Consumer:
        if self._subscription is None:
            self._subscription = self.ledger.subscribe(self.queue, self._address, self._color, self.world.now)
        if self._subscription.created == NEVER:
            await self._create(session, self._subscription)
        if self._subscription.deleting < NEVER:
            await self._delete(session, self._subscription)
            raise QueueDoesNotExistError("deleted")
        try:
            return await super()._open(session)
        except QueueDoesNotExistError:
            if self._subscription is not None and self._subscription.deleting == NEVER:
                self.is_gone()
            raise

    def is_gone(self) -> None:
        """The broker does not have the subscription."""
        self.world.violation(f"{self.queue} is gone, which was created and not deleted")

    async def receive(self, session: Session, consumer: Consumer) -> None:
        await super().receive(session, consumer)
        if self.rng.random() < 0.08 and self._subscription is not None:
            await self.close_consumer(consumer)
            await self._delete(session, self._subscription)
        elif self.rng.random() < 0.1:
            await self.close_consumer(consumer)
            await self.pause(self.rng.uniform(0, 1.0))

    async def _create(self, session: Session, subscription: Subscription) -> None:
        selector = f"{COLOR} = '{self._color}'" if self._color else None
        configuration = QueueConfiguration(name=self.queue, address=self._address, routing_type=MULTICAST, filter_string=selector)
        try:
            await self.call(f"create {subscription.key}", lambda: session.create_queue(configuration))
        except QueueExistsError:
            self.world.note(f"{self.name}: it was created before")
        subscription.created = self.world.now

    async def _delete(self, session: Session, subscription: Subscription) -> None:
        subscription.deleting = min(self.world.now, subscription.deleting)
        try:
            await self.call(f"delete {subscription.key}", lambda: session.delete_queue(self.queue))
        except QueueDoesNotExistError:
            self.world.note(f"{self.name}: it was deleted before")
        self._subscription = None


class TemporaryUser(Actor):
    """Makes temporary queues, talks to itself through them, and leaves some for the broker to remove."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name)
        self._number = 0

    async def work(self) -> None:
        for _ in range(self.rng.randrange(1, 5)):
            try:
                await self._exchange(await self.session())
            except MQError:
                await self.pause(0.05)
            await self.pause(self.rng.uniform(0, 1.0))

    async def _exchange(self, session: Session) -> None:
        failures = self.failures
        self._number += 1
        name = f"temporary.{self.name}.{self._number}"
        selector = self.rng.choice(SELECTORS)
        queue = QueueConfiguration(
            name=name,
            address=name,
            routing_type=ANYCAST,
            filter_string=selector,
            durable=False,
            temporary=True,
            exclusive=self.rng.random() < 0.2,
        )
        await self.call(f"create {name} for {selector}", lambda: session.create_queue(queue))
        consumer = await self.consume(session, name)
        await self.call("start", session.start)
        producer = await self.call("create producer", lambda: session.create_producer(name))
        sent = [f"{name}-{number}" for number in range(self.rng.randrange(1, 5))]
        for text in sent:
            message = _varied(text, 0 if "XPATH" in (selector or "") else self.rng.choice((0, 0, 3000)))
            message.durable = self.rng.random() < 0.5
            await self.call(f"send {text}", lambda message=message: producer.send(message))
        got: list[str] = []
        for _ in range(10):
            received = await self.call(f"receive from {name}", lambda: consumer.receive(1000))
            if received is not None:
                got.append(str(received.get("text")))
                await self.call("acknowledge", received.individual_acknowledge)
            if self.failures != failures or len(got) == len(sent):
                break
        if self.failures == failures and got != sent:
            self.world.violation(f"{self.name} has sent {sent} to its temporary queue and got {got}")
        await self.call("close producer", producer.close)
        await self.call("close consumer", consumer.close)
        if self.rng.random() < 0.5:
            await self.call(f"delete {name}", lambda: session.delete_queue(name))


class Manager(Actor):
    """Asks the broker for figures, pauses queues, and sends messages to where dead and expired ones go."""

    REQUESTS: tuple[tuple[str, str | None, tuple[Any, ...]], ...] = (
        ("queue.orders", None, ("MessageCount",)),
        ("queue.jobs", "listMessages", ("",)),
        ("queue.jobs", "listScheduledMessages", ()),
        ("queue.orders", "listDeliveringMessagesAsJSON", ()),
        ("queue.news.archive", "countMessages", (f"{COLOR} = 'red'",)),
        ("queue.jobs", "sendMessagesToDeadLetterAddress", (f"{COLOR} = 'red'",)),
        ("queue.orders", "expireMessages", (f"{COLOR} = 'blue'",)),
        ("queue.jobs", "moveMessages", (f"{COLOR} = 'green'", DEAD_LETTERS)),
        ("queue.stock", "moveMessages", (f"{COLOR} = 'green'", DEAD_LETTERS)),
        ("queue.perishables", "moveMessages", (f"{COLOR} = 'green'", DEAD_LETTERS)),
        ("queue.sorted.red", "moveMessages", ("", DEAD_LETTERS)),
        ("address.orders", "block", ()),
        ("address.orders", "unblock", ()),
        ("queue.orders", "pause", ()),
        ("queue.orders", "resume", ()),
        ("broker", "listConnectionIDs", ()),
        ("address.news", None, ("QueueNames",)),
    )

    async def work(self) -> None:
        for _ in range(self.rng.randrange(2, 10)):
            await self._try(*self.rng.choice(self.REQUESTS))
            await self.pause(self.rng.uniform(0, 1.0))
        for resource, operation in (("queue.orders", "resume"), ("address.orders", "unblock")):
            while not await self._try(resource, operation, ()):
                await self.pause(0.1)

    def refused(self, what: str, reply: ClientMessage) -> None:
        """The broker has answered that it was not done."""
        self.world.violation(f"{self.name}: {what} was refused: {reply.plain_body()!r}")

    async def _try(self, resource: str, operation: str | None, parameters: tuple[Any, ...]) -> bool:
        try:
            return await self._ask(await self.session(), resource, operation, parameters)
        except MQError:
            await self.pause(0.05)
            return False

    async def _ask(self, session: Session, resource: str, operation: str | None, parameters: tuple[Any, ...]) -> bool:
        """True when the broker has said that it was done."""
        name = f"replies.{self.name}.{self.rng.randrange(1 << 30)}"
        queue = QueueConfiguration(name=name, address=name, routing_type=ANYCAST, durable=False, temporary=True)
        await self.call(f"create {name}", lambda: session.create_queue(queue))
        consumer = await self.consume(session, name)
        await self.call("start", session.start)
        producer = await self.call("create producer", lambda: session.create_producer("activemq.management"))
        request = ClientMessage(type=TYPE_TEXT, durable=False)
        request.put("_AMQ_ResourceName", resource)
        request.put("JMSReplyTo", name)
        if operation is None:
            request.put("_AMQ_Attribute", parameters[0])
        else:
            request.put("_AMQ_OperationName", operation)
            request.body = encode_text(json.dumps(parameters))
        await self.call(f"ask for {resource}.{operation or parameters[0]}", lambda: producer.send(request))
        reply = await self.call("receive the reply", lambda: consumer.receive(4000))
        succeeded = reply is not None and bool(reply.get("_AMQ_OperationSucceeded"))
        if reply is not None and not succeeded:
            self.refused(f"{resource}.{operation}{parameters}", reply)
        await self.call("close producer", producer.close)
        await self.call("close consumer", consumer.close)
        await self.call(f"delete {name}", lambda: session.delete_queue(name))
        return succeeded


def _varied(text: str, padding: int) -> ClientMessage:
    """A message with properties of all kinds, which every one of :data:`SELECTORS` takes."""
    message = ClientMessage(type=TYPE_TEXT, body=encode_text(f"<order id='1'><item>x</item>{' ' * padding}</order>"))
    message.put("text", text)
    message.put("digits", "17")
    message.put("number", len(text))
    message.put("ratio", 0.25)
    message.put("flag", True)
    message.put("blob", b"x")
    message.put("tiny", 5, BYTE)
    message.put("small", 300, SHORT)
    message.put("big", 5_000_000_000, LONG)
    message.put("single", 1.5, FLOAT)
    return message
