"""The pages of docs/decisions: short, listed, and cited by the code that they explain."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.docs.pages import ROOT

FOLDER = ROOT / "docs" / "decisions"
SOURCES = (ROOT / "src", ROOT / "clients")
LINES_MAX = 40
PAGE = re.compile(r"(\d{3})-[a-z0-9-]+\.md")
CITED = re.compile(r"\(decision (\d+)\b")
LISTED = re.compile(r"^- \[(\d+)\. (.+)\]\((.+)\)$", re.M)


def numbered_pages() -> dict[int, Path]:
    """The pages by their numbers; a file of another name is an error."""
    found = {}
    for path in sorted(FOLDER.glob("*.md")):
        if path.name != "index.md":
            match = PAGE.fullmatch(path.name)
            assert match is not None, f"{path.name} does not begin with a number of three digits"
            found[int(match[1])] = path
    return found


def cited() -> dict[int, list[str]]:
    """The modules that cite each number."""
    found: dict[int, list[str]] = {}
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            for number in CITED.findall(path.read_text(encoding="utf-8")):
                found.setdefault(int(number), []).append(str(path.relative_to(ROOT)))
    return found


class DecisionTests(SynchronousTestCase):
    def test_no_page_is_longer_than_a_screen(self) -> None:
        long = {
            path.name: lines
            for path in numbered_pages().values()
            if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINES_MAX
        }
        self.assertEqual(long, {})

    def test_numbers_ascend_without_a_gap(self) -> None:
        self.assertEqual(list(numbered_pages()), list(range(1, len(numbered_pages()) + 1)))
        self.assertEqual(len(list(FOLDER.glob("*.md"))), len(numbered_pages()) + 1)

    def test_the_index_has_each_page_with_its_title(self) -> None:
        titles = {number: path.read_text(encoding="utf-8").split("\n", 1)[0] for number, path in numbered_pages().items()}
        listed = {
            int(number): (f"# Decision {number}: {title}", name)
            for number, title, name in LISTED.findall((FOLDER / "index.md").read_text(encoding="utf-8"))
        }
        self.assertEqual(listed, {number: (titles[number], path.name) for number, path in numbered_pages().items()})

    def test_what_code_cites_exists(self) -> None:
        self.assertEqual({number: where for number, where in cited().items() if number not in numbered_pages()}, {})

    def test_each_page_is_cited_by_code(self) -> None:
        self.assertEqual([path.name for number, path in numbered_pages().items() if number not in cited()], [])

    def test_modules_that_pages_name_are_there(self) -> None:
        missing = []
        for path in numbered_pages().values():
            for name in re.findall(r"`(mq\w+(?:\.\w+)*)\*?`", path.read_text(encoding="utf-8").partition("**In the code.**")[2]):
                parts = name.split(".")
                places = [root.joinpath(*parts) for root in (ROOT / "src", *(ROOT / "clients").glob("*/src"))]
                if not any(place.is_dir() or place.with_suffix(".py").exists() for place in places):
                    missing.append(f"{path.name}: {name}")
        self.assertEqual(missing, [])
