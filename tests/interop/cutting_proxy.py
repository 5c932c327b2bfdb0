"""A TCP proxy on the loopback interface whose connections can be cut, or made to lose what the broker answers."""

from __future__ import annotations

import socket

from mqbroker.cli.demo.proxy import Proxy


class CuttingProxy(Proxy):
    """`lose_replies()` throws away, from now on, what the broker sends on the present connections: together with a following cut the client
    does not know what the broker has done. While it is `shut`, new connections are closed at once.
    """

    def __init__(self, target_port: int) -> None:
        self.shut = False
        self._losing: set[socket.socket] = set()
        super().__init__(target_port)

    def lose_replies(self) -> None:
        with self._lock:
            self._losing.update(server for _, server in self._pairs)

    def _admits(self) -> bool:
        return not self.shut

    def _passes(self, source: socket.socket) -> bool:
        return source not in self._losing

    def _ended(self, source: socket.socket) -> None:
        with self._lock:
            self._losing.discard(source)
