"""``exactlyOnce`` over real sockets, with a broker that is killed under load; ``tests/integration/ha`` has every shell at a pair.

``MQBROKER_TEST_PEER=artemis`` runs the same against the real Artemis.
"""

from __future__ import annotations

import asyncio
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mqclient.asyncio
from mqclient.core.api import ClientMessage, ClientProducer, ClientSession, QueueConfiguration
from mqclient.core.factories.locator import Locator
from tests.interop import instance
from tests.interop.peers import Peer, new_peer, peer_name

COUNT = 60
KILLED_AT = (20, 45)
TRANSACTION = 5
SECONDS = 240.0


class Play:
    """Sends, moves in transactions and receives, while the broker is killed now and then."""

    def __init__(self, broker: Peer) -> None:
        self.broker = broker
        self.kills = 0

    @property
    def url(self) -> str:
        return f"{self.broker.url}?exactlyOnce=true&retryInterval=50&maxRetryInterval=200&minLargeMessageSize=10000"

    def kill(self) -> None:
        self.kills += 1
        self.broker.kill()
        self.broker.start()

    async def run(self, locator: Locator, later: Callable[[Callable[[], None]], object]) -> list[list[bytes]]:
        async with locator, await locator.create_session_factory() as factory:
            session = await factory.create_session(instance.USER, instance.PASSWORD)
            for name in ("single", "batch", "moved"):
                await session.create_queue(QueueConfiguration(name=name), if_missing=True)
            await self.send(session, later)
            transacted = await factory.create_session(instance.USER, instance.PASSWORD, auto_commit_sends=False, auto_commit_acks=False)
            await self.commit(transacted, later)
            await self.move(transacted, later)
            return [await self.receive(session, name) for name in ("single", "batch", "moved")]

    async def send(self, session: ClientSession, later: Callable[[Callable[[], None]], object]) -> None:
        producer = await session.create_producer("single")
        for number in range(COUNT):
            if number in KILLED_AT:
                later(self.kill)
            await producer.send(self.message(session, number, large=number % 10 == 0))

    async def commit(self, session: ClientSession, later: Callable[[Callable[[], None]], object]) -> None:
        producer = await session.create_producer("batch")
        for number in range(COUNT):
            await producer.send(self.message(session, number))
            if number in KILLED_AT:
                self.kill()
            if number % TRANSACTION == TRANSACTION - 1:
                if number + 1 in KILLED_AT:
                    later(self.kill)
                await session.commit()

    async def move(self, session: ClientSession, later: Callable[[Callable[[], None]], object]) -> None:
        producer = await session.create_producer("moved")
        consumer = await session.create_consumer("batch")
        await session.start()
        done = 0
        left = {KILLED_AT[0]: 2, KILLED_AT[1]: 4}  # the place in the transaction; the last one meets its commit

        async def some(session: ClientSession) -> int:
            for number in range(TRANSACTION):
                received = await consumer.receive()
                assert received is not None
                await self.pass_on(producer, received)
                await consumer.acknowledge(received)
                if left.get(done) == number:
                    del left[done]  # the repetition meets no failure
                    later(self.kill)
            return TRANSACTION

        while done < COUNT:
            done += await session.transaction(some)
        await consumer.close()

    @staticmethod
    async def pass_on(producer: ClientProducer, received: ClientMessage) -> None:
        copy = ClientMessage(durable=True, body=received.body, properties=dict(received.properties))
        await producer.send(copy)

    @staticmethod
    def message(session: ClientSession, number: int, large: bool = False) -> ClientMessage:
        message = session.create_message()
        message.body = b"%d" % number + b" " * (30_000 if large else 0)
        return message

    @staticmethod
    async def receive(session: ClientSession, name: str) -> list[bytes]:
        consumer = await session.create_consumer(name)
        await session.start()
        found: list[bytes] = []
        while (received := await consumer.receive(0)) is not None:
            body = received.body if received.large is None else await received.large.read()
            found.append(body.strip())
        await consumer.close()
        return found


class ExactlyOnceTests(unittest.TestCase):
    def play(self, run: Callable[[Play], Any]) -> None:
        expected = [b"%d" % number for number in range(COUNT)]
        with tempfile.TemporaryDirectory() as folder:
            broker = new_peer(peer_name(), Path(folder))
            broker.start()
            try:
                play = Play(broker)
                single, batch, moved = run(play)
            finally:
                broker.kill()
        self.assertEqual((single, batch, sorted(moved, key=int)), (expected, [], expected))
        self.assertGreater(play.kills, 4)

    def test_asyncio(self) -> None:
        async def run(play: Play) -> list[list[bytes]]:
            loop = asyncio.get_running_loop()
            return await asyncio.wait_for(play.run(mqclient.asyncio.server_locator(play.url), loop.call_soon), SECONDS)

        self.play(lambda play: asyncio.run(run(play)))
