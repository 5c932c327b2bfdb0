"""Peers that do not answer as they should, over plain sockets."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from mqbroker.embedded import EmbeddedBroker
from mqclient.errors import ConnectionTimedOutError, NotConnectedError
from mqclient.sockets import server_locator
from tests.integration.mqclient.test_sockets import SocketsTestCase, closed_port


class BadPeerTests(SocketsTestCase):
    def failure(self, url: str) -> Exception:
        with self.assertRaises((NotConnectedError, ConnectionTimedOutError)) as caught:
            self.runtime.run(server_locator(url, runtime=self.runtime).create_session_factory(), 20)
        self.assertEqual(self.runtime.loop.tasks, set())
        error: Exception = caught.exception
        return error

    def test_nobody_listens(self) -> None:
        with closed_port() as port:
            self.assertIn(f"127.0.0.1:{port} cannot be reached", str(self.failure(f"tcp://127.0.0.1:{port}")))

    def test_a_host_without_address(self) -> None:
        def unknown(*args: object, **options: object) -> list[object]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        self.patch(socket, "getaddrinfo", unknown)  # no test asks the network for names
        self.assertIn("nowhere:61616 cannot be reached: [Errno -2] Name", str(self.failure("tcp://nowhere:61616")))

    def test_an_address_that_does_not_answer_leaves_time_for_the_others(self) -> None:
        with closed_port() as closed, full_port() as full, EmbeddedBroker(acceptor="tcp://127.0.0.1:0") as broker:
            port = int(broker.tcp_url.rsplit(":", 1)[1])
            found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", number)) for number in (closed, full, port)]
            self.patch(socket, "getaddrinfo", lambda *args, **options: found)
            self.assertFalse(self.open("tcp://several:61616?connect-timeout-millis=4000").closed)

    def test_a_peer_that_accepts_nothing(self) -> None:
        with full_port() as port:
            self.assertIn("no answer in time", str(self.failure(f"tcp://127.0.0.1:{port}?connect-timeout-millis=50")))

    def test_a_peer_that_says_nothing(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assertIn("topology", str(self.failure(f"tcp://127.0.0.1:{port}?callTimeout=50")))
            encrypted = f"tcp://127.0.0.1:{port}?sslEnabled=true&trustAll=true&connect-timeout-millis=50"
            self.assertIn("no answer in time", str(self.failure(encrypted)))

    def test_a_peer_without_tls(self) -> None:
        with EmbeddedBroker(acceptor="tcp://127.0.0.1:0") as broker:
            self.assertIn("cannot be reached", str(self.failure(f"{broker.tcp_url}?sslEnabled=true&trustAll=true")))


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: the system drops what comes."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as fillers:
        port = server.getsockname()[1]
        for _ in range(3):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port
