"""The loop, the tasks and the links of the shell of plain sockets, over socket pairs whose other end lives in the same loop."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.shells.sockets_links import UNSENT_HIGH, UNSENT_LOW, SocketLink
from mqclient.shells.sockets_loop import READ_BUFFER
from mqclient.sockets import SocketRuntime


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
