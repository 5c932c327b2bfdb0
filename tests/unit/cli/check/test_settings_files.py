"""Which files a check reads."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import mqbroker


class FileTests(SynchronousTestCase):
    def test_a_file_or_an_instance_has_to_be_named(self) -> None:
        for check in ("config", "ha"):
            result = mqbroker("check", check)
            self.assertEqual(result.status, 2)
            self.assertIn("Give FILE or --instance DIR", result.err)

    def test_values_have_names(self) -> None:
        for text in ("x", "=x"):
            result = mqbroker("check", "config", "broker.xml", "-D", text)
            self.assertEqual(result.status, 2)
            self.assertIn(f"-D {text}: expected NAME=VALUE", result.err)

    def test_values_reach_a_file_and_an_instance(self) -> None:
        folder = Path(self.mktemp())
        made = mqbroker("create", str(folder), "--silent")
        self.assertEqual(made.status, 0, made.err)
        file = folder / "etc" / "broker.xml"
        file.write_text(file.read_text().replace("<max-disk-usage>90<", "<max-disk-usage>${full}<"))
        for place in ((str(file),), ("--instance", str(folder))):
            self.assertEqual(mqbroker("check", "config", *place, "-D", "full=80").status, 0)
            self.assertEqual(mqbroker("check", "config", *place, "-D", "full=x").status, 1)
