"""Reads an XML file element by element, without holding the whole file."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final
from xml.parsers import expat

_CHUNK: Final = 64 * 1024


class XmlFormatError(ValueError):
    """The file is not of the format that was expected; the text names the line."""


@dataclass(slots=True)
class Node:
    """An element.  ``pieces`` are the texts of its CDATA sections, one by one; ``text`` is the text outside of them."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Node] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    text: str = ""

    def find(self, *path: str) -> Iterator[Node]:
        """The elements below that are reached by these names."""
        for child in self.children:
            if child.name == path[0]:
                if len(path) == 1:
                    yield child
                else:
                    yield from child.find(*path[1:])


def read_nodes(file: BinaryIO, root: str, names: Collection[str]) -> Iterator[Node]:
    """Every element in ``names``, complete, in the order of the file.  Raises :class:`XmlFormatError`."""
    builder = _Builder(root, names)
    while True:
        chunk = file.read(_CHUNK)
        try:
            builder.parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            raise XmlFormatError(f"line {error.lineno}: this is not XML: {expat.ErrorString(error.code)}") from error
        while builder.complete:
            yield builder.complete.popleft()
        if not chunk:
            return


class _Builder:
    def __init__(self, root: str, names: Collection[str]) -> None:
        self._root = root
        self._names = names
        self._stack: list[Node] = []
        self._in_cdata = False
        self._depth = 0
        self.complete: deque[Node] = deque()
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartCdataSectionHandler = self._start_cdata
        self.parser.EndCdataSectionHandler = self._end_cdata
        self.parser.EntityDeclHandler = self._entity

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._depth += 1
        if self._depth == 1 and name != self._root:
            raise XmlFormatError(f"line {self.parser.CurrentLineNumber}: the root is <{name}>, expected <{self._root}>")
        if self._stack or name in self._names:
            node = Node(name, attributes, self.parser.CurrentLineNumber)
            if self._stack:
                self._stack[-1].children.append(node)
            self._stack.append(node)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if self._stack:
            node = self._stack.pop()
            if not self._stack:
                self.complete.append(node)

    def _start_cdata(self) -> None:
        self._in_cdata = True
        if self._stack:
            self._stack[-1].pieces.append("")

    def _end_cdata(self) -> None:
        self._in_cdata = False

    def _characters(self, text: str) -> None:
        if not self._stack:
            return
        node = self._stack[-1]
        if self._in_cdata:
            node.pieces[-1] += text
        else:
            node.text += text

    def _entity(self, *_: object) -> None:
        raise XmlFormatError(f"line {self.parser.CurrentLineNumber}: entities are not allowed in such a file")
