"""Connections within the process: what is held back when one end is slower than the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import NotConnectedError
from mqclient.invm import BUFFERED_MAX, InVMAcceptor, InVMServers


class Thread:
    """Calls that wait until the thread gets its turn."""

    def __init__(self) -> None:
        self.calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def enter(self, function: Callable[..., object], *args: Any) -> None:
        self.calls.append((function, args))

    def run(self) -> None:
        while self.calls:
            function, args = self.calls.popleft()
            function(*args)


class End:
    """Either end: keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.bytes = 0

    def received(self, data: bytes) -> None:
        self.bytes += len(data)

    data_received = received

    def lost(self, reason: str) -> None:
        self.told.append(f"lost: {reason}")

    link_lost = lost

    def link_paused(self) -> None:
        self.told.append("paused")

    pause_output = link_paused

    def link_resumed(self) -> None:
        self.told.append("resumed")

    resume_output = link_resumed


class BackPressureTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.servers = InVMServers()
        self.client, self.server = Thread(), Thread()
        self.near, self.far = End(), End()
        self.transports: list[Any] = []

        def accept(transport: Any) -> End:
            self.transports.append(transport)
            return self.far

        number = self.servers.register(InVMAcceptor(self.server.enter, accept))
        self.link = self.servers.connect(number, self.client.enter, self.near)
        self.server.run()

    def run_both(self) -> None:
        while self.client.calls or self.server.calls:
            self.client.run()
            self.server.run()

    def test_client_that_is_quicker_than_the_broker(self) -> None:
        for _ in range(3):
            self.link.write(bytes(BUFFERED_MAX // 2))
        self.assertEqual(self.near.told, ["paused"])
        self.run_both()
        self.assertEqual(self.near.told, ["paused", "resumed"])

    def test_broker_that_does_not_want_to_read(self) -> None:
        [transport] = self.transports
        transport.pauseProducing()
        self.link.write(bytes(BUFFERED_MAX + 1))
        self.run_both()
        self.assertEqual((self.far.bytes, self.near.told), (0, ["paused"]))
        transport.resumeProducing()
        self.run_both()
        self.assertEqual((self.far.bytes, self.near.told), (BUFFERED_MAX + 1, ["paused", "resumed"]))

    def test_what_was_written_before_closing_arrives(self) -> None:
        [transport] = self.transports
        transport.pauseProducing()
        self.link.write(b"last words")
        self.link.close()
        self.run_both()
        self.assertEqual((self.far.bytes, self.far.told), (0, []))
        transport.resumeProducing()
        self.run_both()
        self.assertEqual((self.far.bytes, self.far.told, self.near.told), (10, ["lost: closed"], ["lost: closed"]))

    def test_client_that_is_slower_than_the_broker(self) -> None:
        [transport] = self.transports
        transport.writeSequence([bytes(BUFFERED_MAX), b"more"])
        self.assertEqual(self.far.told, ["paused"])
        self.run_both()
        self.assertEqual(self.far.told, ["paused", "resumed"])

    def test_nobody_there(self) -> None:
        self.assertRaises(NotConnectedError, self.servers.connect, 7, self.client.enter, self.near)
