"""Home clusters of processes, for tests over loopback sockets."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms import AcknowledgeMode, ConnectionFactory, JMSConsumer, JMSContext
from tests.integration.brokers import ACTIVE, Broker
from tests.integration.cluster.nodes import ReservedPort

SECONDS = 60.0
"""How long a test waits for what must come, on a busy machine."""


class Processes:
    """``count`` members with empty stores; a killed one can be started again."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-imq-"))
        self.reserved = [ReservedPort() for _ in range(count)]
        self.running: dict[int, Broker] = {}
        for number in range(count):
            (self.folder / str(number)).mkdir()
        self.begin()

    def begin(self) -> None:
        """Start all, up to their links."""
        self.restore()

    def restore(self) -> None:
        """Start those that do not run side by side, up to their links."""
        missing = [number for number in range(self.count) if number not in self.running]
        with ThreadPoolExecutor(self.count) as pool:
            list(pool.map(self.start, missing))
        for number in missing:
            self.running[number].wait_for("is linked", self.count - 1)

    def port(self, number: int) -> str:
        return str(self.reserved[number].number)

    def announced(self, number: int) -> str:
        """The port at which the others look for a member."""
        return self.port(number)

    def url(self, number: int, options: str) -> str:
        return f"tcp://127.0.0.1:{self.port(number)}?{options}"

    def start(self, number: int, line: str = ACTIVE) -> None:
        """Start a member, and wait until it has written ``line``."""
        folder = self.folder / str(number)
        ports = [self.announced(each) for each in range(self.count)]
        self.running[number] = Broker([sys.executable, "-m", *self.program(number, str(folder)), *ports], folder, line)

    def program(self, number: int, folder: str) -> list[str]:
        """The module of a member, and its arguments before the ports."""
        return ["tests.integration.imq.member", str(number), folder]

    def kill(self, number: int) -> None:
        self.running.pop(number).kill()

    def restart(self, number: int) -> None:
        """Start a killed one again, up to its links."""
        self.start(number)
        self.running[number].wait_for("is linked", len(self.running) - 1)

    def close(self) -> None:
        with ThreadPoolExecutor(self.count) as pool:
            list(pool.map(Broker.stop, self.running.values()))
        for port in self.reserved:
            port.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Members(SynchronousTestCase):
    """Tests with three members."""

    def make_members(self) -> Processes:
        members = Processes()
        self.addCleanup(members.close)
        return members

    def setUp(self) -> None:
        self.members = self.make_members()
        self.contexts: list[JMSContext] = []
        self.addCleanup(self._close_contexts)

    def _close_contexts(self) -> None:
        for context in self.contexts:
            context.close()

    def url(self, number: int, options: str = "") -> str:
        return self.members.url(number, f"reconnectAttempts=0&useTopologyForLoadBalancing=false{options}")

    def context(self, number: int, mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE, options: str = "") -> JMSContext:
        """A session at a member."""
        context = ConnectionFactory(self.url(number, options)).create_context(session_mode=mode)
        self.contexts.append(context)
        return context

    def abandon(self, context: JMSContext) -> None:
        """Its broker is gone.  The context is closed in the end: it would ask for its broker at a port that is another test's by then."""
        self.contexts.remove(context)
        self.addCleanup(context.close)

    def texts(self, consumer: JMSConsumer, count: int) -> list[str | None]:
        """So many messages, in order."""
        found = []
        for number in range(count):
            message = consumer.receive(int(SECONDS * 1000))
            assert message is not None, f"only {number} of {count} messages came: {found[-3:]}"
            found.append(message.text)  # type: ignore[union-attr]
        return found

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"in {SECONDS:g} s it did not come to this: {what}")
            time.sleep(0.05)
