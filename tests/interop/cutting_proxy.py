"""A TCP proxy on the loopback interface whose connections can be cut, or made to lose what the broker answers."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

SILENCE_SECONDS = 0.02
"""Between two looks whether it is over."""


def never() -> bool:
    return False


def wait_while(silent: Callable[[], bool]) -> None:
    while silent():
        time.sleep(SILENCE_SECONDS)


class CuttingProxy:
    """Passes bytes both ways between a port of its own and `target_port`.

    `cut()` ends all connections abruptly; new ones are accepted at once. `lose_replies()` throws away, from now on, what the broker
    sends on the present connections: together with a following cut the client does not know what the broker has done. While it is `shut`,
    new connections are closed at once.

    `silence_of(port)` is asked for each new connection, by the port from which one dials, and gives a function: while that is true nothing
    comes through in either direction, not even an end, and later all of it does.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.shut = False
        self.silence_of: Callable[[int], Callable[[], bool]] = lambda port: never
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._losing: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        try:
            silent = self.silence_of(client.getpeername()[1])
            wait_while(silent)
            if self.shut:
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
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, sink, silent), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, silent: Callable[[], bool]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                wait_while(silent)
                if source not in self._losing:
                    sink.sendall(data)
        wait_while(silent)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._losing.discard(source)

    def lose_replies(self) -> None:
        with self._lock:
            self._losing.update(server for _, server in self._pairs)

    def cut(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._accepting.join(5)
