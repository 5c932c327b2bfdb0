"""The shells' common part: ports, datagrams, files and locators."""

from __future__ import annotations

import logging
import socket
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.runtime import Runtime
from mqclient.shells.host import HostNetwork, HostRuntime, hear, listen_tcp, make_locator, tcp_target, unreachable
from mqclient.wire.primitives import TransportConfiguration


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def log_failure(self, text: str, error: BaseException) -> None:
        self.lines.append(f"{text}: {error}")

    def log_warning(self, text: str) -> None:
        self.lines.append(text)

    def random_below(self, limit: int) -> int:
        return 0


class Datagrams:
    """A socket with these datagrams, and an error at the end."""

    def __init__(self, *waiting: bytes, error: Exception | None = None) -> None:
        self.waiting = list(waiting)
        self.error = error or BlockingIOError()
        self.number = 3

    def fileno(self) -> int:
        return self.number

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        if not self.waiting:
            raise self.error
        return self.waiting.pop(0), ("10.0.0.1", 9876)


class HearTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.log = Log()
        self.heard: list[tuple[bytes, str]] = []

    def hear(self, found: Datagrams, received: Callable[[bytes, str], None]) -> None:
        hear(cast(Runtime, self.log), cast(socket.socket, found), received)

    def test_all_that_waits_is_heard_with_its_sender(self) -> None:
        self.hear(Datagrams(b"a", b"b"), lambda data, sender: self.heard.append((data, sender)))
        self.assertEqual(self.heard, [(b"a", "10.0.0.1:9876"), (b"b", "10.0.0.1:9876")])
        self.assertEqual(self.log.lines, [])

    def test_a_flood_leaves_the_turn_to_others(self) -> None:
        found = Datagrams(*[b"x"] * 100)
        self.hear(found, lambda data, sender: self.heard.append((data, sender)))
        self.assertGreater(len(self.heard), 1)
        self.assertGreater(len(found.waiting), 0)

    def test_one_that_cannot_be_handled_does_not_keep_the_next_away(self) -> None:
        def received(data: bytes, sender: str) -> None:
            self.heard.append((data, sender))
            if data == b"bad":
                raise ValueError("bad")

        self.hear(Datagrams(b"bad", b"good"), received)
        self.assertEqual([data for data, _ in self.heard], [b"bad", b"good"])
        self.assertEqual(self.log.lines, ["a datagram could not be handled: bad"])

    def test_an_error_of_the_system_is_logged(self) -> None:
        self.hear(Datagrams(error=OSError("no memory")), lambda *_: None)
        self.assertEqual(self.log.lines, ["a datagram could not be received: no memory"])

    def test_nothing_is_read_once_the_receiver_has_closed_the_socket(self) -> None:
        found = Datagrams(b"a", b"b")

        def received(data: bytes, sender: str) -> None:
            found.number = -1

        self.hear(found, received)
        self.assertEqual(found.waiting, [b"b"])


class Network(HostNetwork):
    """Does at once what the shells do beside."""

    def _beside(self, function: Callable[..., Any], *args: object) -> Awaitable[Any]:
        return maybeDeferred(function, *args)


class HostTests(SynchronousTestCase):
    def test_a_port_listens_and_never_blocks(self) -> None:
        with listen_tcp("127.0.0.1", 0) as found:
            self.assertRaises(BlockingIOError, found.accept)
            self.assertRaises(OSError, listen_tcp, "127.0.0.1", found.getsockname()[1])

    def test_files_are_shared_through_a_folder(self) -> None:
        network = cast(Any, Network)()
        with tempfile.TemporaryDirectory() as folder:
            place = str(Path(folder) / "new")
            self.successResultOf(network.write_file(place, "a.list", b"one"))
            self.assertEqual(self.successResultOf(network.read_folder(place, ".list", 5, 100)), [b"one"])
            self.assertEqual(network.read_file(f"{place}/a.list"), b"one")
            network.remove_file(place, "a.list")
            network.remove_file(place, "a.list")
            self.assertEqual(self.successResultOf(network.read_folder(place, ".list", 5, 100)), [])

    def test_the_log_has_the_name_of_the_shell(self) -> None:
        with self.assertLogs(__name__, logging.WARNING) as logs:
            Shell().log_warning("look")
            Shell().log_failure("it failed", ValueError("x"))
        self.assertEqual([record.getMessage() for record in logs.records], ["look", "it failed"])

    def test_a_url_has_its_settings_and_its_warnings_are_logged(self) -> None:
        log = Log()
        locator = make_locator(cast(Runtime, log), "tcp://a:1?callTimeout=5;nonsense=1", None)
        self.assertEqual((locator.settings.call_timeout, len(log.lines)), (5, 1))
        self.assertIn("nonsense", log.lines[0])
        self.assertRaises(ValueError, make_locator, cast(Runtime, log), "tcp://a:1", LocatorSettings())


class Shell(HostRuntime):
    pass


class TargetTests(SynchronousTestCase):
    def connector(self, **parameters: str) -> TransportConfiguration:
        return TransportConfiguration("c", "netty", tuple(parameters.items()))

    def test_a_connector_says_where_it_leads_and_how(self) -> None:
        self.assertEqual(tcp_target(self.connector(), 5.0), ("localhost", 61616, None, 5.0, True, None))
        limit = {"connect-timeout-millis": "1500"}
        far = self.connector(host="h", port="7", localAddress="a", localPort="8", tcpNoDelay="false", **limit)
        self.assertEqual(tcp_target(far, 5.0), ("h", 7, ("a", 8), 1.5, False, None))
        secure = tcp_target(self.connector(sslEnabled="true", sniHost="name"), 5.0)
        self.assertEqual(secure.tls and secure.tls.host, "name")

    def test_a_parameter_that_cannot_be_used_is_named(self) -> None:
        self.assertIn("tcpNoDelay", str(self.assertRaises(ValueError, tcp_target, self.connector(tcpNoDelay="maybe"), 5.0)))
        for name in ("connect-timeout-millis", "port", "localPort"):
            wrong = self.connector(**{"localAddress": "a", name: "soon"})
            self.assertIn(name, str(self.assertRaises(ValueError, tcp_target, wrong, 5.0)))

    def test_the_reason_asks_for_tls_where_a_handshake_has_failed(self) -> None:
        late = unreachable(self.connector(host="h"), TimeoutError("x"), False)
        self.assertEqual(str(late), "h:61616 cannot be reached: no answer in time")
        self.assertIn("is it a TLS acceptor", str(unreachable(self.connector(), OSError("reset"), True)))
