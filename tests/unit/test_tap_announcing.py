"""The command that a broker prints at its start can be pasted on the same machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.jaas import LoginModule
from mqbroker.config.model.configuration import Configuration
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.transport.acceptor import Acceptor
from mqbroker.tap import first_command
from mqclient.urls import parse_transport_uri
from tests.support.clock import FakeClock

USERS = "org.apache.activemq.jaas.properties.user"
ROLES = "org.apache.activemq.jaas.properties.role"
FILES = {"/etc/users": b"alice = pw\nbob = pw\n", "/etc/roles": b"amq = alice,bob\n"}
PROPERTIES = LoginModule("PropertiesLoginModule", "sufficient", {USERS: "users", ROLES: "roles"})
GUEST = LoginModule("GuestLoginModule", "sufficient", dict.fromkeys(("org.apache.activemq.jaas.guest.user",), "guest"))


class Reactor:
    """Listens on nothing: a port says where it was asked to."""

    def listenTCP(self, port: int, factory: Any, backlog: int, interface: str) -> Any:
        kind = IPv6Address if ":" in interface else IPv4Address
        return SimpleNamespace(getHost=lambda: kind("TCP", interface or "0.0.0.0", port), doRead=lambda: None)


class FirstCommandTests(SynchronousTestCase):
    def acceptor(self, text: str) -> Acceptor:
        acceptor = Acceptor(None, parse_transport_uri(text, "artemis"), Reactor(), Path.read_bytes)  # type: ignore[arg-type]
        acceptor.start()
        return acceptor

    def words(self, *acceptors: Acceptor, modules: Any = (), **options: Any) -> list[str]:
        """What follows the program."""
        files: Any = FILES
        security = SecurityManager(
            Configuration(security_enabled=bool(modules)),
            modules,
            None,  # type: ignore[arg-type]
            FakeClock(),
            files.__getitem__,
            Path("/etc"),
            write_file=lambda path, data: None,
            entropy=bytes,
            **options,
        )
        broker: Any = SimpleNamespace(acceptors=acceptors, server=SimpleNamespace(security=security))
        command = first_command(broker)
        return [] if command is None else shlex.split(command)[1:]

    def test_a_wildcard_address_is_reached_over_the_loopback(self) -> None:
        for host, expected in (("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("10.1.2.3", "10.1.2.3"), ("[fe80::1]", "[fe80::1]")):
            acceptor = self.acceptor(f"tcp://{host}:61616")
            words = self.words(acceptor)
            self.assertEqual(words[:3], ["producer", "--url", f"tcp://{expected}:61616"])
            self.assertNotIn("--user", words)
            self.assertEqual(acceptor.urls, [f"tcp://{host}:61616"])

    def test_a_user_is_named_where_a_login_is_required(self) -> None:
        acceptor = self.acceptor("tcp://127.0.0.1:1")
        words = self.words(acceptor, modules=[PROPERTIES])
        self.assertEqual(words[3:5], ["--user", "alice"])
        self.assertNotIn("--user", self.words(acceptor, modules=[PROPERTIES, GUEST]))

    def test_the_login_entry_of_the_acceptor_decides(self) -> None:
        acceptor = self.acceptor("tcp://127.0.0.1:1?securityDomain=strict")
        words = self.words(acceptor, modules=[GUEST], domains={"strict": [PROPERTIES]})
        self.assertEqual(words[3:5], ["--user", "USER"])

    def test_an_acceptor_without_tls_is_preferred(self) -> None:
        plain, secure = self.acceptor("tcp://127.0.0.1:1"), self.acceptor("tcp://127.0.0.1:2")
        secure.secure = True
        self.assertEqual(self.words(secure, plain)[2], "tcp://127.0.0.1:1")
        self.assertEqual(self.words(secure)[2], "tcp://127.0.0.1:2?sslEnabled=true")

    def test_without_a_port_there_is_no_command(self) -> None:
        self.assertEqual(self.words(), [])
