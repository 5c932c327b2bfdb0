"""The proxy of the demonstrations, with sockets of this process."""

from __future__ import annotations

import socket
from unittest import TestCase

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.proxy import Proxy, own_ports


def connect_through(test: TestCase, proxy: Proxy, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both ends of a new connection."""
    near = socket.create_connection(("127.0.0.1", proxy.port))
    far, _ = server.accept()
    for end in (near, far):
        end.settimeout(10)
        test.addCleanup(end.close)
    return near, far


class ProxyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.server.close)
        self.silent = False
        self.dialled: list[int] = []
        self.proxy = Proxy(self.server.getsockname()[1], self.silence_of)
        self.addCleanup(self.proxy.close)

    def silence_of(self, port: int) -> object:
        self.dialled.append(port)
        return lambda: self.silent

    def connect(self) -> tuple[socket.socket, socket.socket]:
        return connect_through(self, self.proxy, self.server)

    def test_what_comes_in_a_silence_comes_later_and_so_does_the_end(self) -> None:
        near, far = self.connect()
        self.assertEqual(self.dialled, [near.getsockname()[1]])
        self.silent = True
        near.sendall(b"late")
        near.close()
        far.settimeout(0.1)
        self.assertRaises(TimeoutError, far.recv, 10)
        far.settimeout(10)
        self.silent = False
        self.assertEqual((far.recv(10), far.recv(10)), (b"late", b""))

    def test_it_can_refuse_and_listens_again_on_the_same_port(self) -> None:
        near, _ = self.connect()
        port = self.proxy.port
        self.proxy.refuse()
        self.assertEqual(near.recv(1), b"")
        self.assertRaises(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", port))
        self.proxy.listen()
        self.assertEqual(self.proxy.port, port)
        near, far = self.connect()
        far.sendall(b"back")
        self.assertEqual(near.recv(10), b"back")

    def test_a_target_that_is_away_ends_the_connection(self) -> None:
        self.server.close()
        near = socket.create_connection(("127.0.0.1", self.proxy.port))
        self.addCleanup(near.close)
        near.settimeout(10)
        self.assertEqual(near.recv(1), b"")

    def test_own_ports(self) -> None:
        near, far = self.connect()
        ports = own_ports()
        self.assertLessEqual({near.getsockname()[1], far.getsockname()[1], self.proxy.port}, ports)
        port = near.getsockname()[1]
        near.close()
        self.assertNotIn(port, own_ports())
