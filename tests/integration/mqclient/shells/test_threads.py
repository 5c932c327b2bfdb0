"""The thread behind blocking calls."""

from __future__ import annotations

import os
import threading
from typing import Any

from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from mqclient.blocking import Runner, get_runner
from mqclient.errors import IllegalStateError
from tests.integration.mqclient.test_shells import BlockingCase


class ThreadTests(BlockingCase):
    async def test_listener_runs_in_the_dispatcher(self) -> None:
        def work(runner: Runner) -> Any:
            locator, session = self.open(runner, consumer_window_size=0)
            producer = runner.call(session.create_producer, "q")
            consumer = runner.create_consumer(session, "q")
            dispatcher = runner.dispatcher(session)
            enough, threads = threading.Event(), []

            def listen(received: Any) -> None:
                threads.append(dispatcher.in_thread())
                consumer.acknowledge(received)
                if len(threads) == 1:
                    raise RuntimeError("the application's")
                enough.set()

            consumer.set_message_handler(listen, dispatcher)
            for _ in range(2):
                runner.call(producer.send, session.create_message())
            assert enough.wait(20)
            self.assertRaises(IllegalStateError, consumer.receive)
            assert dispatcher.wait_idle(20_000)
            assert dispatcher.close(20_000)
            runner.call(locator.close)
            return threads

        with self.assertLogs("mqclient.shells.threads", "ERROR") as logs:
            self.assertEqual(await self.in_thread(work), [[True, True]] * 2)
        self.assertEqual(["a listener failed" in line for line in logs.output], [True, True])

    async def test_not_in_the_reactors_thread(self) -> None:
        runner = Runner(reactor)
        await deferToThread(runner.call, lambda: None)
        self.assertRaises(IllegalStateError, runner.call, lambda: None)

        def work(own: Runner) -> Any:
            return own.call(lambda: self.assertRaises(IllegalStateError, own.call, lambda: None) and True)

        self.assertEqual(len(await self.in_thread(work)), 2)

    async def test_runner_of_the_process(self) -> None:
        runner = get_runner()
        self.assertIs(runner, get_runner())
        self.assertTrue(runner.usable)

    async def test_fork_is_noticed(self) -> None:
        def work(runner: Runner) -> int:
            runner.call(lambda: None)
            child = os.fork()
            if child == 0:
                try:
                    runner.call(lambda: None)
                except IllegalStateError:
                    os._exit(42)
                os._exit(1)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        self.assertEqual(await deferToThread(work, Runner(None)), 42)
