"""A way to the broker that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit

NOTICE_SECONDS = 30.0
"""How long a broker may take to notice the end of a connection."""


@dataclass(eq=False)
class Passage:
    """One connection through the proxy."""

    client: socket.socket
    broker: socket.socket
    ended: threading.Event = field(default_factory=threading.Event)
    """Has the broker ended its side?"""

    def end(self) -> None:
        """End both sides; the broker can still say that it has noticed."""
        for side, how in ((self.client, socket.SHUT_RDWR), (self.broker, socket.SHUT_WR)):
            with contextlib.suppress(OSError):
                side.shutdown(how)


class Proxy:
    """Passes bytes between clients and the broker at ``url``; ``self.url`` is where clients connect.

    The broker hears of a new connection only when it has noticed the end of those that were cut.  A real Artemis would else now and then
    remove a temporary queue that the client has just made again, while it clears up after the connection that had made it before.
    """

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (target.hostname, target.port)
        self._passages: set[Passage] = set()
        self._cut: list[Passage] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all connections; new ones are possible."""
        cut = tuple(self._passages)
        self._cut += cut
        for passage in cut:
            passage.end()

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
                while self._cut:
                    self._cut.pop().ended.wait(NOTICE_SECONDS)
                passage = Passage(client, socket.create_connection(self._target))
                self._passages.add(passage)
                for work in (self._to_broker, self._to_client):
                    threading.Thread(target=work, args=(passage,), daemon=True).start()

    def client_sent(self, data: bytes) -> None:
        """Bytes of a client came by; for subclasses."""

    def _to_broker(self, passage: Passage) -> None:
        with contextlib.suppress(OSError):
            while data := passage.client.recv(65536):
                self.client_sent(data)
                passage.broker.sendall(data)
        passage.end()
        passage.client.close()

    def _to_client(self, passage: Passage) -> None:
        with contextlib.suppress(OSError):
            while data := passage.broker.recv(65536):
                with contextlib.suppress(OSError):  # a client that has gone hears nothing more; the end still counts
                    passage.client.sendall(data)
        passage.ended.set()
        passage.end()
        self._passages.discard(passage)
        passage.broker.close()
