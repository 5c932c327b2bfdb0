"""The client core over plain sockets."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import sleep
from mqclient.errors import ConnectionTimedOutError, IllegalStateError, NotConnectedError, ObjectClosedError, OperationTimeoutError
from mqclient.shells.sockets_links import SocketLink
from mqclient.shells.sockets_tasks import Cancelled
from mqclient.sockets import server_locator
from mqclient.wire.message import decode_message
from mqclient.wire.packets import Ping, QueueQuery, ReaderMessages, ReaderRead, SessionSend
from tests.support.network import MemoryLink, Network, ScriptedBroker, connector
from tests.unit.mqclient.shells.test_sockets_links import Ear, Runtime, RuntimeTestCase


class RunTests(RuntimeTestCase):
    def test_a_call_that_takes_too_long_is_cancelled(self) -> None:
        ended: list[bool] = []

        async def wait() -> None:
            try:
                await sleep(self.runtime, 60)
            finally:
                ended.append(True)

        with self.assertRaises(OperationTimeoutError) as caught:
            self.runtime.run(wait(), 0.01)
        self.assertIn("0.01 s", str(caught.exception))
        self.assertEqual(ended, [True])

    def test_a_call_that_cannot_be_cancelled_is_left(self) -> None:
        async def deaf() -> None:
            while True:
                try:
                    await sleep(self.runtime, 60)
                except Cancelled:
                    pass

        self.assertRaises(OperationTimeoutError, self.runtime.run, deaf(), 0)

    def test_a_wait_that_nothing_can_end(self) -> None:
        self.assertRaises(IllegalStateError, self.runtime.run, self.runtime.create_future())

    def test_not_from_inside(self) -> None:
        async def inside() -> None:
            self.runtime.pump(0)

        self.assertRaises(IllegalStateError, self.run_, inside())

    def test_not_in_another_process(self) -> None:
        child = os.fork()
        if child == 0:
            try:
                self.runtime.pump(0)
            except IllegalStateError:
                self.runtime.close()
                os._exit(42)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 42)
        self.runtime.pump(0)

    def test_not_after_closing(self) -> None:
        waiting = self.runtime.spawn(sleep(self.runtime, 60))
        self.runtime.pump(0)
        self.runtime.close()
        self.runtime.close()
        self.assertRaises(Cancelled, waiting.result)
        self.assertRaises(IllegalStateError, self.runtime.pump, 0)
        self.assertRaises(NotConnectedError, self.runtime.spawn, sleep(self.runtime, 0))

    def test_pumping_ends_although_there_is_always_something_to_do(self) -> None:
        def again() -> None:
            self.runtime.call_soon(again)

        again()
        self.runtime.pump(0)

    def test_url_and_settings_exclude_each_other(self) -> None:
        self.assertRaises(ValueError, server_locator, "tcp://localhost:1", LocatorSettings(), runtime=self.runtime)


class Outbox(list[bytes]):
    """``to_client`` of a link of the scripted broker: writes to its socket."""

    def __init__(self, link: SocketLink) -> None:
        super().__init__()
        self._link = link

    def append(self, data: bytes) -> None:
        self._link.write(data)


class PairRuntime(Runtime):
    """Connects to scripted brokers over socket pairs; a port without a broker is refused."""

    def __init__(self, *brokers: ScriptedBroker) -> None:
        super().__init__()
        self.brokers = brokers
        self.far: list[SocketLink] = []

    def connect(self, connector: Any, handler: Any, timeout: float) -> Any:
        async def connected() -> SocketLink:
            number = int(dict(connector.parameters)["port"])
            if number >= len(self.brokers):
                raise NotConnectedError(f"nobody listens on {number}")
            near, far = socket.socketpair()
            for end in (near, far):
                end.setblocking(False)
            broker = self.brokers[number]
            unused: Any = None
            link = MemoryLink(Network(), unused, broker)

            class Far(Ear):
                def data_received(self, data: bytes) -> None:
                    broker.received(link, data)

            self.far.append(self.add_link(SocketLink(self.loop, far, "client", Far())))
            link.to_client = Outbox(self.far[-1])
            broker.connected(link)
            return self.add_link(SocketLink(self.loop, near, f"pair:{number}", handler))

        return self.spawn(connected())


class CoreTests(SynchronousTestCase):
    def open(self, *brokers: ScriptedBroker, nobody: int = 1, **settings: Any) -> Any:
        """Connectors to the brokers and to ``nobody`` more."""
        self.runtime = PairRuntime(*brokers)
        self.addCleanup(self.runtime.close)
        connectors = [connector(number, f"node-{number}") for number in range(len(brokers) + nobody)]
        self.locator = Locator(self.runtime, connectors, LocatorSettings(**settings))

        async def open() -> Any:
            return await (await self.locator.create_session_factory()).create_session()

        return self.runtime.run(open(), 20)

    def test_messages_arrive_in_their_order(self) -> None:
        broker = ScriptedBroker()
        session = self.open(broker, block_on_durable_send=False)

        async def send() -> None:
            producer = await session.create_producer("q")
            sends = []
            for number in range(50):
                message = session.create_message()
                message.body = bytes([number])
                sends.append(producer.send(message))
            for each in sends:
                await each

        self.runtime.run(send(), 20)
        self.runtime.run(self.locator.close(), 20)
        self.assertEqual([decode_message(packet.message).body[0] for packet in broker.got(SessionSend)], list(range(50)))

    def test_a_broker_that_falls_silent_is_noticed(self) -> None:
        broker = ScriptedBroker()
        session = self.open(broker, connection_ttl=400, client_failure_check_period=100, call_timeout=20_000)
        broker.silent.update((Ping, QueueQuery))
        with self.assertRaises(Exception) as caught:
            self.runtime.run(session.queue_query("q"), 20)
        self.assertIsInstance(caught.exception.__cause__, ConnectionTimedOutError)
        self.assertTrue(session.closed)

    def test_a_call_goes_on_over_a_new_connection(self) -> None:
        session = self.open(ScriptedBroker(), reconnect_attempts=3, retry_interval=1)
        self.runtime.far[0].abort()
        self.runtime.pump(0)
        answer = self.runtime.run(session.queue_query("q"), 20)
        self.assertEqual(answer.name, "q")
        self.assertEqual(len(self.runtime.far), 2)

    def test_connectors_are_tried_in_turn(self) -> None:
        session = self.open(ScriptedBroker(), nobody=9)
        self.assertFalse(session.closed)
        self.runtime.run(self.locator.close(), 20)
        self.assertRaises(ObjectClosedError, self.runtime.run, session.queue_query("q"), 20)

    def test_blocks_of_a_reader_in_large_frames(self) -> None:
        broker = ScriptedBroker()
        message = bytes(range(256)) * 4

        def answer(packet: ReaderRead) -> ReaderMessages:
            count = 2000
            after = packet.after
            arrays = struct.pack(f">{count}q{count}i{count}i", *range(after + 1, after + 1 + count), *[1] * count, *[len(message)] * count)
            position = after + count
            return ReaderMessages(position, position >= packet.until, False, count, arrays + bytes(count) + message * count)

        broker.answers[ReaderRead] = answer
        session = self.open(broker)
        blocks = session.readers.blocks("q", 0, 6000)
        found = []
        while (block := self.runtime.run(blocks.next(), 20)) is not None:
            self.assertEqual(block.messages, message * 2000)
            self.assertEqual(struct.unpack_from(">q", block.ids), (block.position - 1999,))
            found.append(block)
        self.assertEqual([(block.count, block.end) for block in found], [(2000, False), (2000, False), (2000, True)])
        self.assertTrue(self.runtime.run(session.queue_query("q"), 20).exists)
