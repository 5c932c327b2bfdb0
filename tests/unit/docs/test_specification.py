"""The chapters of the specification: their tables are those of the grammar, and every packet has its place."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import ERROR_CLASSES
from mqclient.wire.packets import grammar
from tests.unit.docs.pages import load_program
from tests.unit.mqclient.wire.vectors import VECTORS

CHAPTERS = sorted(VECTORS.parent.glob("*.md"))


class SpecificationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.texts = {path.name: path.read_text("utf-8") for path in CHAPTERS}
        self.program = load_program("protocol-spec", "tables.py")
        self.whole = "\n".join(self.texts.values())

    def test_tables_are_fresh(self) -> None:
        """If this fails: python protocol-spec/generate.py"""
        for name, text in self.texts.items():
            self.assertEqual(self.program.refresh(text), text, f"{name} is stale")

    def test_a_stale_table_is_noticed(self) -> None:
        text = "before\n<!-- generated: xa -->\nold\n<!-- end: xa -->\nafter\n"
        fresh = self.program.refresh(text)
        self.assertIn("SESS_XA_START (51)", fresh)
        self.assertTrue(fresh.startswith("before\n") and fresh.endswith("<!-- end: xa -->\nafter\n"))
        self.assertNotIn("old\n", fresh)
        self.assertEqual(self.program.refresh(fresh), fresh)

    def test_every_table_has_exactly_one_place(self) -> None:
        self.assertEqual(sorted(re.findall(r"<!-- generated: ([\w-]+) -->", self.whole)), sorted(self.program.TABLES))

    def test_every_packet_is_described(self) -> None:
        for description in grammar.GRAMMAR.values():
            self.assertEqual(self.whole.count(f"### {description.name} ({description.type})\n"), 1)

    def test_every_error_code_is_listed(self) -> None:
        for code in ERROR_CLASSES:
            self.assertIn(f"\n| {code} | ", self.whole)

    def test_links_between_chapters_lead_somewhere(self) -> None:
        for name, text in self.texts.items():
            for target in re.findall(r"\]\(([^)#:]+)\)", text):
                self.assertTrue((VECTORS.parent / target).exists(), f"{name} links to {target}")

    def test_unknown_table_is_refused(self) -> None:
        self.assertRaises(KeyError, self.program.refresh, "<!-- generated: nothing -->\n<!-- end: nothing -->")
