"""The files of a new instance."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from mqbroker.config.parse import load_configuration
from mqbroker.config.properties.properties import parse_properties
from tests.unit.cli.start.test_create import CreateCase

FIXTURES = Path(__file__).parents[2] / "config" / "fixtures"
CORE = "{urn:activemq:core}"


def content(element: ElementTree.Element) -> object:
    """Everything but blanks and comments."""
    inside = [content(child) for child in element if isinstance(child.tag, str)]
    return element.tag, dict(element.attrib), (element.text or "").strip(), inside


class FileTests(CreateCase):
    def test_the_configuration_is_valid_and_says_what_was_asked_for(self) -> None:
        folder, result = self.create(
            "--name", "a<b", "--host", "127.0.0.1", "--port-offset", "3", "--queues", "q1,q2:multicast", "--addresses", "x&y"
        )
        self.assertEqual(result.status, 0, result.err)
        loaded = load_configuration(str(folder / "etc" / "broker.xml"), lambda path: Path(path).read_bytes(), {})
        self.assertEqual([str(warning) for warning in loaded.warnings], [])
        configuration = loaded.configuration
        self.assertEqual(configuration.name, "a<b")
        self.assertEqual([(acceptor.host, acceptor.port) for acceptor in configuration.acceptors], [("127.0.0.1", 61619)])
        self.assertEqual({address.name for address in configuration.addresses}, {"DLQ", "ExpiryQueue", "q1", "q2", "x&y"})

    def test_a_pair_is_what_artemis_makes(self) -> None:
        """The fixtures are instances that ``artemis create`` has made with the same options."""
        for name, options in (
            ("shared", ("--shared-store", "--failover-on-shutdown")),
            ("sharedbackup", ("--shared-store", "--backup")),
            ("replicated", ("--replicated",)),
            ("replbackup", ("--replicated", "--backup")),
        ):
            with self.subTest(name=name):
                folder, _ = self.create(*options, "--silent")
                for path in ("ha-policy", "cluster-connections", "broadcast-groups", "discovery-groups", "connectors"):
                    made, expected = (
                        ElementTree.parse(file).getroot().find(f"{CORE}core/{CORE}{path}")
                        for file in (folder / "etc" / "broker.xml", FIXTURES / name / "etc" / "broker.xml")
                    )
                    assert made is not None
                    assert expected is not None
                    self.assertEqual(content(made), content(expected))

    def test_secrets_are_for_the_owner_only(self) -> None:
        folder, _ = self.create()
        self.assertEqual(os.stat(folder / "etc" / "artemis-users.properties").st_mode & 0o077, 0)
        self.assertTrue(os.access(folder / "bin" / "artemis", os.X_OK))

    def test_a_user_of_a_domain_has_its_role(self) -> None:
        folder, _ = self.create("--user", "CORP\\alice", "--role", "a b", "--silent")
        users, roles = (parse_properties((folder / "etc" / f"artemis-{kind}.properties").read_bytes()) for kind in ("users", "roles"))
        self.assertEqual([each.key for each in users], ["CORP\\alice"])
        self.assertEqual([(each.key, each.value) for each in roles], [("a b", "CORP\\alice")])

    def test_the_start_scripts_are_valid_shell(self) -> None:
        folder, _ = self.create()
        for script in (folder / "bin").iterdir():
            self.assertEqual(subprocess.run(["sh", "-n", str(script)], check=False).returncode, 0, script)
