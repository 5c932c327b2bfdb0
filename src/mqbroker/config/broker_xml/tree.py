"""An XML file as plain nodes that know file and line, with placeholders and inclusions already replaced.

The reader takes no document type and no entities, and reads no network.  An ``xi:include`` is replaced by the file that it names only when
that file lies in the folder of the configuration or below it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from lxml import etree

from mqbroker.config.problems import Findings
from mqbroker.config.properties.substitution import SubstitutionError, substitute

XINCLUDE = "http://www.w3.org/2001/XInclude"
INCLUDE_DEPTH_MAX = 8
"""Levels of inclusion."""

INCLUDES_MAX = 200
"""Files that a configuration includes."""

FILE_SIZE_MAX = 16 << 20
"""Bytes of one configuration file."""

ReadFile = Callable[[str], bytes]
"""Reads a whole file by path; raises OSError."""


@dataclass(slots=True)
class Node:
    """One element.  ``text`` is its own text, trimmed; ``line`` counts from 1."""

    name: str
    namespace: str
    file: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Node] = field(default_factory=list)


class TreeReader:
    """Reads one configuration file and the files that it includes.  Errors go to ``findings``."""

    def __init__(self, read_file: ReadFile, substitutions: Mapping[str, str], findings: Findings) -> None:
        self._read_file = read_file
        self._substitutions = substitutions
        self._findings = findings
        self._folder = ""
        self._includes = 0

    def load(self, path: str) -> Node | None:
        """The root of the file at ``path``; None after an error."""
        data = self._read(path, path, 0)
        return None if data is None else self.parse(data, path)

    def parse(self, data: bytes | str, name: str) -> Node | None:
        """The root of a text.  Messages call the text ``name``; included files are looked for in the folder of ``name``."""
        self._folder = posixpath.dirname(posixpath.normpath(name))
        return self._parse(data, name, ())

    def _read(self, path: str, file: str, line: int) -> bytes | None:
        try:
            data = self._read_file(path)
        except OSError as error:
            self._findings.error(file, line, f"cannot read {path}: {error.strerror or error}")
            return None
        if len(data) > FILE_SIZE_MAX:
            self._findings.error(file, line, f"{path} is larger than {FILE_SIZE_MAX} bytes")
            return None
        return data

    def _parse(self, data: bytes | str, name: str, including: tuple[str, ...]) -> Node | None:
        encoding = "utf-8" if isinstance(data, str) else None
        parser = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
            encoding=encoding,
        )
        try:
            root = etree.fromstring(data.encode() if isinstance(data, str) else data, parser)
        except etree.XMLSyntaxError as error:
            self._findings.error(name, error.lineno or 0, f"this is not well-formed XML: {_plain(str(error.msg))}")
            return None
        if root.getroottree().docinfo.internalDTD is not None:
            self._findings.error(name, 1, "a document type declaration (<!DOCTYPE …>) is not allowed here")
            return None
        nodes = self._convert(root, name, (*including, posixpath.normpath(name)))
        return nodes[0] if nodes else None

    def _convert(self, element: etree._Element, file: str, including: tuple[str, ...]) -> list[Node]:
        tag = etree.QName(element)
        line = _line(element)
        if tag.namespace == XINCLUDE:
            return self._include(element, file, including) if tag.localname == "include" else []
        node = Node(tag.localname, tag.namespace or "", file, line)
        for key, value in element.attrib.items():
            key_name = etree.QName(key)
            if key_name.namespace is None:
                node.attributes[key_name.localname] = self._substituted(str(value), file, line)
        texts = [element.text or ""]
        for child in element:
            if isinstance(child.tag, str):
                node.children += self._convert(child, file, including)
            texts.append(child.tail or "")
        node.text = self._substituted("".join(texts).strip(), file, line).strip()
        return [node]

    def _substituted(self, text: str, file: str, line: int) -> str:
        if "${" not in text:
            return text
        missing: list[str] = []
        try:
            replaced = substitute(text, self._substitutions, missing.append)
        except SubstitutionError as error:
            self._findings.error(file, line, str(error))
            return ""
        for name in missing:
            self._findings.warn(file, line, f"${{{name}}} has no value and no default: it is empty")
        return replaced

    def _include(self, element: etree._Element, file: str, including: tuple[str, ...]) -> list[Node]:
        line = _line(element)
        problem = self._include_problem(element, including)
        if problem:
            self._findings.error(file, line, problem)
            return []
        self._includes += 1
        path = self._target(self._substituted(element.get("href", ""), file, line), file)
        if path is None:
            where = self._folder or "the current one"
            self._findings.error(file, line, f"xi:include may only name files in the folder of the configuration ({where}) or below it")
            return []
        if path in including:
            self._findings.error(file, line, f"{path} includes itself")
            return []
        fallback = next((child for child in element if child.tag == f"{{{XINCLUDE}}}fallback"), None)
        if fallback is not None:
            try:
                self._read_file(path)
            except OSError:
                return [node for child in fallback if isinstance(child.tag, str) for node in self._convert(child, file, including)]
        data = self._read(path, file, line)
        root = None if data is None else self._parse(data, path, including)
        return [] if root is None else [root]

    def _include_problem(self, element: etree._Element, including: tuple[str, ...]) -> str:
        if element.get("parse", "xml") != "xml" or element.get("xpointer"):
            return "xi:include can only take in whole XML files: expected only the attribute href"
        if not element.get("href"):
            return "xi:include has no attribute href"
        if len(including) >= INCLUDE_DEPTH_MAX:
            return f"files include each other more than {INCLUDE_DEPTH_MAX} deep"
        if self._includes >= INCLUDES_MAX:
            return f"more than {INCLUDES_MAX} files are included"
        return ""

    def _target(self, href: str, file: str) -> str | None:
        if href.startswith("file:"):
            href = "/" + unquote(href.removeprefix("file:").lstrip("/"))
        elif "://" in href:
            return None
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), href))
        folder = self._folder
        if not folder:
            return None if path.startswith(("/", "../")) or path == ".." else path
        return path if path.startswith(folder.rstrip("/") + "/") else None


def _line(element: etree._Element) -> int:
    number = element.sourceline
    return number if isinstance(number, int) else 0


def _plain(message: str) -> str:
    return message.replace("\n", " ").strip()
