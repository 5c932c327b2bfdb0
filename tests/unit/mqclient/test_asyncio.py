"""The core client under asyncio, where what waited goes on only in the loop's next turn."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

from mqclient.asyncio import AsyncioRuntime
from mqclient.core.api import LocatorSettings
from mqclient.core.factories.locator import Locator
from mqclient.errors import NotConnectedError
from mqclient.wire.message import decode_message
from mqclient.wire.packets import SessionSend
from tests.support.network import Network, ScriptedBroker, connector, message


class Runtime(AsyncioRuntime):
    """Connects over an in-memory network."""

    def __init__(self, network: Network) -> None:
        super().__init__(asyncio.get_running_loop())
        self.network = network

    def connect(self, connector: Any, handler: Any, timeout: float) -> Any:
        async def connected() -> Any:
            link = self.network.connect(connector, handler).result
            assert not isinstance(link, Exception)
            return link

        return self.spawn(connected())


class AsyncioTests(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.network = Network()
        self.broker = ScriptedBroker()
        self.broker._network = self.network
        self.network.brokers["61616"] = self.broker

    async def finish(self, awaitable: Any) -> Any:
        """Pass everything on until the call is finished."""
        task = asyncio.ensure_future(awaitable)
        for _ in range(1000):
            await asyncio.sleep(0)
            self.network.stir()
            if task.done():
                return task.result()
        raise AssertionError("the call is not finished")

    async def open(self, **settings: Any) -> Any:
        self.locator = Locator(Runtime(self.network), [connector()], LocatorSettings(block_on_durable_send=False, **settings))
        factory = await self.finish(self.locator.create_session_factory())
        return await self.finish(factory.create_session())

    def sequence(self) -> list[int]:
        """What has arrived, in its order."""
        self.network.stir()
        return [decode_message(packet.message).body[0] for packet in self.broker.got(SessionSend)]

    def send(self, producer: Any, session: Any, numbers: range) -> list[Any]:
        sends = []
        for number in numbers:
            outgoing = session.create_message()
            outgoing.body = bytes([number])
            sends.append(producer.send(outgoing))
        return sends

    async def test_order_when_the_peer_reads_again(self) -> None:
        session = await self.open(producer_window_size=-1)
        producer = await self.finish(session.create_producer("q"))
        handler = self.network.link.handler
        handler.link_paused()
        first = self.send(producer, session, range(3))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        loop.call_soon(handler.link_resumed)
        second = self.send(producer, session, range(3, 6))  # starts in the turn in which the first ones are told to go on
        for send in (*first, *second):
            await self.finish(send)
        self.assertEqual(self.sequence(), list(range(6)))

    async def test_order_when_credits_come(self) -> None:
        session = await self.open(producer_window_size=1000)
        self.broker.credits = False
        producer = await self.finish(session.create_producer("q"))
        first = self.send(producer, session, range(3))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        loop.call_soon(session.flow.granted, "q", 100_000)
        second = self.send(producer, session, range(3, 6))
        for send in (*first, *second):
            await self.finish(send)
        self.assertEqual(self.sequence(), list(range(6)))

    async def test_cancelled_receive_loses_no_message(self) -> None:
        session = await self.open()
        consumer = await self.finish(session.create_consumer("q"))
        await self.finish(session.start())
        receive = consumer.receive()
        await asyncio.sleep(0)
        receive.cancel()
        await asyncio.sleep(0)
        self.broker.deliver(10, message(1))
        received = await self.finish(consumer.receive())
        self.assertEqual(received.message_id, 1)

    async def take_in_pieces(self, take: Any) -> list[int]:
        """The messages that ``take(consumer, got)`` gets, which is cancelled again and again: each time a turn later."""
        session = await self.open()
        consumer = await self.finish(session.create_consumer("q"))
        await self.finish(session.start())
        for number in range(1, 301):
            self.broker.deliver(10, message(number))
        got: list[int] = []
        for turns in range(30):
            task = asyncio.ensure_future(take(consumer, got))
            for _ in range(turns % 10):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        return got

    async def test_a_cancelled_loop_loses_no_message(self) -> None:
        """The next cumulative acknowledgement would settle a message that nobody has seen."""

        async def take(consumer: Any, got: list[int]) -> None:
            async for received in consumer:
                got.append(received.message_id)
                await asyncio.sleep(0)

        got = await self.take_in_pieces(take)
        self.assertGreater(len(got), 30)
        self.assertEqual(got, list(range(1, len(got) + 1)))

    async def test_a_loop_of_receives_that_is_cancelled_loses_no_message_that_was_there(self) -> None:
        async def take(consumer: Any, got: list[int]) -> None:
            while True:
                got.append((await consumer.receive()).message_id)
                await asyncio.sleep(0)

        got = await self.take_in_pieces(take)
        self.assertGreater(len(got), 30)
        self.assertEqual(got, list(range(1, len(got) + 1)))

    async def test_calls_get_messages_in_their_order(self) -> None:
        session = await self.open()
        consumer = await self.finish(session.create_consumer("q"))
        await self.finish(session.start())
        waiting = consumer.receive()
        for number in range(1, 301):
            self.broker.deliver(10, message(number))
        calls = [waiting, *(consumer.receive() for _ in range(299))]
        self.assertEqual([(await self.finish(call)).message_id for call in calls], list(range(1, 301)))

    async def test_messages_that_are_there_leave_other_work_its_turns(self) -> None:
        session = await self.open()
        consumer = await self.finish(session.create_consumer("q"))
        await self.finish(session.start())
        for number in range(1, 601):
            self.broker.deliver(10, message(number))
        got: list[int] = []
        async for received in consumer:
            if received.message_id == 1:
                asyncio.get_running_loop().call_soon(got.append, 0)
            got.append(received.message_id)
            if received.message_id == 300:
                break
        while len(got) < 550:
            if got[-1] == 300:
                asyncio.get_running_loop().call_soon(got.append, -1)
            got.append((await consumer.receive()).message_id)
        self.assertLess(got.index(0), 200)
        self.assertLess(got.index(-1), 500)

    async def test_cancelled_call_does_not_take_the_answer_of_the_next(self) -> None:
        session = await self.open()
        call = session.queue_query("one")
        await asyncio.sleep(0)
        call.cancel()
        answer = await self.finish(session.queue_query("two"))
        self.assertEqual(answer.name, "two")

    async def test_connecting_that_is_cancelled_leaves_nothing(self) -> None:
        self.broker.topology = []
        locator = Locator(Runtime(self.network), [connector()], LocatorSettings())
        opening = locator.create_session_factory()
        for _ in range(10):
            await asyncio.sleep(0)
            self.network.stir()
        opening.cancel()  # type: ignore[attr-defined]
        for _ in range(10):
            await asyncio.sleep(0)
        self.assertTrue(self.network.link.closed_by_client)
        self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})


class ClosedLoopTests(unittest.TestCase):
    def test_call_after_the_loop_was_closed(self) -> None:
        async def work() -> Any:
            network, broker = Network(), ScriptedBroker()
            network.brokers["61616"] = broker
            return Locator(Runtime(network), [connector()], LocatorSettings())

        locator = asyncio.run(work())
        self.assertRaises(NotConnectedError, locator.create_session_factory)
