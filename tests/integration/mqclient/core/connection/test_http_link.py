"""Through HTTP over real sockets, on the loopback interface."""

from __future__ import annotations

import asyncio

from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqbroker.embedded import EmbeddedBroker
from mqclient.core.api import QueueConfiguration
from mqclient.core.factories.locator import Locator
from mqclient.sockets import SocketRuntime
from tests.integration.mqclient.test_sockets import exchange

POLL = "httpEnabled=true;httpClientIdleTime=50;httpClientIdleScanPeriod=50"
BODIES = [b"0", b"1", b"2"]


async def there_and_back(locator: Locator) -> list[bytes]:
    session = await (await locator.create_session_factory()).create_session()
    try:
        return await exchange(session, "q")
    finally:
        await locator.close()


async def large_and_late(locator: Locator) -> tuple[int, bytes]:
    """The size of a large body that was received, and the body of a message for which a silent client has waited."""
    factory = await locator.create_session_factory()
    session, other = await factory.create_session(), await factory.create_session()
    await session.create_queue(QueueConfiguration(name="large", routing_type=1))
    consumer, producer = await session.create_consumer("large"), await other.create_producer("large")
    await session.start()
    message = other.create_message()
    message.body = bytes(3_000_000)
    await producer.send(message)
    received = await consumer.receive(10_000)
    assert received is not None and received.large is not None
    size = len(await received.large.read())
    waiting = consumer.receive(10_000)
    later = other.create_message(durable=False)
    later.body = b"late"
    await producer.send(later)
    late = await waiting
    assert late is not None
    await locator.close()
    return size, late.body


class HttpTests(TestCase):
    timeout = 60

    def setUp(self) -> None:
        self.broker = EmbeddedBroker(acceptor="tcp://127.0.0.1:0").start()
        self.addCleanup(self.broker.stop)
        self.url = f"{self.broker.tcp_url}?{POLL}"

    async def test_by_twisted(self) -> None:
        self.assertEqual(await there_and_back(mqclient.twisted.server_locator(self.url)), BODIES)

    async def test_by_asyncio(self) -> None:
        async def main() -> list[bytes]:
            return await there_and_back(mqclient.asyncio.server_locator(self.url))

        self.assertEqual(await deferToThread(lambda: asyncio.run(main())), BODIES)

    def test_by_sockets(self) -> None:
        runtime = SocketRuntime()
        self.addCleanup(runtime.close)
        self.assertEqual(runtime.run(there_and_back(mqclient.sockets.server_locator(self.url, runtime=runtime)), 20), BODIES)

    async def test_with_a_session_id(self) -> None:
        self.assertEqual(await there_and_back(mqclient.twisted.server_locator(f"{self.url};httpRequiresSessionId=true")), BODIES)

    async def test_large_messages_and_messages_that_come_late(self) -> None:
        self.assertEqual(await large_and_late(mqclient.twisted.server_locator(self.url)), (3_000_000, b"late"))
