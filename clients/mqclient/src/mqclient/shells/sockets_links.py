"""Connections over plain sockets that never block: opening them, with TLS or without, and the link that the core writes to."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Protocol

from mqclient.core.connection.connection import describe
from mqclient.core.runtime import LargeFrames, LinkHandler, Runtime, wait_at_most
from mqclient.shells.host import tcp_target, unreachable
from mqclient.shells.sockets_loop import READ, WRITE, Loop
from mqclient.wire.primitives import TransportConfiguration

UNSENT_HIGH = 1024 * 1024
"""Bytes that were written and the system has not taken yet, from which on the core is asked to write no more."""
UNSENT_LOW = 256 * 1024
"""Bytes of these at which the core is told to go on."""
READ_PER_TURN = 16 * 1024 * 1024
"""Bytes that one connection may bring in a turn of the loop, so that others get theirs."""
_AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LoopRuntime(Runtime, Protocol):
    """The runtime of plain sockets, as its links see it."""

    loop: Loop


class SocketLink:
    """Implements :class:`mqclient.core.runtime.Link`; all that is written in one turn of the loop leaves together."""

    def __init__(self, loop: Loop, connected: socket.socket, peer: str, handler: LinkHandler) -> None:
        self.peer = peer
        self._loop = loop
        self._socket: socket.socket | None = connected
        self._tls = isinstance(connected, ssl.SSLSocket)
        self._handler = handler
        self._large = handler if isinstance(handler, LargeFrames) else None
        self._pending: list[bytes] = []
        self._unsent: memoryview | None = None
        self._size = 0
        self._events = READ
        self._paused = False
        self._closing = False
        loop.watch(connected, READ, self._happened)
        if self._tls:
            # Data that came along with the end of the handshake is not in the system's buffer any more, and would not be noticed.
            loop.call_soon(self._read)

    @property
    def lingering(self) -> bool:
        """Was it closed while the peer has not taken all that was written?"""
        return self._closing and self._socket is not None

    @property
    def lost(self) -> bool:
        return self._socket is None

    # --- writing

    def write(self, data: bytes) -> None:
        if self._socket is None or self._closing:
            return
        if not self._pending and self._unsent is None:
            self._loop.call_last(self._send)
        self._pending.append(data)
        self._size += len(data)
        if self._size >= UNSENT_HIGH and not self._paused:
            self._send()
            if self._size >= UNSENT_HIGH and self._socket is not None:
                self._paused = True
                self._handler.link_paused()

    def _send(self) -> None:
        while self._socket is not None:
            unsent = self._unsent
            if unsent is None:
                if not self._pending:
                    break
                data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
                self._pending.clear()
                unsent = memoryview(data)
            try:
                sent = self._socket.send(unsent)
            except _AGAIN:
                self._unsent = unsent
                self._watch(READ | WRITE)
                return
            except OSError as error:
                self._lose(str(error))
                return
            self._size -= sent
            self._unsent = unsent[sent:] if sent < len(unsent) else None
        self._watch(READ)
        if self._closing:
            self._end()

    # --- reading

    def _happened(self, events: int) -> None:
        if events & READ:
            self._read()
        if events & WRITE and self._socket is not None:
            self._send()
            if self._paused and self._size <= UNSENT_LOW and not self._closing and not self.lost:
                self._paused = False
                self._handler.link_resumed()

    def _read(self) -> None:
        left = READ_PER_TURN
        while self._socket is not None:
            room = self._large.room() if self._large is not None else None
            buffer = self._loop.buffer if room is None else room
            try:
                size = self._socket.recv_into(buffer)
            except _AGAIN:
                return
            except OSError as error:
                self._lose(str(error))
                return
            if not size:
                self._lose("the peer has closed the connection")
                return
            self._deliver(None if room is not None else bytes(buffer[:size]), size)
            left -= size
            if left <= 0:
                if self._tls:
                    self._loop.call_soon(self._read)  # a part may be decrypted already, and would not be noticed
                return
            if size < len(buffer) and not self._tls:
                return

    def _deliver(self, data: bytes | None, size: int) -> None:
        try:
            if data is not None:
                self._handler.data_received(data)
            elif self._large is not None:
                self._large.room_filled(size)
        except Exception as error:  # a defect: part of the data may not have been handled
            self._loop.failed(f"what {self.peer} sent could not be handled", error)
            self._lose(f"internal error: {error!r}")

    # --- ending

    def close(self) -> None:
        if self._socket is not None and not self._closing:
            self._closing = True
            self._send()

    def abort(self) -> None:
        self._lose("the connection was closed")

    def _end(self) -> None:
        if isinstance(self._socket, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()  # says goodbye; the peer's answer is not waited for
        self._lose("the connection was closed")

    def _lose(self, reason: str) -> None:
        lost, self._socket = self._socket, None
        if lost is None:
            return
        self._loop.forget(lost)
        lost.close()
        self._pending.clear()
        self._unsent = None
        self._size = 0
        self._loop.call_soon(self._handler.link_lost, reason)

    def _watch(self, events: int) -> None:
        if events != self._events and self._socket is not None:
            self._events = events
            self._loop.watch(self._socket, events, self._happened)


async def open_link(runtime: LoopRuntime, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> SocketLink:
    """Implements :meth:`mqclient.core.runtime.Runtime.connect` for TCP."""
    target = tcp_target(connector, timeout)
    attempt = _Attempt(runtime, target.seconds)
    shaking_hands = False
    try:
        connected = await attempt.connect(target.host, target.port, target.local)
        with _closed_unless_kept(connected) as kept:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, target.no_delay)
            if target.tls is not None:
                from mqclient.tls.context import ssl_context

                shaking_hands = True
                connected = await attempt.encrypt(connected, ssl_context(target.tls), target.tls.host)
            link = SocketLink(runtime.loop, connected, describe(connector), handler)
            kept.append(link)
    except OSError as error:
        raise unreachable(connector, error, shaking_hands) from error
    return link


@contextlib.contextmanager
def _closed_unless_kept(made: socket.socket) -> Iterator[list[object]]:
    kept: list[object] = []
    try:
        yield kept
    finally:
        if not kept:
            made.close()


class _Attempt:
    """One attempt to open a connection within ``seconds``."""

    def __init__(self, runtime: LoopRuntime, seconds: float) -> None:
        self._runtime = runtime
        self._deadline = time.monotonic() + seconds

    async def connect(self, host: str, port: int, local: tuple[str, int] | None) -> socket.socket:
        """Try the addresses of ``host`` in turn; one that does not answer leaves time for the others.  Raises OSError of the last."""
        # The only call that may block: the system has no other way to ask for names.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for index, (family, kind, protocol, _, address) in enumerate(found):
            share = (self._deadline - time.monotonic()) / (len(found) - index)
            made = socket.socket(family, kind, protocol)
            try:
                await self._connect_one(made, address, local, share)
                return made
            except OSError:
                made.close()
                if index == len(found) - 1:
                    raise
            except BaseException:
                made.close()
                raise
        raise OSError(f"{host} has no address")

    async def _connect_one(self, made: socket.socket, address: tuple[Any, ...], local: tuple[str, int] | None, seconds: float) -> None:
        made.setblocking(False)
        if local is not None:
            made.bind(local)
        try:
            made.connect(address)
        except (BlockingIOError, InterruptedError):
            await self._ready(made, WRITE, seconds)
            number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                raise OSError(number, os.strerror(number)) from None

    async def encrypt(self, connected: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        """Shake hands.  Raises OSError; takes the socket over, also when it fails."""
        wrapped = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
        with _closed_unless_kept(wrapped) as kept:
            while True:
                try:
                    wrapped.do_handshake()
                    kept.append(wrapped)
                    return wrapped
                except ssl.SSLWantReadError:
                    await self._ready(wrapped, READ, self._deadline - time.monotonic())
                except ssl.SSLWantWriteError:
                    await self._ready(wrapped, WRITE, self._deadline - time.monotonic())

    async def _ready(self, made: socket.socket, events: int, seconds: float) -> None:
        loop = self._runtime.loop
        try:
            await wait_at_most(self._runtime, loop.ready(made, events), max(seconds, 0.0), TimeoutError())
        finally:
            loop.forget(made)
