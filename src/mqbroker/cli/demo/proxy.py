"""A way to a port on this machine on which silence can fall."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

SILENCE_SECONDS: Final = 0.02
"""Between two looks whether it is over."""


def never() -> bool:
    return False


def wait_while(silent: Callable[[], bool]) -> None:
    while silent():
        time.sleep(SILENCE_SECONDS)


class Proxy:
    """Passes bytes both ways between a port of its own on 127.0.0.1 and ``target_port``, in threads.

    ``silence_of(port)`` is asked for each new connection, by the port from which one dials, and gives a function: while that is true
    nothing comes through in either direction, not even an end, and later all of it does.
    """

    def __init__(self, target_port: int, silence_of: Callable[[int], Callable[[], bool]] = lambda port: never) -> None:
        self.target_port = target_port
        self.silence_of = silence_of
        # Bound and not listening, it keeps the port while connections are refused.
        self._holder = bound(0)
        self.port = int(self._holder.getsockname()[1])
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener: socket.socket | None = None
        self.listen()

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End all connections abruptly; new ones are accepted at once."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def listen(self) -> None:
        """Accept connections, as from the beginning, after :meth:`refuse`."""
        if self._listener is None:
            self._listener = listener = bound(self.port)
            listener.listen()
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def refuse(self) -> None:
        """End all connections; new ones are refused, as on a port on which nobody listens."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def close(self) -> None:
        self.refuse()
        self._holder.close()

    # --- for subclasses

    def _admits(self) -> bool:
        """May a new connection be passed on?"""
        return True

    def _passes(self, source: socket.socket) -> bool:
        """Is passed on what has come from this end?"""
        return True

    def _ended(self, source: socket.socket) -> None:
        """Nothing comes from this end any more."""

    # --- inside

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client, listener), daemon=True).start()

    def _join(self, client: socket.socket, listener: socket.socket) -> None:
        try:
            silent = self.silence_of(client.getpeername()[1])
            wait_while(silent)
            if not self._admits():
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        # Before cut() knows of them: it may close them at any moment.
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.append((client, server))
            refused = listener is not self._listener
        if refused:
            self.cut()  # it was on the way when this proxy ceased to listen
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, sink, silent), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, silent: Callable[[], bool]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                wait_while(silent)
                if self._passes(source):
                    sink.sendall(data)
        wait_while(silent)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ended(source)


def bound(port: int) -> socket.socket:
    """A socket on this port of 127.0.0.1, which does not listen yet; 0: on any that is free."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    return found


def own_ports() -> set[int]:
    """The ports of the TCP sockets that this process has open, by which a proxy tells its connections from those of others."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            copy = os.dup(int(name))
            try:
                end = socket.socket(fileno=copy)
            except OSError:  # a file
                os.close(copy)
                continue
            with end:
                if end.family in (socket.AF_INET, socket.AF_INET6):
                    found.add(int(end.getsockname()[1]))
    return found
