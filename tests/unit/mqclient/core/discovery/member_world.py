"""Hosts with JGroups channels in one simulated network: multicast, TCP and a shared folder, on a fake clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from mqclient.core.discovery.broadcasting import Broadcasts
from mqclient.core.discovery.network import Multicast, Received
from mqclient.core.runtime import BroadcastLink, Link, LinkHandler
from mqclient.errors import NotConnectedError
from mqclient.protocol.discovery import Endpoint, JGroupsEndpoint
from mqclient.twisted import TwistedRuntime
from mqclient.wire.primitives import TransportConfiguration

DELAY = 0.001
"""Seconds that anything takes from one host to another."""


class MemberWorld:
    """``taken``: ports that nobody can have; ``silent``: hosts from which nothing leaves any more."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.files: dict[str, bytes] = {}
        self.folders: dict[str, dict[str, bytes]] = {}
        self.folder_problem: OSError | None = None
        self.groups: list[MemoryGroup] = []
        self.ports: dict[tuple[str, int], MemoryPort] = {}
        self.ends: list[MemoryEnd] = []
        self.taken: set[int] = set()
        self.silent: set[str] = set()
        self.dialled: list[tuple[str, str, int]] = []

    def host(self, address: str, **environment: str) -> Host:
        return Host(self, address, environment)

    def run(self, seconds: float) -> None:
        self.clock.pump([0.01] * round(seconds * 100))

    @property
    def connections(self) -> int:
        return sum(end.open for end in self.ends) // 2


class Host(TwistedRuntime):
    """A process on a machine of its own."""

    def __init__(self, world: MemberWorld, address: str, environment: Mapping[str, str]) -> None:
        super().__init__(world.clock, world.clock.seconds)
        self.world = world
        self.address = address
        self.environment = environment
        self.warnings: list[str] = []
        self.heard: list[bytes] = []
        self._broadcasts = Broadcasts(self, self)

    def join(self, channel: str = "channel", file: str = "etc/stack.xml") -> BroadcastLink:
        """Send and listen; what is heard goes to ``heard``."""
        return self.open_broadcast(JGroupsEndpoint(channel, file), lambda data, source: self.heard.append(data))

    def sender(self, channel: str = "channel", file: str = "etc/stack.xml") -> BroadcastLink:
        return self.open_broadcast(JGroupsEndpoint(channel, file), None)

    def open_broadcast(self, endpoint: Endpoint, received: Received | None) -> BroadcastLink:
        return self._broadcasts.open(endpoint, received)

    def log_warning(self, text: str) -> None:
        self.warnings.append(text)

    def log_failure(self, text: str, error: BaseException) -> Any:
        raise AssertionError(text) from error

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Link]:
        values = dict(connector.parameters)
        host, port = str(values["host"]), int(values["port"])
        self.world.dialled.append((self.address, host, port))
        listening = self.world.ports.get((host, port))
        result: Deferred[Any] = Deferred()
        self.world.clock.callLater(DELAY, self._connected, result, listening, handler, f"{host}:{port}")
        return result

    def _connected(self, result: Deferred[Any], listening: MemoryPort | None, handler: LinkHandler, peer: str) -> None:
        if listening is None or not listening.open:
            result.errback(NotConnectedError("refused"))
            return
        near, far = MemoryEnd(self, peer), MemoryEnd(listening.host, self.address)
        near.other, far.other = far, near
        near.handler = handler
        self.world.ends += [near, far]
        far.handler = listening.accepted(far)
        result.callback(near)

    # --- mqclient.core.discovery.network.Network

    def multicast(self, group: Multicast, received: Received | None) -> BroadcastLink:
        return MemoryGroup(self, group, received)

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> MemoryPort:
        if port in self.world.taken or (self.address, port) in self.world.ports:
            raise OSError(f"port {port} is taken")
        return MemoryPort(self, port, accepted)

    def local_address(self) -> str:
        return self.address

    def read_file(self, path: str) -> bytes:
        if path not in self.world.files:
            raise FileNotFoundError(path)
        return self.world.files[path]

    def read_folder(self, path: str, suffix: str, files_max: int, size_max: int) -> Awaitable[list[bytes]]:
        if self.world.folder_problem is not None:
            return fail(self.world.folder_problem)
        files = self.world.folders.get(path, {})
        return succeed([content for name, content in files.items() if name.endswith(suffix) and len(content) <= size_max][:files_max])

    def write_file(self, path: str, name: str, content: bytes) -> Awaitable[None]:
        if self.world.folder_problem is not None:
            return fail(self.world.folder_problem)
        self.world.folders.setdefault(path, {})[name] = content
        return succeed(None)

    def remove_file(self, path: str, name: str) -> None:
        self.world.folders.get(path, {}).pop(name, None)


class MemoryGroup:
    def __init__(self, host: Host, group: Multicast, received: Received | None) -> None:
        self.host = host
        self.group = group
        self.received = received
        host.world.groups.append(self)

    def send(self, data: bytes) -> None:
        world = self.host.world
        if self.host.address not in world.silent:
            for other in world.groups:
                if (other.group.address, other.group.port) == (self.group.address, self.group.port):
                    world.clock.callLater(DELAY, other.deliver, data, f"{self.host.address}:4000")

    def deliver(self, data: bytes, source: str) -> None:
        if self.received is not None and self in self.host.world.groups:
            self.received(data, source)

    def close(self) -> None:
        self.host.world.groups.remove(self)


class MemoryPort:
    def __init__(self, host: Host, port: int, accepted: Callable[[Link], LinkHandler]) -> None:
        self.host = host
        self.port = port
        self.accepted = accepted
        self.open = True
        host.world.ports[host.address, port] = self

    def close(self) -> None:
        self.open = False
        del self.host.world.ports[self.host.address, self.port]


class MemoryEnd:
    """One end of a connection."""

    def __init__(self, host: Host, peer: str) -> None:
        self.host = host
        self.peer = peer
        self.open = True
        self.sent = 0
        self.handler: LinkHandler
        self.other: MemoryEnd

    def write(self, data: bytes) -> None:
        world = self.host.world
        if self.open and self.host.address not in world.silent:
            self.sent += len(data)
            world.clock.callLater(DELAY, self.other.deliver, data)

    def deliver(self, data: bytes) -> None:
        if self.open:
            self.handler.data_received(data)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self.open:
            self.open = False
            self.host.world.clock.callLater(0, lambda: self.handler.link_lost("closed"))
            if self.host.address not in self.host.world.silent:
                self.host.world.clock.callLater(DELAY, self.other.lost)

    def lost(self) -> None:
        if self.open:
            self.open = False
            self.handler.link_lost("closed by the other side")
