"""Multicast on the loopback interface, by both shells."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from mqclient.asyncio import AsyncioRuntime
from mqclient.core.discovery.network import Multicast
from mqclient.errors import NotConnectedError
from mqclient.protocol.discovery import UdpEndpoint
from mqclient.shells.datagrams import listening_socket, sending_socket
from mqclient.twisted import TwistedRuntime

GROUP = "239.255.77.7"


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class QuietRuntime(TwistedRuntime):
    def __init__(self) -> None:
        super().__init__(reactor)
        self.warnings: list[str] = []

    def log_warning(self, text: str) -> None:
        self.warnings.append(text)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        await deferLater(reactor, 0.01, lambda: None)  # type: ignore[arg-type]
    raise AssertionError("it did not happen within 30 s")


class TwistedTests(TestCase):
    def setUp(self) -> None:
        self.runtime = QuietRuntime()
        self.endpoint = UdpEndpoint(GROUP, free_port(), "127.0.0.1")

    def open(self, endpoint: UdpEndpoint | None = None, listen: bool = True) -> tuple[Any, list[tuple[bytes, str]]]:
        heard: list[tuple[bytes, str]] = []
        received = (lambda data, source: heard.append((data, source))) if listen else None
        link = self.runtime.open_broadcast(endpoint or self.endpoint, received)
        self.addCleanup(link.close)
        return link, heard

    async def test_what_one_sends_all_hear_from_a_port_of_the_range(self) -> None:
        _, one = self.open()
        _, other = self.open()
        sender, _ = self.open(listen=False)
        sender.send(b"x" * 60000)
        await until(lambda: one and other)
        self.assertEqual(one[0][0], b"x" * 60000)
        host, _, port = one[0][1].rpartition(":")
        self.assertEqual(host, "127.0.0.1")
        self.assertTrue(3000 <= int(port) <= 3999, port)
        self.assertEqual(one, other)

    async def test_another_group_on_the_same_port_is_not_heard(self) -> None:
        _, heard = self.open()
        _, others = self.open(UdpEndpoint("239.255.77.8", self.endpoint.group_port, "127.0.0.1"))
        sender, _ = self.open(UdpEndpoint("239.255.77.8", self.endpoint.group_port, "127.0.0.1"), listen=False)
        sender.send(b"for others")
        await until(lambda: others)
        self.assertEqual(heard, [])

    async def test_the_port_to_send_from_can_be_chosen(self) -> None:
        port = free_port()
        _, heard = self.open()
        sender, _ = self.open(UdpEndpoint(GROUP, self.endpoint.group_port, "127.0.0.1", port), listen=False)
        sender.send(b"hello")
        await until(lambda: heard)
        self.assertEqual(heard, [(b"hello", f"127.0.0.1:{port}")])

    async def test_nothing_is_heard_or_sent_after_close(self) -> None:
        link, heard = self.open()
        sender, _ = self.open()
        link.close()
        link.close()
        link.send(b"late")
        sender.send(b"hello")
        await deferLater(reactor, 0.05, lambda: None)  # type: ignore[arg-type]
        self.assertEqual(heard, [])

    def test_an_interface_that_is_not_there(self) -> None:
        strange = UdpEndpoint(GROUP, self.endpoint.group_port, "203.0.113.7")
        self.assertIn("203.0.113.7", str(self.assertRaises(NotConnectedError, self.runtime.open_broadcast, strange, lambda *_: None)))
        self.assertRaises(NotConnectedError, self.runtime.open_broadcast, strange, None)

    def test_a_series_of_failures_is_told_once(self) -> None:
        sender, _ = self.open()
        for _ in range(3):
            sender.send(b"x" * 70000)
        self.assertEqual(len(self.runtime.warnings), 1)
        self.assertIn(GROUP, self.runtime.warnings[0])
        sender.send(b"x")
        sender.send(b"x" * 70000)
        self.assertEqual(len(self.runtime.warnings), 2)

    def test_all_ports_taken(self) -> None:
        taken = sending_socket(Multicast(GROUP, 1, "127.0.0.1"), lambda limit: 7)
        self.addCleanup(taken.close)
        self.assertEqual(taken.getsockname(), ("127.0.0.1", 3007))
        self.assertIn("no free port", str(self.assertRaises(OSError, sending_socket, Multicast(GROUP, 1, "127.0.0.1"), lambda limit: 7)))

    def test_datagrams_stay_in_their_network_and_come_back(self) -> None:
        found = sending_socket(Multicast(GROUP, 1, "127.0.0.1"), lambda limit: 11)
        self.addCleanup(found.close)
        self.assertEqual(found.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL), 1)
        self.assertEqual(found.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP), 1)

    def test_where_the_group_cannot_be_bound_every_address_is(self) -> None:
        binds: list[Any] = []

        class Picky(socket.socket):
            def bind(self, address: Any) -> None:
                binds.append(address)
                if address[0]:
                    raise OSError("not here")
                super().bind(address)

        self.patch(socket, "socket", Picky)
        listening_socket(Multicast(GROUP, self.endpoint.group_port, "127.0.0.1")).close()
        self.assertEqual([address[0] for address in binds], [GROUP, ""])


class AsyncioTests(TestCase):
    def test_what_one_sends_all_hear(self) -> None:
        asyncio.run(self.talk())

    async def talk(self) -> None:
        runtime = AsyncioRuntime(asyncio.get_running_loop())
        endpoint = UdpEndpoint(GROUP, free_port(), "127.0.0.1")
        one: list[bytes] = []
        other: list[bytes] = []
        links = [runtime.open_broadcast(endpoint, lambda data, source, heard=heard: heard.append(data)) for heard in (one, other)]
        sender = runtime.open_broadcast(endpoint, None)
        sender.send(b"hello")
        for _ in range(500):
            if one and other:
                break
            await asyncio.sleep(0.01)
        self.assertEqual((one, other), ([b"hello"], [b"hello"]))
        for link in (*links, sender):
            link.close()
            link.close()
        self.assertRaises(NotConnectedError, runtime.open_broadcast, UdpEndpoint(GROUP, 9876, "203.0.113.7"), None)
