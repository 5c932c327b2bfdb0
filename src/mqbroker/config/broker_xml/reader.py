"""Reads nodes by the table, and reports every error in them.

The outcome is a tree of :class:`Content`.  Properties that override broker.xml change the tree before a configuration is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mqbroker.config.broker_xml.tree import Node
from mqbroker.config.problems import Findings, did_you_mean
from mqbroker.config.schema.model import Block, Item, Support
from mqbroker.config.schema.values import NAME_LIST
from mqclient.urls import masked

LISTED_MAX = 8  # names in a sentence about the expected ones
SHOWN_MAX = 80  # characters of a wrong value in a message


Place = tuple[str, int]
"""File and line."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The name of a connector, where it is used."""

    name: str
    place: Place


@dataclass(slots=True)
class Content:
    """The contents of one block of the files: values by dataclass field, the place of each, and the blocks inside with their names.

    None as a value counts as not set.
    """

    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    inside: list[tuple[str, Content]] = field(default_factory=list)
    text: Any = None

    @property
    def name(self) -> str | None:
        """The name or match of the block; None after an error that was reported."""
        found: str | None = self.values.get("name", self.values.get("match"))
        return found

    def at(self, *names: str) -> Place:
        """The place of the first of the fields ``names`` that is set, or else the place of the block."""
        return next((self.places[name] for name in names if name in self.places), self.place)

    def put(self, name: str, value: Any, place: Place) -> None:
        self.values[name] = value
        self.places[name] = place

    def all(self, *path: str) -> Iterator[Content]:
        """The blocks at the end of a path of names."""
        for name, content in self.inside:
            if name == path[0]:
                yield from content.all(*path[1:]) if len(path) > 1 else (content,)

    def one(self, place: Place, *path: str) -> Content:
        """The first block at the end of a path of names; where there is none, a new one that was written at ``place``."""
        found = self
        for name in path:
            inner = next(found.all(name), None)
            if inner is None:
                inner = Content(place)
                found.inside.append((name, inner))
            found = inner
        return found

    def properties(self) -> dict[str, str]:
        """The elements ``property``."""
        return {each.values["key"]: each.values.get("value", "") for each in self.all("property") if "key" in each.values}


class Reader:
    """Checks nodes against the table.  Errors and warnings go to ``findings``."""

    def __init__(self, findings: Findings, hints: dict[str, str] | None = None) -> None:
        self.findings = findings
        self._hints = hints or {}

    def read(self, node: Node, block: Block) -> Content:
        """The values in ``node`` that are without errors; entries with errors are left out."""
        content = Content((node.file, node.line))
        self._read_attributes(node, block, content)
        seen: dict[str, Node] = {}
        for child in node.children:
            entry = block.child(child.name)
            if entry is None:
                self._unknown_element(child, node, block)
            elif child.namespace != node.namespace:
                self.error(
                    child, f"<{child.name}> is in the namespace {child.namespace or '(none)'}: expected {node.namespace or '(none)'}"
                )
            elif child.name in seen and not (isinstance(entry, Block) and entry.repeated):
                self.error(child, f"<{child.name}> is here a second time (first on line {seen[child.name].line}): expected it once")
            else:
                seen[child.name] = child
                self._read_child(child, entry, content)
        self._read_text(node, block, content)
        return content

    def error(self, node: Node, text: str) -> None:
        self.findings.error(node.file, node.line, text)

    def warn(self, node: Node, text: str) -> None:
        self.findings.warn(node.file, node.line, text)

    def value(self, item: Item, text: str, file: str, line: int, shown: str) -> Any:
        """The value of ``item`` that ``text`` means, or None after an error.  ``shown`` is how a message names the item."""
        try:
            value = item.kind.convert(text)
        except ValueError:
            hint = did_you_mean(text, item.kind.choices)
            self.findings.error(file, line, f"{shown}: {_cut(text)!r} is not valid: expected {item.kind.expected}{hint}")
            return None
        if item.unless is not None and value not in item.unless:
            says = f"{shown} ({_cut(text)})" if text else shown
            if item.support is Support.REFUSED:
                self.findings.error(file, line, f"{says} cannot be used: {item.reason}")
            elif item.support is Support.IGNORED:
                self.findings.warn(file, line, f"{says} has no effect: {item.reason}")
        if item.instead:
            self.findings.warn(file, line, f"AMQ221038: {shown} is an old name: write {item.instead}")
        return value

    def refuse(self, node: Node, block: Block) -> bool:
        """Report a block that cannot be used.  False for an empty block, which asks for nothing."""
        asked = [child for child in node.children if child.name not in block.harmless or child.children or child.text]
        if not (asked or node.attributes or node.text):
            return False
        self.error(node, f"<{node.name}> cannot be used: {block.reason}")
        return True

    def _read_attributes(self, node: Node, block: Block, content: Content) -> None:
        for name, text in node.attributes.items():
            item = block.attribute(name)
            if item is None:
                known = [attribute.name for attribute in block.attributes]
                self.error(node, f"<{node.name}> has no attribute {name}{_instead(name, known)}")
                continue
            value = self.value(item, text.strip(), node.file, node.line, f"<{node.name} {name}>")
            if value is not None:
                content.put(item.target, value, (node.file, node.line))
        for item in block.attributes:
            if item.required and item.name not in node.attributes:
                self.error(node, f"<{node.name}> lacks the attribute {item.name}: expected {item.kind.expected}")

    def _read_child(self, child: Node, entry: Item | Block, content: Content) -> None:
        if isinstance(entry, Item):
            for grandchild in child.children:
                self.error(grandchild, f"<{grandchild.name}> is not allowed here: <{child.name}> holds only {entry.kind.expected}")
            for name in child.attributes:
                self.error(child, f"<{child.name}> has no attribute {name}")
            value = self.value(entry, child.text, child.file, child.line, f"<{child.name}>")
            if value is not None:
                content.put(entry.target, value, (child.file, child.line))
            return
        if entry.support is Support.REFUSED and not entry.children and entry.text is None:
            self.refuse(child, entry)
            return
        if entry.support is Support.REFUSED:
            self.error(child, f"<{child.name}> cannot be used: {entry.reason}")
            return
        if entry.instead:
            self.warn(child, f"AMQ221038: <{child.name}> is an old element: write <{entry.instead}>")
        inner = self.read(child, entry)
        if entry.gives is None:
            content.inside.append((child.name, inner))
        else:
            self._give(child, entry, entry.gives.target, inner, content)

    def _give(self, node: Node, block: Block, name: str, content: Content, outer: Content) -> None:
        """Put the value of ``content`` into the field ``name`` of the block around it."""
        if block.text is not None:
            connector = self._connector(node, content)
            if connector is not None:
                refs = (*outer.values.get(name, ()), Ref(connector, content.place))
                outer.put(name, refs if block.repeated else connector, content.place)
        elif block.gives is not None and block.gives.kind is NAME_LIST:
            outer.put(name, content.values.pop("connectors", ()), content.place)
            outer.values |= content.values
        else:
            outer.put(name, next(iter(content.values.values()), None) or None, content.place)

    def _connector(self, node: Node, content: Content) -> str | None:
        """The connector that is named as text or in an attribute; None after an error."""
        names = {*content.values.values()} | ({content.text} if content.text else set())
        if len(names) > 1:
            self.error(node, f"<connector-ref> names {', '.join(sorted(names))}: expected one connector")
        elif not names and not node.attributes:
            self.error(node, "<connector-ref> is empty: expected the name of a connector")
        return names.pop() if len(names) == 1 else None

    def _read_text(self, node: Node, block: Block, content: Content) -> None:
        if block.text is None:
            if node.text:
                self.error(node, f"<{node.name}> must not hold text, but there is {_cut(node.text)!r}")
            return
        try:
            content.text = block.text.convert(node.text)
        except ValueError:
            self.error(node, f"<{node.name}>: {_cut(node.text)!r} is not valid: expected {block.text.expected}")

    def _unknown_element(self, child: Node, parent: Node, block: Block) -> None:
        hint = self._hints.get(child.name)
        if hint:
            self.error(child, f"<{child.name}> is not an element of <{parent.name}>: {hint}")
            return
        known = [entry.name for entry in block.children]
        self.error(child, f"<{child.name}> is not an element of <{parent.name}>{_instead(child.name, known)}")


def _instead(name: str, known: Sequence[str]) -> str:
    return did_you_mean(name, known, f": expected {', '.join(known) or 'none'}" if len(known) <= LISTED_MAX else "")


def _cut(text: str) -> str:
    if "://" in text:
        text = masked(text)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
