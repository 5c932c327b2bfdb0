"""Passwords of properties, and the passfile."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.checked import check_layers
from mqbroker.config.imq.layers import Sources, read_layers
from mqbroker.config.imq.passwords import Passwords
from mqbroker.config.problems import Findings
from tests.unit.config.imq.support import PROPERTIES, Files


class PasswordTests(SynchronousTestCase):
    def passwords(self, text: str, **files: str) -> Passwords:
        self.findings = Findings()
        read = Files({PROPERTIES: text, **{f"/etc/b1/{name}": content for name, content in files.items()}}).read
        checked = check_layers(read_layers(Sources(PROPERTIES), read, self.findings), self.findings)
        return Passwords(checked, "/etc/b1", read, self.findings)

    def test_the_property_comes_before_the_passfile(self) -> None:
        passwords = self.passwords(
            "imq.keystore.password=own\nimq.passfile.enabled=true", passfile="imq.keystore.password=filed\nimq.persist.jdbc.password=db\n"
        )
        self.assertEqual(passwords.get("imq.keystore.password"), "own")
        self.assertEqual(passwords.get("imq.persist.jdbc.password"), "db")
        self.assertIsNone(passwords.get("imq.persist.jdbc.sqlite.password"))

    def test_without_a_passfile(self) -> None:
        self.assertIsNone(self.passwords("", passfile="imq.keystore.password=filed").get("imq.keystore.password"))

    def test_one_that_cannot_be_read_is_told_once(self) -> None:
        passwords = self.passwords("imq.passfile.enabled=true\nimq.passfile.name=lost")
        self.assertIsNone(passwords.get("imq.keystore.password"))
        self.assertIsNone(passwords.get("imq.persist.jdbc.password"))
        [error] = map(str, self.findings.errors)
        self.assertIn("/etc/b1/lost: the passfile cannot be read", error)

    def test_one_that_is_masked_wrongly(self) -> None:
        self.assertEqual(self.passwords("imq.keystore.password=ENC(zz)").get("imq.keystore.password"), "")
        [error] = map(str, self.findings.errors)
        self.assertIn("imq.keystore.password: a masked password cannot be read", error)
