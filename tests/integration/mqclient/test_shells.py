"""The shells over real sockets, plain and with TLS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from mqclient.blocking import Runner
from mqclient.core.api import LocatorSettings, TransportConfiguration
from mqclient.errors import ObjectClosedError, OperationTimeoutError
from tests.integration.mqclient.jms.case import waits_for_messages
from tests.integration.mqclient.server import SocketBroker


class ShellTestCase(TestCase):
    timeout = 100  # s: for a busy machine

    def setUp(self) -> Any:
        self.broker = SocketBroker()
        return Deferred.fromCoroutine(self.broker.listen())

    def tearDown(self) -> Any:
        return Deferred.fromCoroutine(self.broker.stop())

    def url(self, parameters: str = "") -> str:
        return f"tcp://127.0.0.1:{self.broker.port}?callTimeout=20000{parameters}"

    def connectors(self) -> list[TransportConfiguration]:
        return [TransportConfiguration("it", "netty", (("host", "127.0.0.1"), ("port", str(self.broker.port))))]


class BlockingCase(ShellTestCase):
    """In worker threads, on the reactor of the test, and on a reactor of the runner's own."""

    async def in_thread(self, function: Callable[[Runner], Any]) -> list[Any]:
        return [await deferToThread(function, runner) for runner in (Runner(reactor), Runner(None))]

    def open(self, runner: Runner, **settings: Any) -> Any:
        locator = runner.locator(self.connectors(), LocatorSettings(call_timeout=20_000, **settings))
        factory = runner.call(locator.create_session_factory)
        session = runner.call(factory.create_session)
        runner.call(session.start)
        return locator, session


class BlockingTests(BlockingCase):
    async def test_exchange(self) -> None:
        def work(runner: Runner) -> list[bool]:
            locator, session = self.open(runner)
            producer = runner.call(session.create_producer, "q")
            consumer = runner.create_consumer(session, "q")
            found = []
            for _ in range(3):
                runner.call(producer.send, session.create_message())
                received = consumer.receive(10_000)
                assert received is not None
                consumer.acknowledge(received)
                found.append(runner.read_body(received) == b"")
            assert consumer.receive_immediate() is None
            runner.call(locator.close)
            return found

        self.assertEqual(await self.in_thread(work), [[True] * 3] * 2)

    async def test_receive_ends_when_another_thread_closes(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner)
            consumer = runner.create_consumer(session, "q")
            receiving = threading.current_thread()

            def close() -> None:
                while not waits_for_messages(receiving):
                    time.sleep(0.01)
                runner.call(session.close)

            threading.Thread(target=close).start()
            found = consumer.receive()
            self.assertRaises(ObjectClosedError, consumer.receive)
            runner.call(locator.close)
            return found, consumer.closed

        self.assertEqual(await self.in_thread(work), [(None, True)] * 2)

    async def test_call_with_a_limit(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner)
            consumer = runner.call(session.create_consumer, "q")
            self.assertRaises(OperationTimeoutError, runner.call, consumer.receive, timeout=50)
            runner.call(locator.close)

        await self.in_thread(work)
