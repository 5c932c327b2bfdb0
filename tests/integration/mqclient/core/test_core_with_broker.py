"""The core client against a whole broker (mqbroker, or a real Artemis; see :mod:`tests.integration.brokers`).

The connections go through a proxy on the loopback interface, which cuts them.
"""

from __future__ import annotations

import uuid
from typing import Any

from twisted.internet import reactor, task
from twisted.internet.defer import Deferred
from twisted.protocols.portforward import ProxyFactory
from twisted.trial.unittest import TestCase

from mqclient.core.api import QueueConfiguration
from mqclient.core.connection.configuration import configuration_from_url
from mqclient.core.message import ClientMessage
from mqclient.errors import (
    DuplicateMetadataError,
    InvalidFilterExpressionError,
    MQError,
    QueueDoesNotExistError,
    QueueExistsError,
    TransactionRolledBackError,
    UnblockedError,
)
from mqclient.twisted import server_locator
from tests.integration.brokers import broker_url

USER, PASSWORD = "admin", "secret"


class _CuttingProxy(ProxyFactory):
    noisy = False

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.connections: list[Any] = []
        self._made: list[Any] = []

    def buildProtocol(self, addr: Any) -> Any:
        connection = super().buildProtocol(addr)
        self.connections.append(connection)
        self._made.append(connection)
        return connection

    @property
    def is_open(self) -> bool:
        """Is there an end of a connection, on either side, that is not closed yet?"""
        ends = (end for connection in self._made for end in (connection, connection.peer))
        return any(end is not None and end.transport is not None and end.transport.connected for end in ends)

    def cut(self) -> None:
        for connection in self.connections:
            if connection.transport is not None and connection.transport.connected:
                connection.transport.abortConnection()
        self.connections.clear()


class BrokerTests(TestCase):
    timeout = 100  # s: for a busy machine

    def setUp(self) -> None:
        [connector] = configuration_from_url(broker_url()).connectors
        values = dict(connector.parameters)
        self.proxy = _CuttingProxy(str(values["host"]), int(values["port"]))
        made: Any = reactor
        self.listening = made.listenTCP(0, self.proxy, interface="127.0.0.1")
        self.queue = f"mqclient.test.{uuid.uuid4()}"
        self.locators: list[Any] = []

    async def tearDown(self) -> None:  # type: ignore[override]
        for locator in self.locators:
            await locator.close()
        await self.listening.stopListening()
        for _ in range(1000):
            if not self.proxy.is_open:  # trial counts what is open as left behind
                break
            await task.deferLater(reactor, 0.01)  # type: ignore[arg-type]

    async def factory(self, **parameters: Any) -> Any:
        options = {"callTimeout": 20_000, "reconnectAttempts": 20, "retryInterval": 50, **parameters}
        text = "&".join(f"{name}={value}" for name, value in options.items())
        locator = server_locator(f"tcp://127.0.0.1:{self.listening.getHost().port}?{text}")
        self.locators.append(locator)
        return await locator.create_session_factory()

    async def session(self, factory: Any, **options: Any) -> Any:
        session = await factory.create_session(USER, PASSWORD, **options)
        if not (await session.queue_query(self.queue)).exists:
            await session.create_queue(QueueConfiguration(name=self.queue))
        return session

    async def open(self, **parameters: Any) -> tuple[Any, Any, Any]:
        """Session, producer, consumer."""
        session = await self.session(await self.factory(**parameters))
        producer = await session.create_producer(self.queue)
        consumer = await session.create_consumer(self.queue)
        await session.start()
        return session, producer, consumer

    def numbered(self, session: Any, number: int, **options: Any) -> ClientMessage:
        message: ClientMessage = session.create_message(4, **options)
        message.put("n", number)
        message.body = b"body"
        return message

    async def drain(self, consumer: Any) -> list[Any]:
        found: list[Any] = []
        while True:
            message = await consumer.receive(500)
            if message is None:  # the machine may stand still for as long: the broker is asked whether it has more
                message = await consumer.receive_immediate()
            if message is None:
                return found
            await message.acknowledge()
            found.append(message.get("n"))

    async def test_queue_administration(self) -> None:
        session = await self.session(await self.factory())
        await self.assertFailure(session.create_queue(QueueConfiguration(name=self.queue)), QueueExistsError)
        await self.assertFailure(session.create_consumer("mqclient.none"), QueueDoesNotExistError)
        await self.assertFailure(session.create_consumer(self.queue, "n >"), InvalidFilterExpressionError)
        address = await session.address_query(self.queue)
        self.assertEqual((address.exists, address.queue_names), (True, (self.queue,)))
        await session.delete_queue(self.queue)
        self.assertFalse((await session.queue_query(self.queue)).exists)

    async def test_unique_metadata(self) -> None:
        factory = await self.factory()
        first, second = await self.session(factory), await self.session(factory)
        value = str(uuid.uuid4())
        await first.add_unique_metadata("jms-client-id", value)
        await self.assertFailure(second.add_unique_metadata("jms-client-id", value), DuplicateMetadataError)

    async def test_order_priority_and_filter(self) -> None:
        session, producer, consumer = await self.open()
        await session.stop()
        for number in range(4):
            await producer.send(self.numbered(session, number, priority=9 if number == 2 else 4))
        await session.start()
        self.assertEqual(await self.drain(consumer), [2, 0, 1, 3])
        await consumer.close()
        filtered = await session.create_consumer(self.queue, "n > 1")
        for number in range(4):
            await producer.send(self.numbered(session, number))
        self.assertEqual(await self.drain(filtered), [2, 3])

    async def test_windows(self) -> None:
        for window in (-1, 0, 1, 2000):
            session, producer, consumer = await self.open(consumerWindowSize=window)
            for number in range(20):
                await producer.send(self.numbered(session, number))
            self.assertEqual(await self.drain(consumer), list(range(20)), f"window {window}")
            await consumer.close()

    async def test_browser(self) -> None:
        session, producer, consumer = await self.open()
        await consumer.close()
        for number in range(3):
            await producer.send(self.numbered(session, number))
        browser = await session.create_consumer(self.queue, browse_only=True)
        self.assertEqual(await self.drain(browser), [0, 1, 2])
        await browser.close()
        self.assertEqual(await self.drain(await session.create_consumer(self.queue)), [0, 1, 2])

    async def test_transactions(self) -> None:
        factory = await self.factory()
        session = await self.session(factory, auto_commit_sends=False, auto_commit_acks=False)
        producer = await session.create_producer(self.queue)
        consumer = await session.create_consumer(self.queue)
        await session.start()
        await producer.send(self.numbered(session, 1))
        self.assertIsNone(await consumer.receive_immediate())
        await session.commit()
        received = await consumer.receive(10_000)
        await received.acknowledge()
        await session.rollback()
        again = await consumer.receive(10_000)
        self.assertEqual((again.get("n"), again.delivery_count, again.redelivered), (1, 2, True))
        await again.acknowledge()
        await session.commit(block=False)
        self.assertIsNone(await consumer.receive_immediate())

    async def test_expiry(self) -> None:
        session, producer, consumer = await self.open()
        message = self.numbered(session, 1)
        message.expiration = message.timestamp + 300
        await producer.send(message)
        await task.deferLater(reactor, 0.5)  # type: ignore[arg-type]
        await producer.send(self.numbered(session, 2))
        self.assertEqual(await self.drain(consumer), [2])

    async def test_large_messages(self) -> None:
        body = bytes(range(256)) * 2000
        for parameters in ({}, {"compressLargeMessage": "true"}, {"confirmationWindowSize": 100_000}, {"consumerWindowSize": 0}):
            session, producer, consumer = await self.open(minLargeMessageSize=10_000, **parameters)
            for size in (len(body), 20_000, 10_000):
                message = session.create_message(4)
                message.body = body[:size]
                await producer.send(message)
                received = await consumer.receive(10_000)
                found = received.plain_body() if received.large is None else await received.large.read()
                self.assertEqual(found, body[:size], parameters)
                await received.acknowledge()
            await consumer.close()

    async def test_many_sends_with_acknowledgements(self) -> None:
        session, producer, consumer = await self.open(confirmationWindowSize=5000)
        told: list[str] = []

        class Handler:
            def send_acknowledged(self, message: ClientMessage) -> None:
                told.append("ok")

            def send_failed(self, message: ClientMessage, error: MQError) -> None:
                told.append(str(error))

        handler = Handler()
        for number in range(500):
            await producer.send(self.numbered(session, number), acknowledgement_handler=handler)
        self.assertEqual(await self.drain(consumer), list(range(500)))
        self.assertEqual(told, ["ok"] * 500)

    async def test_reattach_loses_nothing(self) -> None:
        session, producer, consumer = await self.open(confirmationWindowSize=1_000_000)
        held = None
        for number in range(60):
            if number % 20 == 10:
                self.proxy.cut()
            await producer.send(self.numbered(session, number))
            if number == 5:
                held = await consumer.receive(10_000)
        assert held is not None
        await held.acknowledge()
        self.assertEqual(await self.drain(consumer), list(range(1, 60)))

    async def test_recreate(self) -> None:
        session, producer, consumer = await self.open()
        await producer.send(self.numbered(session, 1))
        first = await consumer.receive(10_000)
        receive = consumer.receive(10_000)
        self.proxy.cut()
        again = await receive
        self.assertEqual((again.get("n"), first.get("n")), (1, 1))
        await again.acknowledge()
        await producer.send(self.numbered(session, 2))
        self.assertEqual(await self.drain(consumer), [2])

    async def test_calls_and_transactions_cut_off(self) -> None:
        factory = await self.factory()
        session = await self.session(factory, auto_commit_sends=False, auto_commit_acks=False)
        producer = await session.create_producer(self.queue)
        await producer.send(self.numbered(session, 1))
        self.proxy.cut()
        while not session.rollback_only:  # it has noticed
            await task.deferLater(reactor, 0.01)  # type: ignore[arg-type]
        await self.assertFailure(session.commit(), TransactionRolledBackError)
        await producer.send(self.numbered(session, 2))
        await session.commit()
        call: Deferred[Any] = session.queue_query(self.queue)
        self.proxy.cut()
        await self.assertFailure(call, UnblockedError)
        consumer = await session.create_consumer(self.queue)
        await session.start()
        self.assertEqual(await self.drain(consumer), [2])
