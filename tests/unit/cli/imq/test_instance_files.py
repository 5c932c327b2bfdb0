"""A new instance: the texts of its files are read as they are meant."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.imq.instance_files import imq_instance_files
from mqbroker.cli.start.create import write_instance
from mqbroker.settings import settings_from_instance
from tests.unit.cli.runner import mqbroker


class InstanceFilesTests(SynchronousTestCase):
    def test_a_broker_starts_with_them(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "b1")
            write_instance(folder, "data", imq_instance_files(folder, "python", lambda: os.urandom(32)))
            settings = settings_from_instance(folder, [], {})
            configuration = settings.configuration
            self.assertEqual((configuration.name, [str(each.port) for each in configuration.acceptors]), ("b1", ["7676"]))
            assert settings.imq is not None
            self.assertEqual(settings.imq.file, str(folder / "props" / "config.properties"))
            roles = configuration.security_repository().lookup("any")
            self.assertEqual(roles["send"], {"admin", "guest"})
            self.assertEqual(roles["manage"], {"admin"})
            told = [warning.text.partition(":")[0] for warning in settings.warnings]
            self.assertIn("user admin has the password that every new instance gives", told)
            self.assertIn("user guest has the password that every new instance gives", told)
            self.assertIn("AMQ222007", told)
            self.assertEqual((folder / "props" / "config.properties").stat().st_mode & 0o777, 0o600)
            checked = mqbroker("check", "config", "--instance", str(folder), "-D", "imq.portmapper.port=7700", "-D", "imq.hostname=h")
            self.assertEqual(checked.status, 0, checked.err)
            refused = mqbroker("check", "config", "--instance", str(folder), "-D", "imq.hostnam=h")
            self.assertIn("-D: imq.hostnam is not known; did you mean imq.hostname?", refused.err)
