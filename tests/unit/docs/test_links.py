"""Every relative link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.docs.pages import CODE, ROOT, pages, prose

LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


def anchors(text: str) -> set[str]:
    """The names by which the headings can be linked to."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(text)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def broken_links(path: Path, text: str) -> list[str]:
    """The targets in ``text``, the page at ``path``, that do not exist."""
    broken = []
    for target in LINK.findall(CODE.sub("", prose(text))):
        name, _, anchor = target.partition("#")
        if ":" in name:
            continue
        found = path.parent / name if name else path
        if (found != path and not found.exists()) or (
            anchor and anchor not in anchors(text if found == path else found.read_text(encoding="utf-8"))
        ):
            broken.append(target)
    return broken


class LinkTests(SynchronousTestCase):
    def test_every_relative_link_resolves(self) -> None:
        broken = {str(path.relative_to(ROOT)): broken_links(path, path.read_text(encoding="utf-8")) for path in pages()}
        self.assertEqual({page: targets for page, targets in broken.items() if targets}, {})

    def test_every_link_has_a_text(self) -> None:
        """Without one it shows nothing where no site is built of the pages."""
        self.assertEqual([str(path.relative_to(ROOT)) for path in pages() if "[](" in path.read_text(encoding="utf-8")], [])

    def test_broken_links_are_noticed(self) -> None:
        text = "# One: two\n[a](README.md) [b](#one-two) [c](https://host/x) `[d](no.md)`\n[e](no.md) [f](#none) [g](README.md#none)\n"
        self.assertEqual(broken_links(ROOT / "page.md", text), ["no.md", "#none", "README.md#none"])
