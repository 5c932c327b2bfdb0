"""Multicast groups and ports under asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from mqclient.core.discovery.network import Listener, Multicast, Received
from mqclient.core.runtime import BroadcastLink, Link, LinkHandler, Runtime
from mqclient.shells.datagrams import DATAGRAM_BUFFER, MulticastLink, listening_socket, local_address
from mqclient.shells.shared_folder import read_files, remove_file, write_file

_DATAGRAMS_PER_TURN = 16


class AsyncioNetwork:
    """Implements :class:`mqclient.core.discovery.broadcasting.Network`."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def multicast(self, group: Multicast, received: Received | None) -> BroadcastLink:
        listening: socket.socket | None = None
        if received is not None:
            listening = listening_socket(group)
            self._loop.add_reader(listening, self._read, listening, received)
        link = MulticastLink(self._runtime, group, lambda: self._stop(listening))
        if received is None:
            link.open_sending()
        return link

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> Listener:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.setblocking(False)
            found.bind((host, port))
            found.listen()
        except OSError:
            found.close()
            raise
        return _Listener(self._loop, found, self._runtime.spawn(self._loop.create_server(lambda: _Accepted(accepted), sock=found)))

    def local_address(self) -> str:
        return local_address()

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def read_folder(self, path: str, suffix: str, files_max: int, size_max: int) -> Awaitable[list[bytes]]:
        return self._loop.run_in_executor(None, read_files, path, suffix, files_max, size_max)

    def write_file(self, path: str, name: str, content: bytes) -> Awaitable[None]:
        return self._loop.run_in_executor(None, write_file, path, name, content)

    def remove_file(self, path: str, name: str) -> None:
        # At once: when the process ends no thread would do it any more.
        with contextlib.suppress(OSError):
            remove_file(path, name)

    def _read(self, listening: socket.socket, received: Received) -> None:
        for _ in range(_DATAGRAMS_PER_TURN):
            if listening.fileno() < 0:
                return  # closed by who received
            try:
                data, address = listening.recvfrom(DATAGRAM_BUFFER)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._runtime.log_failure("a datagram could not be received", error)
                return
            try:
                received(data, f"{address[0]}:{address[1]}")
            except Exception as error:
                self._runtime.log_failure("a datagram could not be handled", error)

    def _stop(self, listening: socket.socket | None) -> None:
        if listening is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(listening)
            listening.close()


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
