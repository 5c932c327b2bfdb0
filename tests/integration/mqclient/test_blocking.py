"""The shell for threads: what it does when the reactor stops or the process ends or forks, and sends that nobody waits for."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from mqclient.blocking import Runner, get_runner
from mqclient.core.api import LocatorSettings
from mqclient.errors import AddressFullError, MQError, NotConnectedError, TransactionRolledBackError
from mqclient.management import id_cache
from mqclient.wire.packets import Commit, ProducerCredits, ProducerFailCredits, ProducerRequestCredits, SessionSend
from tests.integration.brokers import environment
from tests.integration.mqclient.jms.case import waits_for_messages
from tests.integration.mqclient.test_shells import ShellTestCase


class ThreadsTestCase(ShellTestCase):
    def open(self, runner: Runner, transacted: bool = False, **settings: Any) -> Any:
        values = {"call_timeout": 20_000, "block_on_durable_send": False, **settings}
        locator = runner.locator(self.connectors(), LocatorSettings(**values))
        factory = runner.call(locator.create_session_factory)
        session = runner.call(factory.create_session, auto_commit_sends=not transacted, auto_commit_acks=not transacted)
        runner.call(session.start)
        return locator, session

    @contextlib.contextmanager
    def held(self, runner: Runner) -> Iterator[None]:
        """The reactor does nothing meanwhile: what is posted gathers, and how much may be posted does not change."""
        released = threading.Event()
        runner.post(released.wait, 10)
        try:
            yield
        finally:
            released.set()

    async def in_thread(self, function: Callable[[Runner], Any]) -> Any:
        return await deferToThread(function, Runner(None))


class EndTests(ThreadsTestCase):
    async def test_reactor_stops_while_threads_wait(self) -> None:
        def work(runner: Runner) -> Any:
            _, session = self.open(runner, reconnect_attempts=-1)
            consumer, waiting = runner.create_consumer(session, "q"), runner.create_consumer(session, "q")
            found: list[Any] = []

            def call() -> None:
                try:
                    runner.call(waiting.consumer.receive)
                except NotConnectedError:
                    found.append("not connected")

            threads = [threading.Thread(target=lambda: found.append(consumer.receive())), threading.Thread(target=call)]
            for thread in threads:
                thread.start()
            while not (waits_for_messages(threads[0]) and runner._outcomes):
                time.sleep(0.01)
            runner.reactor.callFromThread(runner.reactor.stop)
            for thread in threads:
                thread.join(20)
            self.assertRaises(NotConnectedError, runner.call, lambda: None)
            self.assertRaises(NotConnectedError, runner.post, lambda: None)
            return found

        self.assertEqual(sorted(map(str, await self.in_thread(work))), ["None", "not connected"])

    async def test_its_locators_ask_for_duplicate_ids_as_those_of_other_shells(self) -> None:
        def work(runner: Runner) -> object:
            return runner.locator(self.connectors()).id_cache

        self.assertIs(await self.in_thread(work), id_cache)

    async def test_calls_that_the_reactor_does_not_come_to(self) -> None:
        def work(runner: Runner) -> int:
            stopped, outcomes = threading.Event(), list[BaseException]()

            def stop() -> None:
                runner.reactor.stop()
                time.sleep(0.1)  # meanwhile others make calls
                stopped.set()

            def call() -> None:
                try:
                    while True:
                        runner.call(lambda: None)
                except NotConnectedError as error:
                    outcomes.append(error)

            threads = [threading.Thread(target=call) for _ in range(4)]
            for thread in threads:
                thread.start()
            runner.reactor.callFromThread(stop)
            for thread in threads:
                thread.join(20)
            return len(outcomes)

        self.assertEqual(await self.in_thread(work), 4)

    async def test_child_process_is_told(self) -> None:
        """Also while other threads hold the locks of the shell."""

        def work(runner: Runner) -> list[int]:
            _, session = self.open(runner)
            consumer = runner.create_consumer(session, "q")
            held = [consumer._buffer._condition, runner._lock]
            results = []
            for lock in held:
                with lock:
                    child = os.fork()
                    if child == 0:
                        try:
                            consumer.receive(100)
                        except MQError:
                            os._exit(42)
                        os._exit(1)
                results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            return results

        self.assertEqual(await self.in_thread(work), [42, 42])

    async def test_child_process_gets_a_runner_of_its_own(self) -> None:
        def work(_: Runner) -> int:
            import mqclient.blocking

            with mqclient.blocking._process.lock:
                child = os.fork()
                if child == 0:
                    os._exit(42 if get_runner().call(lambda: True) else 1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        self.assertEqual(await self.in_thread(work), 42)

    async def test_last_messages_of_a_program_that_just_ends(self) -> None:
        program = f"""
from mqclient.jms import ConnectionFactory
session = ConnectionFactory("tcp://127.0.0.1:{self.broker.port}", block_on_durable_send=False).create_connection().create_session()
producer = session.create_producer("q")
for number in range(300):
    producer.send(str(number))
"""

        def work() -> int:
            return subprocess.run([sys.executable, "-c", program], check=False, env=environment(), timeout=60).returncode

        count = self.broker.sent
        self.assertEqual(await deferToThread(work), 0)
        for _ in range(1000):
            if self.broker.sent - count >= 300:  # what has come last may still wait in the socket
                break
            await deferLater(reactor, 0.01)
        self.assertEqual(self.broker.sent - count, 300)


class PostedSendsTests(ThreadsTestCase):
    async def test_most_sends_do_not_wait(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner)
            producer = runner.sender(session).create_producer("q")
            calls, call = list[Any](), runner.call
            runner.call = lambda *args, **kwargs: calls.append(args) or call(*args, **kwargs)  # type: ignore[method-assign]
            for _ in range(500):
                producer.send(session.create_message())
            count = len(calls)
            producer.close()
            call(locator.close)
            return count

        self.assertLess(await self.in_thread(work), 50)
        self.assertEqual(self.broker.sent, 500)

    async def test_refused_message_is_reported_by_the_next_send(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, producer_window_size=2000)
            producer = runner.sender(session).create_producer("q")
            producer.send(session.create_message())
            self.broker.answers[ProducerRequestCredits] = lambda packet: ProducerFailCredits(packet.credits, packet.address)
            errors = []
            for _ in range(200):
                try:
                    producer.send(session.create_message())
                except AddressFullError as error:
                    errors.append(error)
            runner.call(locator.close)
            return len(errors)

        self.assertGreater(await self.in_thread(work), 100)

    async def test_commit_comes_after_all_sends_and_close_too(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, transacted=True, producer_window_size=1000)
            sender = runner.sender(session)
            producer = sender.create_producer("q")
            for _ in range(50):
                producer.send(session.create_message())
            sender.commit()
            names = [packet.NAME for _, packet in self.broker.received_packets if isinstance(packet, (SessionSend, Commit))]
            for _ in range(20):
                producer.send(session.create_message())
            sender.settle()
            runner.call(locator.close)
            return names

        self.assertEqual(await self.in_thread(work), ["SESS_SEND"] * 50 + ["SESS_COMMIT"])
        self.assertEqual(self.broker.sent, 70)

    async def test_commit_waits_for_sends_that_wait_for_credits(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, transacted=True, producer_window_size=2000)
            sender = runner.sender(session)
            producer = sender.create_producer("q")
            producer.send(session.create_message())
            self.broker.answers[ProducerRequestCredits] = lambda packet: None
            gate = producer._gate(None)
            with self.held(runner):
                gate.allowed += 100_000  # more than there is: as if another producer had used the credits
                for _ in range(50):
                    producer.send(session.create_message())
            done = threading.Event()
            thread = threading.Thread(target=lambda: (sender.commit(), done.set()))
            thread.start()
            waited = not done.wait(0.2)
            runner.call(session.flow.granted, "q", 100_000)
            thread.join(20)
            names = [packet.NAME for _, packet in self.broker.received_packets if isinstance(packet, (SessionSend, Commit))]
            runner.call(locator.close)
            return waited, names

        self.assertEqual(await self.in_thread(work), (True, ["SESS_SEND"] * 51 + ["SESS_COMMIT"]))

    async def test_rollback_drops_them(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, transacted=True, producer_window_size=2000)
            sender = runner.sender(session)
            producer = sender.create_producer("q")
            producer.send(session.create_message())
            self.broker.answers[ProducerRequestCredits] = lambda packet: None
            with self.held(runner):
                producer._gate(None).allowed += 100_000
                for _ in range(50):
                    producer.send(session.create_message())
            sender.rollback()
            before = self.broker.sent
            runner.call(session.flow.granted, "q", 100_000)
            sender.commit()
            runner.call(locator.close)
            return self.broker.sent - before

        self.assertEqual(await self.in_thread(work), 0)

    async def test_commit_reports_what_failed(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, transacted=True, producer_window_size=2000)
            sender = runner.sender(session)
            producer = sender.create_producer("q")
            producer.send(session.create_message())
            self.broker.answers[ProducerRequestCredits] = lambda packet: ProducerFailCredits(packet.credits, packet.address)
            message = session.create_message()
            message.body = bytes(3000)
            with self.held(runner):
                producer._gate(None).allowed += 11_000
                producer.send(message)
            self.assertRaises(AddressFullError, sender.commit)
            commits = self.broker.got(Commit)
            self.broker.answers[ProducerRequestCredits] = lambda packet: ProducerCredits(packet.credits, packet.address)
            sender.rollback()
            sender.commit()
            runner.call(locator.close)
            return commits

        self.assertEqual(await self.in_thread(work), [])

    async def test_connection_lost_between(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, transacted=True, reconnect_attempts=-1, retry_interval=20)
            sender = runner.sender(session)
            producer = sender.create_producer("q")
            for _ in range(30):
                producer.send(session.create_message())
            runner.call(lambda: None)
            from twisted.internet import reactor

            made: Any = reactor
            made.callFromThread(self.broker.cut)
            while not session.rollback_only:  # it has noticed
                time.sleep(0.01)
            for _ in range(30):
                producer.send(session.create_message())
            self.assertRaises(TransactionRolledBackError, sender.commit)
            producer.send(session.create_message())
            sender.commit()
            names = [packet.NAME for _, packet in self.broker.received_packets if isinstance(packet, (SessionSend, Commit))]
            runner.call(locator.close)
            return names[-2:]

        self.assertEqual(await self.in_thread(work), ["SESS_SEND", "SESS_COMMIT"])

    async def test_several_threads_with_sessions_of_their_own_and_one_shared(self) -> None:
        def work(runner: Runner) -> int:
            locator, session = self.open(runner)
            shared = runner.sender(session).create_producer("q")
            factory = session.factory
            errors: list[BaseException] = []

            def send() -> None:
                try:
                    own = runner.call(factory.create_session)
                    producer = runner.sender(own).create_producer("q")
                    for _ in range(100):
                        producer.send(own.create_message())
                        shared.send(session.create_message())
                    producer.close()
                except BaseException as error:  # shown by the test
                    errors.append(error)

            threads = [threading.Thread(target=send) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            shared.close()
            self.assertEqual(errors, [])
            runner.call(locator.close)
            return self.broker.sent

        self.assertEqual(await self.in_thread(work), 800)


class FilesTests(ThreadsTestCase):
    async def test_file_of_a_large_message_is_read_in_another_thread_than_the_reactors(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, min_large_message_size=1000)
            threads = set()

            class File(io.BytesIO):
                def read(self, size: int | None = -1) -> bytes:
                    threads.add(threading.get_ident())
                    return super().read(size)

            message = session.create_message()
            message.body_source = File(bytes(5000))
            runner.sender(session).create_producer("q").send(message)
            runner.call(locator.close)
            return threads, runner._thread_id

        threads, own = await self.in_thread(work)
        self.assertTrue(threads)
        self.assertNotIn(own, threads)
