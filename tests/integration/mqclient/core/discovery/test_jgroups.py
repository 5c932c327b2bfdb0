"""JGroups channels on the loopback interface: UDP, TCP with TCPPING and MPING, and a shared folder; by both shells."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

from twisted.trial.unittest import TestCase

from mqclient.asyncio import AsyncioRuntime
from mqclient.errors import NotConnectedError
from mqclient.protocol.discovery import JGroupsEndpoint
from mqclient.sockets import SocketRuntime
from tests.integration.mqclient.shells.test_datagrams import QuietRuntime, free_port, until


def free_range(size: int) -> int:
    """The first of so many TCP ports in a row that nobody has just now, and that no other process of tests begins to look at."""
    start = 20000 + os.getpid() % 2000 * 4
    for first in (*range(start, 30000, size), *range(20000, start, size)):
        found = [socket.socket() for _ in range(size)]
        try:
            for number, each in enumerate(found):
                each.bind(("127.0.0.1", first + number))
            return first
        except OSError:
            continue
        finally:
            for each in found:
                each.close()
    raise AssertionError("no free ports")


class QuietAsyncioRuntime(AsyncioRuntime):
    def log_warning(self, text: str) -> None:
        pass


class QuietSocketRuntime(SocketRuntime):
    def log_warning(self, text: str) -> None:
        pass


class ChannelTests(TestCase):
    timeout = 100  # s: for a busy machine

    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        (self.folder / "etc").mkdir(parents=True)
        self.ports = free_range(4)

    def endpoint(self, *protocols: str) -> JGroupsEndpoint:
        file = self.folder / "etc" / "stack.xml"
        file.write_text("<config>" + "".join(protocols) + "</config>")
        return JGroupsEndpoint("channel", str(file))

    def tcp(self, *finders: str) -> JGroupsEndpoint:
        return self.endpoint(f'<TCP bind_addr="127.0.0.1" bind_port="{self.ports}" port_range="3"/>', *finders)

    async def exchange(self, endpoint: JGroupsEndpoint) -> None:
        """Two members and one that only listens, each in a runtime of its own, until all have heard the others."""
        heard: list[list[bytes]] = [[], [], []]
        links: list[Any] = []
        for mine in heard:
            runtime = QuietRuntime()
            links.append(runtime.open_broadcast(endpoint, lambda data, source, mine=mine: mine.append(data)))
            self.addCleanup(links[-1].close)

        def all_heard() -> bool:
            for number in (0, 1):
                links[number].send(b"from %d" % number)
            return set(heard[0]) == {b"from 1"} and set(heard[1]) == {b"from 0"} and set(heard[2]) == {b"from 0", b"from 1"}

        await until(all_heard)

    async def test_udp(self) -> None:
        await self.exchange(
            self.endpoint(f'<UDP bind_addr="127.0.0.1" mcast_addr="239.255.77.9" mcast_port="{free_port()}"/>', "<PING/>", "<MERGE3/>")
        )

    async def test_tcpping(self) -> None:
        await self.exchange(self.tcp(f'<TCPPING initial_hosts="127.0.0.1[{self.ports}]" port_range="3"/>'))

    async def test_mping(self) -> None:
        await self.exchange(self.tcp(f'<MPING mcast_addr="239.255.77.10" mcast_port="{free_port()}"/>'))

    async def test_file_ping(self) -> None:
        await self.exchange(self.tcp('<FILE_PING location="../file.ping.dir"/>'))
        shown = sorted(path.name for path in (self.folder / "file.ping.dir" / "channel").iterdir())
        self.assertEqual(shown, [f"127.0.0.1_{self.ports + number}.mqbroker" for number in (0, 1)])

    async def test_no_free_port(self) -> None:
        endpoint = self.tcp(f'<TCPPING initial_hosts="127.0.0.1[{self.ports}]"/>')
        runtimes = [QuietRuntime() for _ in range(5)]
        for runtime in runtimes[:4]:
            self.addCleanup(runtime.open_broadcast(endpoint, None).close)
        error = self.assertRaises(NotConnectedError, runtimes[4].open_broadcast, endpoint, None)
        self.assertIn(f"no free port from {self.ports} to {self.ports + 3}", str(error))

    def test_plain_sockets(self) -> None:
        runtimes = [QuietSocketRuntime() for _ in range(2)]
        for runtime in runtimes:
            self.addCleanup(runtime.close)
        for endpoint in (
            self.tcp(f'<TCPPING initial_hosts="127.0.0.1[{self.ports}]" port_range="3"/>'),
            self.tcp('<FILE_PING location="../file.ping.dir"/>'),
        ):
            heard: list[bytes] = []
            sender = runtimes[0].open_broadcast(endpoint, None)
            listener = runtimes[1].open_broadcast(endpoint, lambda data, source, heard=heard: heard.append(data))
            for _ in range(500):
                sender.send(b"hello")
                for runtime in runtimes:
                    runtime.pump(0.005)
                if heard:
                    break
            self.assertEqual(set(heard), {b"hello"})
            listener.close()
            sender.close()
            for runtime in runtimes:
                runtime.pump(0.02)
        self.assertEqual(list((self.folder / "file.ping.dir" / "channel").iterdir()), [])

    def test_asyncio(self) -> None:
        asyncio.run(self.talk())

    async def talk(self) -> None:
        runtimes = [QuietAsyncioRuntime(asyncio.get_running_loop()) for _ in range(2)]
        for endpoint in (
            self.tcp(f'<TCPPING initial_hosts="127.0.0.1[{self.ports}]" port_range="3"/>'),
            self.tcp('<FILE_PING location="../file.ping.dir"/>'),
        ):
            heard: list[bytes] = []
            sender = runtimes[0].open_broadcast(endpoint, None)
            listener = runtimes[1].open_broadcast(endpoint, lambda data, source, heard=heard: heard.append(data))
            for _ in range(500):
                sender.send(b"hello")
                if heard:
                    break
                await asyncio.sleep(0.01)
            self.assertEqual(set(heard), {b"hello"})
            listener.close()
            sender.close()
            await asyncio.sleep(0.05)
        self.assertEqual(list((self.folder / "file.ping.dir" / "channel").iterdir()), [])
