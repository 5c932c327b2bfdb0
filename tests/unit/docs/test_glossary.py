"""The glossary names what is there, and tells of every kind of reader."""

from __future__ import annotations

import re
from collections import Counter

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.docs.pages import CODE, ROOT, read, rows
from tests.unit.docs.test_architecture import missing


class GlossaryTests(SynchronousTestCase):
    def test_modules_and_classes_are_there(self) -> None:
        text = read("docs", "glossary.md")
        self.assertEqual(missing(text), [])
        self.assertEqual([name for name in CODE.findall(text) if name.startswith("tests/") and not (ROOT / name).exists()], [])

    def test_a_word_has_one_meaning(self) -> None:
        """A word that stands twice in a table says in brackets which one is meant."""
        first = read("docs", "glossary.md").partition("Words of the Spark distribution")[0]
        count = Counter(cells[0] for cells in rows(first))
        self.assertEqual([word for word, times in count.items() if times > 1 and word.strip("-")], [])

    def test_each_class_that_is_called_reader_is_listed(self) -> None:
        listed = [name for name in CODE.findall(read("docs", "glossary.md").partition("### Readers")[2]) if "Reader" in name]
        there = Counter(
            f"{path.stem}.{name}"
            for folder in (ROOT / "src", *(ROOT / "clients").glob("*/src"))
            for path in folder.rglob("*.py")
            for name in re.findall(r"^class (\w*Readers?)\b", path.read_text(encoding="utf-8"), re.M)
        )
        self.assertEqual(Counter(".".join(name.split(".")[-2:]) for name in listed), there)
