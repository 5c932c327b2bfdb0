"""The core API under asyncio with a real broker: queues made when missing, texts, what is refused before it is sent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.trial.unittest import TestCase

from mqclient.asyncio import server_locator
from mqclient.core.api import ROUTING_MULTICAST, ClientSession, QueueConfiguration
from mqclient.errors import AddressDoesNotExistError, MessageTooLargeError, QueueDoesNotExistError
from mqclient.wire.properties import INT
from tests.integration.brokers import broker_url


class AsyncioTests(TestCase):
    timeout = 100  # s: for a busy machine

    def setUp(self) -> None:
        self.name = f"core-{uuid.uuid4()}"

    def play(self, work: Callable[[ClientSession], Awaitable[Any]], parameters: str = "") -> None:
        async def main(url: str) -> None:
            async with (
                server_locator(url) as locator,
                await locator.create_session_factory() as factory,
                await factory.create_session("admin", "secret") as session,
            ):
                await work(session)

        asyncio.run(main(f"{broker_url()}?callTimeout=20000{parameters}"))

    def test_texts_through_a_queue_that_is_made_when_it_is_missing(self) -> None:
        async def work(session: ClientSession) -> None:
            for _ in range(2):
                await session.create_queue(QueueConfiguration(name=self.name), if_missing=True)
            producer = await session.create_producer(self.name, require_queue=True)
            await producer.send(session.create_text_message("an order"))
            consumer = await session.create_consumer(self.name)
            await session.start()
            message = await consumer.receive(10_000)
            assert message is not None
            self.assertEqual(message.text, "an order")
            await message.acknowledge()

        self.play(work)

    def test_a_producer_that_wants_a_queue(self) -> None:
        async def work(session: ClientSession) -> None:
            name = self.name
            await session.create_address(f"{name}-empty", [ROUTING_MULTICAST])
            await session.create_queue(QueueConfiguration(name=f"{name}-q", address=name))
            for address, error in (
                (f"{name}-typo", AddressDoesNotExistError),
                (f"{name}-typo::{name}-q", AddressDoesNotExistError),
                (f"{name}-empty", QueueDoesNotExistError),
                (f"{name}::other", QueueDoesNotExistError),
            ):
                with self.assertRaises(error):
                    await session.create_producer(address, require_queue=True)
            for address in (name, f"{name}::{name}-q"):
                await session.create_producer(address, require_queue=True)

        self.play(work)

    def test_a_message_that_no_broker_takes_leaves_the_connection_as_it_is(self) -> None:
        async def work(session: ClientSession) -> None:
            failures: list[object] = []

            class Listener:
                def before_reconnect(self, error: object) -> None:
                    failures.append(error)

                def connection_failed(self, error: object, failed_over: bool) -> None:
                    failures.append(error)

            session.factory.add_failure_listener(Listener())
            await session.create_queue(QueueConfiguration(name=self.name))
            producer = await session.create_producer(self.name)
            message = session.create_message()
            message.properties = {f"p{number}": (INT, number) for number in range(11_000)}
            with self.assertRaises(MessageTooLargeError):
                await producer.send(message)
            message.properties = {}
            message.body = bytes(101 * 1024 * 1024)
            with self.assertRaises(MessageTooLargeError):
                await producer.send(message)
            message.body = b"small"
            await producer.send(message)
            self.assertEqual((await session.queue_query(self.name)).message_count, 1)
            self.assertEqual(failures, [])

        self.play(work, "&reconnectAttempts=-1&minLargeMessageSize=200000000&producerWindowSize=-1")
