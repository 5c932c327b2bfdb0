"""The page on the architecture is short, and names what is there."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.docs.pages import ROOT, read

LINES_MAX = 400
PACKAGES = (
    ROOT / "src",
    ROOT / "src" / "mqbroker",
    ROOT / "clients" / "mqclient" / "src",
    ROOT / "clients" / "mqclient" / "src" / "mqclient",
    ROOT / "clients" / "mqspark" / "src",
)
"""Folders below which the dotted names of pages begin."""
FILES = {"server.lock"}
"""Names of files that look like names of modules."""
DOTTED = re.compile(r"`([a-z_]+(?:\.\w+)+)`")


def missing(text: str) -> list[str]:
    """Dotted names in ``text`` that begin as a package of ours does, and that no module has."""
    return [
        name
        for name in DOTTED.findall(text)
        if any((root / name.split(".")[0]).is_dir() for root in PACKAGES) and name not in FILES and not _is_there(name)
    ]


def _is_there(name: str) -> bool:
    parts = name.split(".")
    for root in PACKAGES:
        for length in range(len(parts), 0, -1):
            place = root.joinpath(*parts[:length])
            module = place.with_suffix(".py")
            if length == len(parts) and (place.is_dir() or module.exists()):
                return True
            if length < len(parts) and module.exists():
                return _defines(module, parts[length])
    return False


def _defines(module: Path, name: str) -> bool:
    return re.search(rf"^(?:class |def |async def )?{name}\b", module.read_text(encoding="utf-8"), re.M) is not None


class ArchitectureTests(SynchronousTestCase):
    def test_the_page_is_short(self) -> None:
        self.assertLessEqual(len(read("docs", "architecture.md").splitlines()), LINES_MAX)

    def test_modules_and_classes_that_pages_name_are_there(self) -> None:
        pages = ("architecture.md", "contributing.md")
        self.assertEqual({page: missing(read("docs", page)) for page in pages}, {page: [] for page in pages})

    def test_the_table_of_layers_names_every_package_and_its_rooms(self) -> None:
        lines = [line for line in read("docs", "architecture.md").splitlines() if re.match(r"\| \d ", line)]
        named = [set(re.findall(r"`([\w/]+)`", line)) for line in lines]
        broker = ROOT / "src" / "mqbroker"
        there = {path.stem for path in broker.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("__")}
        self.assertEqual(there - set().union(*named), set())
        for package in (path for path in broker.iterdir() if (path / "__init__.py").exists()):
            rooms = {path.parent.name for path in package.glob("*/__init__.py")}
            row = next(names for names, line in zip(named, lines, strict=True) if f"`{package.name}`" in line.split(" | ")[1])
            self.assertEqual((package.name, rooms - row), (package.name, set()))

    def test_files_that_the_exercises_name_are_there(self) -> None:
        text = read("docs", "contributing.md").partition("## Five exercises")[2].partition("\n## ")[0]
        named = re.findall(r"`((?:mqclient/)?[a-z_]+(?:/\w+)+(?:\.py)?)`", text)
        self.assertGreater(len(named), 20)
        places = (ROOT / "src" / "mqbroker", *PACKAGES)
        self.assertEqual([name for name in named if not any((place / name).exists() for place in places)], [])

    def test_names_that_are_not_there_are_noticed(self) -> None:
        text = "`messaging.queues.queue.Queue.deliver` `messaging.queue` `storage.tickets.Nothing` `os.urandom` `mqclient.wire.frames`"
        self.assertEqual(missing(text), ["messaging.queue", "storage.tickets.Nothing"])
