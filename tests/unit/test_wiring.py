"""What a part needs it gets when it is made: nobody hangs callables or parts on the objects of others afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

SOURCES = Path(__file__).resolve().parents[2] / "src"

ALLOWED = {
    # Data that changes with the work:
    ("mqbroker/messaging/queues/groups.py", "consumer"): "a choice names a consumer",
    ("mqbroker/messaging/queues/non_destructive.py", "consumer"): "a reference knows who has it",
    ("mqbroker/messaging/queues/queue.py", "consumer"): "the same",
    ("mqbroker/imq/delivery/remote_queue.py", "consumer"): "the same",
    ("mqbroker/messaging/queues/paging.py", "paging"): "an account pages for a while",
    ("mqbroker/messaging/queues/paging.py", "listener"): "a folder of pages tells whoever pages, as long as the address does",
    ("mqbroker/messaging/delivery/redistribution.py", "redistributor"): "a queue gives messages away as long as others want them",
    ("mqbroker/messaging/readers/readers.py", "log"): "a queue is read by message id as long as somebody wants that",
    ("mqbroker/messaging/readers/places.py", "ended"): "a source of rows is read to its end, or not",
    ("mqbroker/storage/files/recover.py", "large"): "a message that is copied gets the copy of its body",
    ("mqbroker/cli/data/journal_folder.py", "paging"): "the name of a folder",
    # Slots of other packages:
    ("mqbroker/monitoring.py", "log"): "of a site of Twisted",
    ("mqbroker/tap.py", "clock"): "of a LoopingCall of Twisted",
    ("mqbroker/cluster/remote_queues/listening.py", "on_disconnected"): "public in mqclient",
    ("mqbroker/cluster/links/forwarder.py", "on_room"): "public in mqclient",
    ("mqbroker/ha/branches.py", "on_room"): "the same",
    ("mqbroker/ha/moving.py", "on_room"): "the same",
}
"""Attributes that others may set, by the module that does, and why."""


def trees(folder: Path) -> dict[str, ast.Module]:
    return {str(path.relative_to(folder)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def slots(modules: Iterable[ast.Module]) -> set[str]:
    """Attributes that are declared as a callable, an event or something with a protocol, or as None beside one of these."""
    nodes = [node for module in modules for node in ast.walk(module)]
    kinds = {"Callable", "Event"}
    kinds |= {node.name for node in nodes if isinstance(node, ast.ClassDef) and "Protocol" in {_name(base) for base in node.bases}}
    return {_name(node.target) for node in nodes if isinstance(node, ast.AnnAssign) and kinds & set(_parts(node.annotation))}


def _name(node: ast.AST) -> str:
    """The last part of a name, also of one with parameters."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _parts(annotation: ast.AST) -> Iterator[str]:
    """The names between the bars of a union."""
    if isinstance(annotation, ast.BinOp):
        yield from _parts(annotation.left)
        yield from _parts(annotation.right)
    yield _name(annotation)


def hung_on(module: ast.Module, slots: set[str]) -> Iterator[tuple[str, str]]:
    """Name of the attribute and text of each assignment of a callable or a part to an attribute of another object."""
    classes = {node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef)}
    methods = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and not node.decorator_list}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            method = isinstance(node.value, ast.Attribute) and _name(node.value.value) == "self" and node.value.attr in methods
            for target in _targets(node):
                own = isinstance(target.value, ast.Name) and target.value.id in {"self", "cls", *classes}
                foreign = target.attr[0].isupper()  # no attribute of this project begins so
                if not own and not foreign and (method or isinstance(node.value, ast.Lambda) or _is_part(target, node.value, slots)):
                    yield target.attr, ast.unparse(node)


def _is_part(target: ast.Attribute, value: ast.expr, slots: set[str]) -> bool:
    """Is the value of a slot a part?  None, truth values, and what a method gives (a timer, an open file) are none."""
    made = isinstance(value, ast.Call) and not _name(value.func).lstrip("_")[:1].isupper()
    return target.attr in slots and not isinstance(value, ast.Constant) and not made


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.Attribute]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for each in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(each, ast.Attribute):
                yield each


class WiringTests(SynchronousTestCase):
    def test_nothing_is_hung_on_afterwards(self) -> None:
        modules = trees(SOURCES)
        known = slots(modules.values())
        found = [(name, *each) for name, module in modules.items() for each in hung_on(module, known)]
        self.assertEqual([each for each in found if each[:2] not in ALLOWED], [])
        self.assertEqual(set(ALLOWED) - {each[:2] for each in found}, set(), "allowed, but nobody does it any more")

    def test_a_planted_breach_is_noticed(self) -> None:
        for planted in (
            "server.on_empty = lambda: None",
            "server.turn.on_failure = self._failed",
            "self.core.on_consumer = redistribution.changed",
            "server.cluster = manager = Manager(server)",
            "server.bridges, server.name = bridges, name",
        ):
            module = ast.parse(
                "class Port(Protocol): ...\n"
                "class Part:\n"
                "    def _failed(self): ...\n"
                "    def __init__(self, other: Port):\n"
                "        self.on_consumer: Callable[[], None] = None\n"
                "        self.cluster: Port | None = None\n"
                "        self.bridges: links.Port\n"
                "        self.on_consumer = self._failed\n"
                "        self.cluster.name = None\n"
                f"        {planted}\n"
            )
            self.assertEqual([text for _, text in hung_on(module, slots([module]))], [ast.unparse(ast.parse(planted))])
