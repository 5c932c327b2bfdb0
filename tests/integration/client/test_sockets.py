"""The shell of plain sockets against a broker of this process."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.embedded import EmbeddedBroker
from mqclient.core.api import QueueConfiguration
from mqclient.core.session import Session
from mqclient.sockets import SocketRuntime, server_locator


class SocketsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = EmbeddedBroker(acceptor="tcp://127.0.0.1:0").start()
        self.addCleanup(self.broker.stop)
        self.runtime = SocketRuntime()
        self.addCleanup(self.runtime.close)

    def test_exchange_over_a_port_and_in_the_process(self) -> None:
        for url in (self.broker.tcp_url, self.broker.url):
            locator = server_locator(url, runtime=self.runtime)
            factory = self.runtime.run(locator.create_session_factory(), 10)
            session = self.runtime.run(factory.create_session(), 10)
            self.assertEqual(self.runtime.run(exchange(session, url), 10), [b"0", b"1", b"2"])
            self.runtime.run(locator.close(), 10)


async def exchange(session: Session, name: str) -> list[bytes]:
    """Send and receive three messages."""
    await session.create_queue(QueueConfiguration(name=name, routing_type=1))
    producer = await session.create_producer(name)
    consumer = await session.create_consumer(name)
    await session.start()
    bodies = []
    for number in range(3):
        message = session.create_message()
        message.body = b"%d" % number
        await producer.send(message)
        received = await consumer.receive(5000)
        assert received is not None
        await received.acknowledge()
        bodies.append(received.body)
    assert await consumer.receive(10) is None
    return bodies
