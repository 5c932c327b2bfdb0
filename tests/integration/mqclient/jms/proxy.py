"""A way to the broker that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes between clients and the broker at ``url``; ``self.url`` is where clients connect."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (target.hostname, target.port)
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections; new ones are possible."""
        for one in tuple(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close everything; nothing can connect any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._open |= {client, server}
                for source, sink, note in ((client, server, self.client_sent), (server, client, None)):
                    threading.Thread(target=self._pass, args=(source, sink, note), daemon=True).start()

    def client_sent(self, data: bytes) -> None:
        """Bytes of a client came by; for subclasses."""

    def _pass(self, source: socket.socket, sink: socket.socket, note: Callable[[bytes], None] | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if note is not None:
                    note(data)
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)
        source.close()
