"""An instance: its files, and the users of a new one."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.instance import ImqStart, read_imq_properties, users_with_known_passwords
from mqbroker.config.masking import hash_password
from mqbroker.config.problems import Findings
from tests.unit.config.imq.support import FOLDER, PROPERTIES, Files, Made


class InstanceTests(SynchronousTestCase):
    def test_the_folder_names_the_instance(self) -> None:
        made = Made("imq.instancename=other")
        assert made.instance is not None
        self.assertEqual((made.instance.file, made.configuration.name), (PROPERTIES, "b1"))

    def test_the_file_need_not_exist(self) -> None:
        checked = read_imq_properties(FOLDER, ImqStart(), Files({}).read, Findings())
        self.assertEqual(checked["imq.portmapper.port"], 7676)


class UserTests(SynchronousTestCase):
    def test_users_whose_password_everybody_knows(self) -> None:
        salt = bytes(32)
        text = f"admin = {hash_password('admin', salt)}\nguest = guest\nother = other\n"
        self.assertEqual(users_with_known_passwords(text.encode()), ["admin", "guest"])
        text = f"admin = {hash_password('changed', salt)}\nguest = ENC(damaged)\n"
        self.assertEqual(users_with_known_passwords(text.encode()), [])
        self.assertEqual(users_with_known_passwords(b"a=\\u1"), [])
