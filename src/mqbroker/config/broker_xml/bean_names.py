"""Names of Java beans, as overriding properties and some URLs have them, and the elements that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mqbroker.config.broker_xml.reader import Reader, Ref
from mqbroker.config.problems import Findings, did_you_mean
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.model import Item, camel

_REFS = ("connectors", "static_connectors", "excludes")


def folded(name: str) -> str:
    """The common form of all spellings of a name: ``max-hops``, ``maxHops`` and ``MAX_HOPS`` give the same."""
    return name.replace("-", "").replace("_", "").lower()


class BeanReader:
    """Reads the values of entries by the table.  Errors go to ``findings``."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._reader = Reader(findings)

    def value(self, entry: Entry, name: str, items: Iterable[Item], more: Sequence[str] = ()) -> tuple[str, Any] | None:
        """The field and the value that ``entry`` gives to the one of ``items`` called ``name``; None after an error.

        ``more`` are names that may stand there too, for the message.
        """
        item = self.item(entry, name, items, more)
        if item is None:
            return None
        value = self.convert(entry, item)
        if item.target in _REFS and value is not None:
            value = tuple(Ref(each, (entry.file, entry.line)) for each in value)
        return None if value is None else (item.target, value)

    def item(self, entry: Entry, name: str, items: Iterable[Item], more: Sequence[str] = ()) -> Item | None:
        """The one of ``items`` called ``name``; None after an error."""
        known = {bean: item for item in items for bean in (camel(item.name), *item.beans)}
        found = {folded(bean): item for bean, item in known.items()}.get(folded(name))
        if found is None:
            self.unknown(entry, name, [*more, *known])
        return found

    def convert(self, entry: Entry, item: Item) -> Any:
        """The value of ``entry`` as one of ``item``; None after an error."""
        return self._reader.value(item, entry.value, entry.file, entry.line, ".".join(entry.path))

    def unknown(self, entry: Entry, name: str, known: Sequence[str]) -> None:
        hint = did_you_mean(name, known, f": expected {', '.join(known)}" if 0 < len(known) <= 8 else "")
        self.error(entry, f"{'.'.join(entry.path)}: there is no property {name}{hint}")

    def error(self, entry: Entry, text: str) -> None:
        self._findings.error(entry.file, entry.line, text)

    def long_enough(self, entry: Entry, size: int, expected: str) -> bool:
        """Whether the key has ``size`` names at least."""
        if len(entry.path) >= size:
            return True
        self.error(entry, f"{'.'.join(entry.path)}: expected {expected}")
        return False
