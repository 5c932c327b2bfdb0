"""Whole processes that end without closing anything, and whose connection is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.embedded import EmbeddedBroker
from mqclient.core.api import QueueConfiguration
from mqclient.core.session.session import Session
from mqclient.sockets import SocketRuntime, server_locator
from tests.integration.mqclient.worker import MESSAGES

ROOT = Path(__file__).resolve().parents[3]
SHELLS = ("asyncio", "twisted", "sockets")
LIMIT = 60.0  # s: for a process on a busy machine


class ProcessTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = EmbeddedBroker(acceptor="tcp://127.0.0.1:0").start()
        self.addCleanup(self.broker.stop)
        self.url = self.broker.tcp_url
        self.runtime = SocketRuntime()
        self.addCleanup(self.runtime.close)
        locator = server_locator(self.url, runtime=self.runtime)
        factory = self.runtime.run(locator.create_session_factory(), LIMIT)
        self.session: Session = self.runtime.run(factory.create_session(), LIMIT)

    def process(self, shell: str, program: str, queue: str, parameters: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.integration.mqclient.worker", shell, program, self.url + parameters, queue]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def fill(self, queue: str) -> None:
        async def fill() -> None:
            await self.session.create_queue(QueueConfiguration(name=queue))
            producer = await self.session.create_producer(queue)
            for _ in range(MESSAGES):
                await producer.send(self.session.create_message())

        self.runtime.run(fill(), LIMIT)

    def left(self, queue: str) -> int:
        """Messages in a queue, once nobody consumes from it."""
        deadline = time.monotonic() + LIMIT
        while True:
            found: Any = self.runtime.run(self.session.queue_query(queue), LIMIT)
            if not found.consumer_count:
                return int(found.message_count)
            self.assertLess(time.monotonic(), deadline, "the consumer of a process that has ended stays")
            self.runtime.pump(0.05)

    def check_acknowledged(self, shell: str, parameters: str = "") -> None:
        queue = f"acknowledged.{shell}"
        self.fill(queue)
        self.assertEqual(self.left(queue), MESSAGES)
        process = self.process(shell, "acknowledge", queue, parameters)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(self.left(queue), 0)

    def test_what_was_acknowledged_and_awaited_does_not_come_again(self) -> None:
        for shell in SHELLS:
            self.check_acknowledged(shell)

    def test_nor_when_the_answer_of_the_broker_was_waited_for(self) -> None:
        self.check_acknowledged("twisted", "?blockOnAcknowledge=true")

    def test_a_loop_whose_connection_is_lost_ends_with_an_error(self) -> None:
        self.runtime.run(self.session.create_queue(QueueConfiguration(name="empty")), LIMIT)
        processes = {shell: self.process(shell, "wait", "empty") for shell in SHELLS}
        for process in processes.values():
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "waiting\n")
        self.runtime.close()
        self.broker.stop()
        for shell, process in processes.items():
            _, errors = process.communicate(timeout=LIMIT)
            self.assertNotEqual(process.returncode, 0, shell)
            self.assertIn("the session is closed", errors)
