"""Multicast groups and ports on plain sockets."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from mqclient.core.discovery.network import Listener, Multicast, Received
from mqclient.core.runtime import BroadcastLink, Link, LinkHandler
from mqclient.shells.datagrams import DATAGRAM_BUFFER, MulticastLink, listening_socket, local_address
from mqclient.shells.shared_folder import read_files, remove_file, write_file
from mqclient.shells.sockets_links import LoopRuntime, SocketLink
from mqclient.shells.sockets_loop import READ, Loop

_PER_TURN = 16


class LinkingRuntime(LoopRuntime, Protocol):
    """The runtime of plain sockets, as its network sees it."""

    def add_link(self, link: SocketLink) -> SocketLink:
        """Close ``link`` with the runtime; gives it back."""


class SocketNetwork:
    """Implements :class:`mqclient.core.discovery.network.Network`."""

    def __init__(self, runtime: LinkingRuntime) -> None:
        self._runtime = runtime
        self._loop: Loop = runtime.loop

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def multicast(self, group: Multicast, received: Received | None) -> BroadcastLink:
        listening: socket.socket | None = None
        if received is not None:
            listening = listening_socket(group)
            heard, told = listening, received
            self._loop.watch(listening, READ, lambda _: self._hear(heard, told))
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
        return _Listener(self._runtime, found, accepted)

    def local_address(self) -> str:
        return local_address()

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    # There is no thread that could wait for the disk: these files are small.

    def read_folder(self, path: str, suffix: str, files_max: int, size_max: int) -> Awaitable[list[bytes]]:
        async def read() -> list[bytes]:
            return read_files(path, suffix, files_max, size_max)

        return self._runtime.spawn(read())

    def write_file(self, path: str, name: str, content: bytes) -> Awaitable[None]:
        async def write() -> None:
            write_file(path, name, content)

        return self._runtime.spawn(write())

    def remove_file(self, path: str, name: str) -> None:
        with contextlib.suppress(OSError):
            remove_file(path, name)

    def _hear(self, listening: socket.socket, received: Received) -> None:
        for _ in range(_PER_TURN):
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
            self._loop.forget(listening)
            listening.close()


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
        for _ in range(_PER_TURN):
            if self._listening.fileno() < 0:
                return  # closed by who accepted
            try:
                connected, address = self._listening.accept()
            except OSError:
                return
            connected.setblocking(False)
            handler = _Accepted()
            link = self._runtime.add_link(SocketLink(self._runtime.loop, connected, str(address[0]), handler))
            handler.handler = self._accepted(link)


class _Accepted:
    """Passes on to the handler, which is made for its link and so after it."""

    def __init__(self) -> None:
        self.handler: LinkHandler | None = None

    def data_received(self, data: bytes) -> None:
        if self.handler is not None:
            self.handler.data_received(data)

    def link_lost(self, reason: str) -> None:
        if self.handler is not None:
            self.handler.link_lost(reason)

    def link_paused(self) -> None:
        if self.handler is not None:
            self.handler.link_paused()

    def link_resumed(self) -> None:
        if self.handler is not None:
            self.handler.link_resumed()
