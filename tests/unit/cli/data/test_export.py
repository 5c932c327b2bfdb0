"""``mqbroker data export``."""

from __future__ import annotations

from tests.unit.cli.data.test_data import JournalCase


class ExportTests(JournalCase):
    def test_export(self) -> None:
        self.assertEqual(self.bodies("--data", str(self.data)), {10: b"body 10", 11: b"body 11", 12: b"body 12", 13: b"large"})
        text = self.command("exp").out
        self.assertIn('<address-binding routing-types="MULTICAST,ANYCAST" name="orders" id="1"/>', text)
        self.assertIn('<queue-binding address="orders" filter-string="a &gt; 1" name="orders" id="2" routing-type="ANYCAST"/>', text)

    def test_a_damaged_journal_is_not_exported(self) -> None:
        self.damage()
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("data recover", result.err)
