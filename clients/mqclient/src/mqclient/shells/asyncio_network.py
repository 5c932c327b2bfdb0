"""Links, multicast groups and ports under asyncio."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from mqclient.core.discovery.network import Listener, Received
from mqclient.core.runtime import Link, LinkHandler, Runtime
from mqclient.shells.host import HostNetwork, LateHandler, hear, listen_tcp

T = TypeVar("T")


class AsyncioLink:
    """Implements :class:`mqclient.core.runtime.Link`; all that is written in one turn of the loop leaves together."""

    __slots__ = ("_protocol", "peer")

    def __init__(self, protocol: LinkProtocol, peer: str) -> None:
        self._protocol = protocol
        self.peer = peer

    def write(self, data: bytes) -> None:
        self._protocol.write(data)

    def close(self) -> None:
        self._protocol.flush()
        self._protocol.transport.close()

    def abort(self) -> None:
        self._protocol.transport.abort()


class LinkProtocol(asyncio.Protocol):
    """The end of a link that asyncio knows."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: LinkHandler, no_delay: bool) -> None:
        self._loop = loop
        self._handler = handler
        self._no_delay = no_delay
        self._pending: list[bytes] = []
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self._no_delay:
            # asyncio itself switches the delay off.
            self.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._handler.link_lost(str(exc) if exc is not None else "the connection was closed")

    def pause_writing(self) -> None:
        self._handler.link_paused()

    def resume_writing(self) -> None:
        self._handler.link_resumed()

    def write(self, data: bytes) -> None:
        if self._lost:
            return
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append(data)

    def flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending and not self._lost:
            self.transport.write(b"".join(pending))


class AsyncioNetwork(HostNetwork):
    """Implements :class:`mqclient.core.discovery.network.Network`."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> Listener:
        found = listen_tcp(host, port)
        return _Listener(
            self._loop, found, self._runtime.spawn(self._loop.create_server(lambda: _Accepted(self._loop, accepted), sock=found))
        )

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


class _Accepted(LinkProtocol):
    """An accepted connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, accepted: Callable[[Link], LinkHandler]) -> None:
        self._late = LateHandler()
        super().__init__(loop, self._late, no_delay=True)
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._late.handler = self._accepted(AsyncioLink(self, str(transport.get_extra_info("peername")[0])))
