"""Multicast groups and ports under asyncio."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from mqclient.core.discovery.network import Listener, Received
from mqclient.core.runtime import Link, LinkHandler, Runtime
from mqclient.shells.host import HostNetwork, hear, listen_tcp

T = TypeVar("T")


class AsyncioNetwork(HostNetwork):
    """Implements :class:`mqclient.core.discovery.network.Network`."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> Listener:
        found = listen_tcp(host, port)
        return _Listener(self._loop, found, self._runtime.spawn(self._loop.create_server(lambda: _Accepted(accepted), sock=found)))

    def _beside(self, function: Callable[..., T], *args: object) -> Awaitable[T]:
        return self._loop.run_in_executor(None, function, *args)

    def _watch(self, listening: socket.socket, received: Received) -> Callable[[], object]:
        self._loop.add_reader(listening, hear, self._runtime, listening, received)

        def stop() -> None:
            if not self._loop.is_closed():
                self._loop.remove_reader(listening)
            listening.close()

        return stop


class _Listener:
    def __init__(self, loop: asyncio.AbstractEventLoop, listening: socket.socket, serving: Awaitable[asyncio.Server]) -> None:
        self._loop = loop
        self._serving = cast("asyncio.Task[asyncio.Server]", serving)
        self.port: int = listening.getsockname()[1]

    def close(self) -> None:
        if not self._loop.is_closed():
            self._serving.add_done_callback(lambda task: task.result().close())


class _Accepted(asyncio.Protocol):
    """An accepted connection; implements :class:`mqclient.core.runtime.Link` too."""

    def __init__(self, accepted: Callable[[Link], LinkHandler]) -> None:
        self._accepted = accepted
        self._handler: LinkHandler | None = None
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = str(transport.get_extra_info("peername")[0])
        self._handler = self._accepted(self)

    def data_received(self, data: bytes) -> None:
        if self._handler is not None:
            self._handler.data_received(data)

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.link_paused()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.link_resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.link_lost(str(exc) if exc is not None else "the connection was closed")

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
