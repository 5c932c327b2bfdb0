"""Multicast groups and ports on plain sockets."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from mqclient.core.discovery.network import Listener, Received
from mqclient.core.runtime import Link, LinkHandler
from mqclient.shells.host import HostNetwork, LateHandler, hear, listen_tcp
from mqclient.shells.sockets_links import LoopRuntime, SocketLink
from mqclient.shells.sockets_loop import READ, Loop

T = TypeVar("T")
_CONNECTIONS_PER_TURN = 16


class LinkingRuntime(LoopRuntime, Protocol):
    """The runtime of plain sockets, as its network sees it."""

    def add_link(self, link: SocketLink) -> SocketLink:
        """Close ``link`` with the runtime; gives it back."""


class SocketNetwork(HostNetwork):
    """Implements :class:`mqclient.core.discovery.network.Network`."""

    _runtime: LinkingRuntime

    def __init__(self, runtime: LinkingRuntime) -> None:
        self._runtime = runtime
        self._loop: Loop = runtime.loop

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> Listener:
        found = listen_tcp(host, port)
        return _Listener(self._runtime, found, accepted)

    def _beside(self, function: Callable[..., T], *args: object) -> Awaitable[T]:
        # No thread could wait for the disk here: these files are small.
        async def call() -> T:
            return function(*args)

        return self._runtime.spawn(call())

    def _watch(self, listening: socket.socket, received: Received) -> Callable[[], object]:
        self._loop.watch(listening, READ, lambda _: hear(self._runtime, listening, received))

        def stop() -> None:
            self._loop.forget(listening)
            listening.close()

        return stop


class _Listener:
    def __init__(self, runtime: LinkingRuntime, listening: socket.socket, accepted: Callable[[Link], LinkHandler]) -> None:
        self._runtime = runtime
        self._listening = listening
        self._accepted = accepted
        self.port: int = listening.getsockname()[1]
        runtime.loop.watch(listening, READ, self._accept)

    def close(self) -> None:
        self._runtime.loop.forget(self._listening)
        self._listening.close()

    def _accept(self, events: int) -> None:
        for _ in range(_CONNECTIONS_PER_TURN):
            if self._listening.fileno() < 0:
                return  # the accepting side has closed the socket
            try:
                connected, address = self._listening.accept()
            except OSError:
                return
            connected.setblocking(False)
            handler = LateHandler()
            link = self._runtime.add_link(SocketLink(self._runtime.loop, connected, str(address[0]), handler))
            handler.handler = self._accepted(link)
