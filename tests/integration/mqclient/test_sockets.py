"""The shell of plain sockets against a broker of this process, and against peers that behave badly."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.embedded import EmbeddedBroker
from mqclient.core.api import QueueConfiguration
from mqclient.core.batches import Batch
from mqclient.core.session.session import Session
from mqclient.sockets import SocketRuntime, server_locator
from mqclient.wire.message import CoreMessage, encode_headers, encode_message


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
        received = await consumer.receive(10_000)
        assert received is not None
        await received.acknowledge()
        bodies.append(received.body)
    assert await consumer.receive(10) is None
    return bodies


class SocketsTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.runtime = SocketRuntime()
        self.addCleanup(self.runtime.close)

    def open(self, url: str) -> Session:
        locator = server_locator(url, runtime=self.runtime)
        factory = self.runtime.run(locator.create_session_factory(), 20)
        return self.runtime.run(factory.create_session(), 20)


class BrokerTests(SocketsTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.broker = EmbeddedBroker(acceptor="tcp://127.0.0.1:0").start()
        self.addCleanup(self.broker.stop)

    def test_exchange_over_a_port_and_in_the_process(self) -> None:
        for url in (self.broker.tcp_url, self.broker.url):
            session = self.open(url)
            self.assertEqual(self.runtime.run(exchange(session, url), 20), [b"0", b"1", b"2"])
            self.runtime.run(session.factory.close(), 20)

    def test_a_list_of_brokers_of_which_the_first_is_away(self) -> None:
        with closed_port() as port:
            session = self.open(f"(tcp://127.0.0.1:{port},{self.broker.tcp_url})")
        self.assertEqual(self.runtime.run(exchange(session, "list"), 20), [b"0", b"1", b"2"])

    def test_batches_and_a_large_body(self) -> None:
        session = self.open(self.broker.tcp_url)
        self.runtime.run(session.create_queue(QueueConfiguration(name="batches", routing_type=1)), 20)
        told: list[Batch] = []
        count, body = 3000, bytes(range(256)) * 2000
        messages = [encode_message(CoreMessage(0, "batches", durable=True, body=b"%d" % number)) for number in range(count)]
        sends = session.open_encoded_sends()
        for start in range(0, count, 500):
            session.send_batch("batches", messages[start : start + 500], told.append)
            while not sends.room:
                self.runtime.pump(0.01)
        large: list[Any] = []
        headers = encode_headers(CoreMessage(0, "batches", durable=True))
        session.send_large_encoded(headers, lambda at, size: body[at : at + size], len(body), large.append, address="batches")
        while len(told) < 6 or not large:
            self.runtime.pump(0.01)
        self.assertEqual([(batch.error, batch.refused, batch.unanswered) for batch in told], [(None, {}, [])] * 6)
        self.assertEqual(large, [None])

        async def receive() -> list[bytes]:
            consumer = await session.create_consumer("batches")
            await session.start()
            found = []
            for _ in range(count + 1):
                message = await consumer.receive(10_000)
                assert message is not None
                found.append(message.plain_body() if message.large is None else await message.large.read())
                await message.acknowledge()
            return found

        found = self.runtime.run(receive(), 60)
        self.assertEqual(found, [b"%d" % number for number in range(count)] + [body])

    def test_a_batch_in_a_transaction(self) -> None:
        session = self.open(self.broker.tcp_url)
        message = encode_message(CoreMessage(0, "branch", durable=True, body=b"x"))

        async def work() -> list[int]:
            await session.create_queue(QueueConfiguration(name="branch", routing_type=1))
            sender = await session.factory.create_session(auto_commit_sends=False)
            counts = []
            for end in (sender.rollback, sender.commit):
                sender.send_batch("branch", [message] * 10, None)
                await end()
                counts.append((await session.queue_query("branch")).message_count)
            return counts

        self.assertEqual(self.runtime.run(work(), 20), [0, 10])

    def test_what_arrived_during_an_absence_is_there(self) -> None:
        session = self.open(f"{self.broker.tcp_url}?connectionTTL=60000&callTimeout=5000")  # so much for the opening, too
        call = session.queue_query("absence")
        self.runtime.pump(0)
        # The answer comes while nobody looks, and the limit passes.
        probe = self.open(self.broker.url)
        other = SocketRuntime()
        self.addCleanup(other.close)
        other.pump(5.1)
        self.assertFalse(probe.closed)
        self.assertFalse(self.runtime.run(call, 20).exists)


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody else gets, and on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
