"""The ports of a broker that is killed: whoever connects again at once is refused, and does not wait for an answer that never comes."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from unittest import TestCase

from tests.integration.brokers import start_mqbroker

CLIENTS = 20
ROUNDS = 3
"""Without care for the order about every second round had a connection that was taken."""


class PortTests(TestCase):
    def test_who_loses_its_connection_by_a_kill_is_refused_at_once(self) -> None:
        for _ in range(ROUNDS):
            folder = Path(tempfile.mkdtemp(prefix="mqbroker-ports-"))
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            broker = start_mqbroker(folder)
            self.addCleanup(broker.stop)
            self.address = ("127.0.0.1", int(broker.url.rpartition(":")[2]))
            connections = [socket.create_connection(self.address) for _ in range(CLIENTS)]
            self.taken = 0
            threads = [threading.Thread(target=self._again, args=(each,)) for each in connections]
            for thread in threads:
                thread.start()
            broker.kill()
            for thread in threads:
                thread.join()
            self.assertEqual(self.taken, 0)

    def _again(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionResetError):
            connection.recv(1)
        with contextlib.suppress(ConnectionError), socket.create_connection(self.address) as again:
            # The system may give this end the port of the broker: then it has connected to itself.
            self.taken += again.getsockname() != self.address
