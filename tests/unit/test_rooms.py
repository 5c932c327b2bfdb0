"""Rooms: how many modules stand side by side, who may import whom inside a package, and how large a circle of modules may be.

Imports that only types need count here, unlike in :mod:`tests.unit.test_layers`: a reader follows them, too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "clients/mqclient/src", "clients/mqspark/src")
SIDE_BY_SIDE_MAX = 20
"""Modules of one folder."""

Graph = Mapping[str, Collection[str]]
"""The modules that each module imports."""

ORDER: Mapping[str, Sequence[str]] = {
    "mqclient": (
        "text",
        "urls",
        "openmq",
        "errors",
        "wire",
        "xa",
        "protocol",
        "storageformat",
        "tls",
        "core",
        "invm",
        "management",
        "shells",
        "asyncio",
        "sockets",
        "twisted",
        "blocking",
        "jms",
        "jndi",
    ),
    "mqclient.core": (
        "closing",
        "runtime",
        "message",
        "settings",
        "listeners",
        "batches",
        "connection",
        "discovery",
        "readers",
        "sending",
        "consuming",
        "once",
        "session",
        "factories",
        "api",
    ),
    "mqclient.storageformat": (
        "errors",
        "frames",
        "page_records",
        "records",
        "files",
        "page_state",
        "images",
        "replay",
        "replay_plain",
        "page_messages",
        "salvage",
        "surviving",
    ),
    "mqbroker": (
        "config",
        "messaging",
        "storage",
        "process",
        "server",
        "cluster",
        "ha",
        "imq",
        "zookeeper",
        "lock_managers",
        "availability",
        "reachability",
        "checks",
        "node",
        "listening",
        "monitoring",
        "settings",
        "colocation",
        "app",
        "embedded",
        "pytest_plugin",
        "tap",
        "cli",
    ),
    "mqbroker.config": (
        "problems",
        "masking",
        "schema",
        "model",
        "properties",
        "broker_xml",
        "overrides",
        "parse",
        "imq",
        "instance",
    ),
    "mqbroker.messaging": (
        "event",
        "message",
        "ports",
        "turns",
        "filters",
        "queues",
        "routing",
        "core",
        "delivery",
        "administration",
        "readers",
        "messaging",
    ),
    "mqbroker.storage": (
        "errors",
        "settings",
        "tickets",
        "disk",
        "files",
        "mirror",
        "sql",
        "shared",
        "memorystore",
    ),
    "mqbroker.storage.files": (
        "bindings",
        "branches",
        "folders",
        "largebodies",
        "plain",
        "restore",
        "journal",
        "pages",
        "filestore",
        "recover",
    ),
    "mqbroker.cluster": (
        "links",
        "grouping",
        "remote_queues",
        "membership",
        "connection",
        "manager",
        "core_bridge",
        "backup",
    ),
    "mqbroker.imq": ("record", "links", "peers", "delivery", "definitions", "master", "enhanced", "administration"),
    "mqbroker.storage.mirror": (
        "roots",
        "changes",
        "mirrored",
        "outgoing",
        "copying",
        "feed",
        "former",
        "replica_folder",
    ),
    "mqbroker.node": (
        "enhanced",
        "activation",
        "parts",
        "stores",
        "messaging",
        "security",
        "controls",
        "grouping",
        "groups",
        "homes",
        "clustering",
        "retirement",
        "presence",
        "others",
        "imq_controls",
        "assembly",
        "life_machine",
        "candidate",
        "life",
    ),
    "mqbroker.cli": (
        "status",
        "output",
        "progress",
        "options",
        "connection",
        "management",
        "lazy",
        "root",
        "completion",
        "daemon",
        "mask",
        "start",
        "imq",
        "cluster",
        "check",
        "queues",
        "demo",
        "data",
        "traffic",
        "__main__",
    ),
    "mqspark": (
        "errors",
        "options",
        "body_schema",
        "columns",
        "journal_tables",
        "messages",
        "broker",
        "transactions",
        "reading",
        "settling",
        "writing",
        "source",
        "journal",
        "jobs",
        "__main__",
    ),
    "mqbroker.server": (
        "bridge_port",
        "security",
        "transport",
        "cluster_port",
        "observation",
        "server_state",
        "session_state",
        "runs",
        "session",
        "server",
        "management",
    ),
}
"""Rooms and modules of a package, the lowest first: none imports one that stands further to the right."""

CIRCLE_MAX = 8
"""Modules of one circle."""

SENTENCE_END = re.compile(r"\.(?=\s|$)")

IN_ROOMS = ("mqbroker", "mqclient", "mqspark")
"""Packages whose circles stay in a room, and within :data:`CIRCLE_MAX`."""


def modules(root: Path) -> dict[str, Path]:
    found = {}
    for source in SOURCES:
        for path in (root / source).rglob("*.py"):
            parts = path.relative_to(root / source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph(root: Path) -> dict[str, set[str]]:
    """All imports of all modules, also those inside functions and those that only types need."""
    found = modules(root)
    return {name: set(_imports(path, found)) - {name} for name, path in found.items()}


def _imports(path: Path, known: Collection[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield from {name for name in (f"{node.module}.{alias.name}",) if name in known} or {node.module} & set(known)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def unintroduced(found: Mapping[str, Path]) -> list[str]:
    """Packages and rooms whose first lines do not say in two sentences what lives there, and what may come in or not."""
    first_lines = {
        name: ast.get_docstring(ast.parse(path.read_text("utf-8"))) for name, path in found.items() if path.name == "__init__.py"
    }
    return [name for name, text in sorted(first_lines.items()) if len(SENTENCE_END.findall(text or "")) < 2]


def crowded(names: Collection[str], packages: Collection[str]) -> list[str]:
    """Folders with too many modules side by side."""
    count = Counter(name.rpartition(".")[0] for name in names if name not in packages)
    return sorted(f"{folder} has {number} modules" for folder, number in count.items() if number > SIDE_BY_SIDE_MAX)


def breaches(imports: Graph, order: Mapping[str, Sequence[str]]) -> list[str]:
    """Imports against ``order``, and members of a package that ``order`` does not name or that are not there."""
    wrong = []
    for package, members in order.items():
        inside = {name: name.removeprefix(f"{package}.").split(".")[0] for name in imports if name.startswith(f"{package}.")}
        wrong += [f"{package}.{member} has no place in the order" for member in sorted(set(inside.values()) - set(members))]
        wrong += [f"{package}.{member} is not there" for member in members if member not in inside.values()]
        wrong += [
            f"{name} imports {other}"
            for name in sorted(inside)
            for other in sorted(imports[name])
            if other in inside and _place(members, inside[name]) < _place(members, inside[other])
        ]
    return wrong


def circles(imports: Graph) -> list[list[str]]:
    """Modules that import each other, directly or through others: every such group, each sorted by name."""
    reached = {name: _reached(imports, name) for name in imports}
    found = {frozenset((name, *(other for other in reached[name] if name in reached[other]))) for name in imports}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def _reached(imports: Graph, name: str) -> set[str]:
    """The modules that ``name`` imports, directly or through others."""
    found: set[str] = set()
    pending = [name]
    while pending:
        new = set(imports[pending.pop()]) - found
        found |= new
        pending += new
    return found


def wide(imports: Graph, packages: Collection[str]) -> list[str]:
    """Circles with a module of ``packages`` that leave a room (a folder), or that have too many modules."""
    wrong = []
    for circle in circles(imports):
        if not any(name == package or name.startswith(f"{package}.") for name in circle for package in packages):
            continue
        if len({name.rpartition(".")[0] for name in circle}) > 1:
            wrong.append(f"leaves its room: {', '.join(circle)}")
        if len(circle) > CIRCLE_MAX:
            wrong.append(f"has {len(circle)} modules: {', '.join(circle)}")
    return wrong


def _place(members: Sequence[str], member: str) -> int:
    return members.index(member) if member in members else 0


class RoomTests(SynchronousTestCase):
    def test_no_folder_is_crowded(self) -> None:
        found = modules(ROOT)
        packages = {name for name, path in found.items() if path.name == "__init__.py"}
        self.assertEqual(crowded(found, packages), [])

    def test_a_lower_room_imports_no_higher_one(self) -> None:
        self.assertEqual(breaches(graph(ROOT), ORDER), [])

    def test_a_circle_stays_in_its_room_and_is_small(self) -> None:
        self.assertEqual(wide(graph(ROOT), IN_ROOMS), [])

    def test_the_first_lines_of_each_room_say_what_lives_there_and_what_may_come_in(self) -> None:
        self.assertEqual(unintroduced(modules(ROOT)), [])

    def test_rooms_that_say_less_are_noticed(self) -> None:
        found = {}
        for name, text in (
            ("empty", ""),
            ("short", '"""Queues of all kinds."""'),
            ("whole", '"""Queues.\n\nSessions do not come in.\n"""'),
        ):
            folder = Path(self.mktemp())
            folder.mkdir(parents=True)
            found[name] = folder / "__init__.py"
            found[name].write_text(text)
        self.assertEqual(unintroduced(found), ["empty", "short"])

    def test_crowds_are_noticed(self) -> None:
        names = [f"p.room.m{number}" for number in range(SIDE_BY_SIDE_MAX + 1)]
        self.assertEqual(crowded(names, set()), [f"p.room has {SIDE_BY_SIDE_MAX + 1} modules"])
        self.assertEqual(crowded(names, {"p.room.m0"}), [])

    def test_breaches_are_noticed(self) -> None:
        imports = {"p.low.a": {"p.high.b", "q.x"}, "p.high.b": {"p.low.a"}, "p.new": set[str]()}
        order = {"p": ("low", "high", "gone")}
        self.assertEqual(breaches(imports, order), ["p.new has no place in the order", "p.gone is not there", "p.low.a imports p.high.b"])

    def test_wide_circles_are_noticed(self) -> None:
        imports = {"p.a.x": {"p.a.y"}, "p.a.y": {"p.b.z"}, "p.b.z": {"p.a.x", "q.x"}, "q.x": {"q.y"}, "q.y": {"q.x"}}
        self.assertEqual(wide(imports, ("p", "q")), ["leaves its room: p.a.x, p.a.y, p.b.z"])
        self.assertEqual(wide(imports, ("q",)), [])
        ring = {f"p.r.m{number}": {f"p.r.m{(number + 1) % (CIRCLE_MAX + 1)}"} for number in range(CIRCLE_MAX + 1)}
        self.assertEqual(wide(ring, ("p.r",)), [f"has {CIRCLE_MAX + 1} modules: {', '.join(sorted(ring))}"])

    def test_imports_for_types_count(self) -> None:
        folder = Path(self.mktemp()) / "src" / "p"
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B\n")
        (folder / "b.py").write_text("def f():\n    import p.a\n    from p import a\n")
        self.assertEqual(graph(folder.parents[1]), {"p": set(), "p.a": {"p.b"}, "p.b": {"p.a"}})
