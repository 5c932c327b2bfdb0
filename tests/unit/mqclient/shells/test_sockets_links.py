"""The loop, the tasks and the links of the shell of plain sockets, over socket pairs whose other end lives in the same loop."""

from __future__ import annotations

import gc
import os
import socket
import struct
from contextvars import ContextVar
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import sleep
from mqclient.errors import ConnectionTimedOutError, IllegalStateError, NotConnectedError, ObjectClosedError, OperationTimeoutError
from mqclient.shells.sockets_links import UNSENT_HIGH, UNSENT_LOW, SocketLink
from mqclient.shells.sockets_loop import READ_BUFFER
from mqclient.shells.sockets_tasks import Cancelled
from mqclient.sockets import SocketRuntime, server_locator
from mqclient.wire.message import decode_message
from mqclient.wire.packets import Ping, QueueQuery, ReaderMessages, ReaderRead, SessionSend
from tests.unit.mqclient.core_support import MemoryLink, Network, ScriptedBroker, connector


class Runtime(SocketRuntime):
    """Keeps what it logs."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[tuple[str, BaseException]] = []

    def log_failure(self, text: str, error: BaseException) -> None:
        self.failures.append((text, error))


class RuntimeTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.runtime = Runtime()
        self.loop = self.runtime.loop
        self.addCleanup(self.runtime.close)

    def run_(self, coroutine: Any, timeout: float | None = 20) -> Any:
        return self.runtime.run(coroutine, timeout)


class TaskTests(RuntimeTestCase):
    def test_results_and_errors_pass_through(self) -> None:
        async def inner(value: int) -> int:
            if value < 0:
                raise ValueError(value)
            return value * 2

        async def outer() -> list[int]:
            tasks = [self.runtime.spawn(inner(number)) for number in (1, 2)]
            return [await task for task in reversed(tasks)]

        self.assertEqual(self.run_(outer()), [4, 2])
        self.assertRaises(ValueError, self.run_, inner(-1))
        self.assertEqual(self.runtime.failures, [])

    def test_a_future_goes_on_in_the_next_turn_and_only_its_first_outcome_counts(self) -> None:
        future = self.runtime.create_future()
        seen: list[int] = []

        async def wait() -> None:
            seen.append(await future)

        task = self.runtime.spawn(wait())
        self.runtime.pump(0)
        self.runtime.resolve(future, 1)
        self.runtime.resolve(future, 2)
        self.runtime.reject(future, ValueError())
        self.assertTrue(self.runtime.is_done(future))
        self.assertEqual(seen, [])
        self.run_(task)
        self.assertEqual(seen, [1])

    def test_cancelling_reaches_what_is_waited_for(self) -> None:
        future = self.runtime.create_future()
        ends: list[str] = []

        async def inner() -> None:
            try:
                await future
            finally:
                ends.append("inner")

        async def outer() -> None:
            try:
                await self.runtime.spawn(inner())
            finally:
                ends.append("outer")

        task = self.runtime.spawn(outer())
        self.runtime.pump(0)
        task.cancel()
        self.runtime.pump(0)
        self.assertEqual((ends, self.runtime.is_done(future)), (["inner", "outer"], True))
        self.assertRaises(Cancelled, task.result)
        self.assertEqual(self.loop.tasks, set())
        self.assertEqual(self.runtime.failures, [])

    def test_cancelling_before_the_first_step(self) -> None:
        async def never() -> None:
            raise AssertionError("it ran")

        task = self.runtime.spawn(never())
        task.cancel()
        self.assertRaises(Cancelled, self.run_, task)

    def test_a_coroutine_may_go_on_after_it_was_cancelled(self) -> None:
        async def stubborn() -> str:
            try:
                await self.runtime.create_future()
            except Cancelled:
                await sleep(self.runtime, 0)
            return "done"

        task = self.runtime.spawn(stubborn())
        self.runtime.pump(0)
        task.cancel()
        self.assertEqual(self.run_(task), "done")

    def test_a_failure_that_nobody_looks_at_is_reported(self) -> None:
        async def fail() -> None:
            raise ValueError("unseen")

        self.runtime.spawn(fail())
        self.runtime.pump(0)
        gc.collect()  # the traceback keeps the task
        [(_, error)] = self.runtime.failures
        self.assertEqual(str(error), "unseen")

    def test_what_another_framework_waits_for_is_refused(self) -> None:
        class Foreign:
            def __await__(self) -> Any:
                yield "something else"

        async def wait() -> None:
            await Foreign()

        self.assertRaises(TypeError, self.run_, wait())

    def test_each_task_has_its_own_context(self) -> None:
        variable: ContextVar[int] = ContextVar("variable", default=0)

        async def change(value: int) -> int:
            variable.set(value)
            await sleep(self.runtime, 0)
            return variable.get()

        async def both() -> list[int]:
            tasks = [self.runtime.spawn(change(number)) for number in (1, 2)]
            return [await task for task in tasks]

        self.assertEqual((self.run_(both()), variable.get()), ([1, 2], 0))

    def test_an_interrupt_ends_the_call(self) -> None:
        async def interrupted() -> None:
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, self.run_, interrupted())
        self.assertEqual(self.run_(self.runtime.spawn(sleep(self.runtime, 0))), None)


class LoopTests(RuntimeTestCase):
    def test_timers_in_their_order_and_not_when_cancelled(self) -> None:
        called: list[str] = []
        self.runtime.call_later(0.002, called.append, "second")
        self.runtime.call_later(0.001, called.append, "first")
        self.runtime.call_later(0.0015, called.append, "never").cancel()
        self.run_(sleep(self.runtime, 0.003))
        self.assertEqual(called, ["first", "second"])

    def test_cancelled_timers_do_not_gather(self) -> None:
        kept = self.runtime.call_later(60, lambda: None)
        for _ in range(5000):
            self.runtime.call_later(30, lambda: None).cancel()
        self.assertLess(len(self.loop._timers), 300)
        kept.cancel()

    def test_a_defect_does_not_stop_others(self) -> None:
        called: list[int] = []
        self.runtime.call_soon(lambda: 1 // 0)
        self.runtime.call_soon(called.append, 1)
        self.runtime.call_later(0, lambda: 1 // 0)
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual((called, [type(error) for _, error in self.runtime.failures]), ([1], [ZeroDivisionError] * 2))

    def test_calls_of_other_threads_wake_the_loop(self) -> None:
        self.loop.accept_threads()
        future = self.runtime.create_future()

        async def wait() -> Any:
            self.loop.call_soon(self.loop.call_from_thread, self.runtime.resolve, future, 5)
            return await future

        self.assertEqual(self.run_(wait(), None), 5)

    def test_timers_wait_after_an_absence(self) -> None:
        """What has arrived meanwhile is dealt with before a limit on waiting for it counts."""
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        self.addCleanup(far.close)
        seen: list[str] = []
        self.runtime.call_later(0, seen.append, "late")
        self.loop.watch(near, 1, lambda events: (seen.append("data"), near.recv(10)))
        self.runtime._left -= 100
        self.loop.call_soon(far.send, b"x")
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual(seen, ["data"])
        self.loop.hold_timers(0)
        self.runtime.pump(0)
        self.assertEqual(seen, ["data", "late"])


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


class Ear:
    """Keeps what a link tells."""

    def __init__(self) -> None:
        self.data = b""
        self.told: list[str] = []

    def data_received(self, data: bytes) -> None:
        self.data += data
        if b"defect" in data:
            raise RuntimeError("defect")

    def link_lost(self, reason: str) -> None:
        self.told.append("lost")
        self.reason = reason

    def link_paused(self) -> None:
        self.told.append("paused")

    def link_resumed(self) -> None:
        self.told.append("resumed")


class LinkTests(RuntimeTestCase):
    def setUp(self) -> None:
        super().setUp()
        near, self.far = socket.socketpair()
        for end in (near, self.far):
            end.setblocking(False)
        self.addCleanup(self.far.close)
        self.ear = Ear()
        self.link = self.runtime.add_link(SocketLink(self.loop, near, "peer", self.ear))

    def drain(self) -> bytes:
        """What the other end has got."""
        found = b""
        try:
            while data := self.far.recv(1 << 20):
                found += data
        except BlockingIOError:
            pass
        return found

    def test_what_is_written_in_one_turn_leaves_together(self) -> None:
        self.link.write(b"one")
        self.link.write(b"two")
        self.assertEqual(self.drain(), b"")
        self.runtime.pump(0)
        self.assertEqual(self.drain(), b"onetwo")

    def test_a_peer_that_does_not_read_pauses_the_writer_and_never_blocks_it(self) -> None:
        data = bytes(range(256)) * 4096
        for _ in range(4):
            self.link.write(data)
        self.runtime.pump(0)
        self.assertEqual(self.ear.told, ["paused"])
        found = b""
        while len(found) < 4 * len(data):
            found += self.drain()
            if 4 * len(data) - len(found) > 2 * UNSENT_HIGH:
                self.assertEqual(self.ear.told, ["paused"])
            self.runtime.pump(0)
        self.assertEqual(found, data * 4)
        self.assertEqual(self.ear.told, ["paused", "resumed"])
        self.assertLess(UNSENT_LOW, UNSENT_HIGH)

    def test_what_comes_is_read_in_large_pieces(self) -> None:
        data = os.urandom(READ_BUFFER * 2 + 5)
        sent = 0
        while sent < len(data) or len(self.ear.data) < len(data):
            if sent < len(data):
                sent += self.far.send(data[sent:])
            self.runtime.pump(0)
        self.assertEqual(self.ear.data, data)

    def test_the_peer_closes(self) -> None:
        self.far.send(b"last words")
        self.far.close()
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual((self.ear.data, self.ear.told), (b"last words", ["lost"]))
        self.assertIn("closed", self.ear.reason)
        self.link.write(b"ignored")
        self.link.close()
        self.link.abort()
        self.runtime.pump(0)
        self.assertEqual(self.ear.told, ["lost"])

    def test_the_peer_resets(self) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        near = socket.create_connection(server.getsockname())
        near.setblocking(False)
        far = server.accept()[0]
        ear = Ear()
        link = SocketLink(self.loop, near, "peer", ear)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        link.write(b"x")
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual(ear.told, ["lost"])

    def test_closing_sends_what_was_written(self) -> None:
        data = bytes(UNSENT_HIGH * 3)
        self.link.write(data)
        self.link.close()
        self.assertTrue(self.link.lingering)
        self.link.write(b"too late")
        found = b""
        while len(found) < len(data):
            found += self.drain()
            self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual((found, self.ear.told[-1], self.link.lost), (data, "lost", True))
        self.assertEqual(self.far.recv(1), b"")

    def test_aborting_sends_nothing_more(self) -> None:
        self.link.write(bytes(UNSENT_HIGH * 3))
        self.link.abort()
        self.runtime.pump(0)
        self.assertEqual(self.ear.told, ["paused", "lost"])
        self.assertFalse(self.link.lingering)

    def test_a_defect_of_the_receiver_ends_the_link(self) -> None:
        self.far.send(b"defect")
        self.runtime.pump(0)
        self.runtime.pump(0)
        self.assertEqual(self.ear.told, ["lost"])
        self.assertIn("defect", self.ear.reason)
        self.assertEqual(len(self.runtime.failures), 1)

    def test_closing_the_runtime_ends_links(self) -> None:
        self.link.write(b"last words")
        self.runtime.close()
        self.assertEqual((self.drain(), self.ear.told), (b"last words", ["lost"]))


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
