"""Brokers that do not hear each other, with sockets of this process in their place."""

from __future__ import annotations

import os
import socket
import unittest
from types import SimpleNamespace
from typing import Any, cast

from mqbroker.cli.demo.proxy import Proxy
from tests.integration.cli.demo.test_proxy import connect_through
from tests.integration.ha.failures.network import Network, both_ways, socket_of
from tests.interop.cutting_proxy import CuttingProxy

LINE = "   1: 0100007F:{:04X} 0100007F:{:04X} 01 00000000:00000000 02:000A 00000000     0        0 {} 2 0000"


class ProcTests(unittest.TestCase):
    def test_a_socket_is_found_by_both_ports(self) -> None:
        lines = [LINE.format(5, 7, "one"), LINE.format(7, 5, "two"), LINE.format(5, 8, "three")]
        self.assertEqual([socket_of(7, 5, lines), socket_of(5, 8, lines)], ["two", "three"])
        self.assertIsNone(socket_of(8, 5, lines))


class NetworkTests(unittest.TestCase):
    """Broker 1 is reached through the proxy; this process is broker 0."""

    def setUp(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.server.close)
        self.proxy = CuttingProxy(self.server.getsockname()[1])
        self.addCleanup(self.proxy.close)
        away = cast(Proxy, SimpleNamespace(silence_of=None, port=0, cut=lambda: None))
        self.processes = {0: os.getpid()}
        self.network = Network([away, self.proxy], lambda: self.processes)
        self.addCleanup(self.network.heal, True)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        return connect_through(self, self.proxy, self.server)

    def assert_silent(self, end: Any) -> None:
        end.settimeout(0.1)
        self.assertRaises(TimeoutError, end.recv, 10)
        end.settimeout(10)

    def test_bytes_and_the_end_come_later(self) -> None:
        near, far = self.connect()
        self.network.cut(both_ways([(1, 0)]))
        near.sendall(b"late")
        near.close()
        self.assert_silent(far)
        self.network.heal(lost=False)
        self.assertEqual(far.recv(10), b"late")
        self.assertEqual(far.recv(10), b"")

    def test_a_cut_connection_ends_without_what_was_on_the_way(self) -> None:
        near, far = self.connect()
        self.network.cut([(0, 1)])
        far.sendall(b"lost")
        self.assert_silent(near)
        self.network.heal(lost=True)
        self.assertEqual(near.recv(10), b"")

    def test_a_new_connection_gets_nowhere_until_the_network_is_healed(self) -> None:
        self.network.cut([(0, 1)])
        near = socket.create_connection(("127.0.0.1", self.proxy.port))
        self.addCleanup(near.close)
        self.server.settimeout(0.1)
        self.assertRaises(TimeoutError, self.server.accept)
        self.network.heal(lost=False)
        self.server.settimeout(10)
        self.server.accept()[0].close()

    def test_one_way_only_what_the_other_one_has_dialled_gets_through(self) -> None:
        self.network.cut([(1, 0)])
        near, far = self.connect()
        near.sendall(b"now")
        self.assertEqual(far.recv(10), b"now")

    def test_others_get_through(self) -> None:
        self.processes.clear()
        self.network.cut([(0, 1)])
        near, far = self.connect()
        near.sendall(b"now")
        self.assertEqual(far.recv(10), b"now")
