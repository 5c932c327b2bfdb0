"""The properties of the lock manager on ZooKeeper: what is absent, what is read, and what is refused with its name."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.locks.zookeeper.properties import ZooKeeperProperties

THREE = "127.0.0.1:6666,127.0.0.1:6667,127.0.0.1:6668"


class PropertiesTests(SynchronousTestCase):
    def read(self, **properties: str) -> ZooKeeperProperties:
        return ZooKeeperProperties.parse({"connect-string": THREE} | {name.replace("_", "-"): value for name, value in properties.items()})

    def refused(self, **properties: str) -> str:
        with self.assertRaises(ValueError) as caught:
            self.read(**properties)
        return str(caught.exception)

    def test_what_is_absent_is_as_in_artemis(self) -> None:
        servers = tuple(("127.0.0.1", port) for port in (6666, 6667, 6668))
        self.assertEqual(self.read(), ZooKeeperProperties(servers, "", 18_000, 33, 8_000, 1, 1_000))

    def test_all_of_them(self) -> None:
        found = self.read(
            connect_string="zoo1, zoo2:2182,[::1]:2183/chroot/deep",
            namespace="brokers",
            session_ms="6000",
            session_percent="0",
            connection_ms="2000",
            retries="-7",
            retries_ms="0",
        )
        servers = (("zoo1", 2181), ("zoo2", 2182), ("::1", 2183))
        self.assertEqual(found, ZooKeeperProperties(servers, "/chroot/deep/brokers", 6000, 0, 2000, -1, 0))

    def test_an_address_without_a_port(self) -> None:
        self.assertEqual(self.read(connect_string="[::1]").servers, (("::1", 2181),))

    def test_an_unknown_one_is_named(self) -> None:
        self.assertIn("the property sesion-ms is unknown: expected one of connect-string, namespace", self.refused(sesion_ms="1"))

    def test_servers(self) -> None:
        for text in ("", "  ", "/chroot"):
            self.assertIn("the property connect-string is missing", self.refused(connect_string=text))
        for text in ("a:b", "a:0", "a:65536", ":2181", "a,,b", "a:"):
            self.assertIn("the property connect-string has", self.refused(connect_string=text))

    def test_paths(self) -> None:
        for text in ("/a", "a/", "a//b", "a/../b", "."):
            self.assertIn("is no path", self.refused(namespace=text))
        self.assertEqual(self.read(namespace="a/b").base, "/a/b")
        self.assertEqual(self.read(namespace="").base, "")

    def test_numbers(self) -> None:
        for name, value in (
            ("session_ms", "0"),
            ("session_ms", "18 s"),
            ("session_ms", str(1 << 31)),
            ("session_percent", "101"),
            ("session_percent", "-1"),
            ("connection_ms", "0"),
            ("retries", "many"),
            ("retries", "-"),
            ("retries_ms", "-1"),
        ):
            self.assertIn(f"the property {name.replace('_', '-')} is '{value}': expected a number from", self.refused(**{name: value}))
