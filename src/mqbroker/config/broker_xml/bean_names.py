"""Names of Java beans, as overriding properties and some URLs have them, and the elements that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mqbroker.config.broker_xml.reader import Reader
from mqbroker.config.problems import Findings
from mqbroker.config.properties.entries import Entry
from mqbroker.config.schema.model import Item
from mqclient.text import nearest_name

_FOLDED_ALIASES = {
    "addressfullmessagepolicy": "addressfullpolicy",
    "redeliverymultiplier": "redeliverydelaymultiplier",
    "pagefullmessagepolicy": "pagefullpolicy",
    "pagecachemaxsize": "pagemaxcachesize",
    "enabledasyncconnectionexecution": "asyncconnectionexecutionenabled",
    "networchecknic": "networkchecknic",
    "journalbuffertimeoutaio": "journalbuffertimeout",
    "journalbuffertimeoutnio": "journalbuffertimeout",
    "journalbuffersizeaio": "journalbuffersize",
    "journalbuffersizenio": "journalbuffersize",
    "journalmaxioaio": "journalmaxio",
    "journalmaxionio": "journalmaxio",
    "wildcardroutingenabled": "wildcardroutingenabled",
}
"""Names of Java beans that are not just the element's name."""


def folded(name: str) -> str:
    """What the spellings of one name have in common: ``max-hops``, ``maxHops`` and ``MAX_HOPS`` are one."""
    plain = name.replace("-", "").replace("_", "").lower()
    return _FOLDED_ALIASES.get(plain, plain)


def camel(name: str) -> str:
    """An element's name in the spelling of Java beans."""
    first, *rest = name.split("-")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


_BEAN_NAMES = {
    "address-full-policy": "addressFullMessagePolicy",
    "page-full-policy": "pageFullMessagePolicy",
    "page-max-cache-size": "pageCacheMaxSize",
    "redelivery-delay-multiplier": "redeliveryMultiplier",
    "send-to-dla-on-no-route": "sendToDLAOnNoRoute",
}


def bean_name(name: str) -> str:
    """The name of the Java bean's property that stands for the element ``name`` of an address-setting."""
    return _BEAN_NAMES.get(name) or camel(name)


class BeanReader:
    """Reads the values of entries by the table.  What is wrong goes to ``findings``."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._reader = Reader(findings)

    def value(self, entry: Entry, name: str, items: Iterable[Item], more: Sequence[str] = ()) -> tuple[str, Any] | None:
        """The field and the value that ``entry`` gives to the one of ``items`` called ``name``; None after an error.

        ``more`` are names that may stand there too, for the message.
        """
        by_name = {folded(item.name): item for item in items}
        item = by_name.get(folded(name))
        if item is None:
            self.unknown(entry, name, [*more, *(camel(known.name) for known in by_name.values())])
            return None
        value = self.convert(entry, item)
        return None if value is None else (item.target, value)

    def convert(self, entry: Entry, item: Item) -> Any:
        """The value of ``entry`` as one of ``item``; None after an error."""
        return self._reader.value(item, entry.value, entry.file, entry.line, ".".join(entry.path))

    def filter(self, entry: Entry) -> None:
        """Note that ``entry`` is a filter, which is still to be checked."""
        self._findings.filter(entry.value, entry.file, entry.line)

    def unknown(self, entry: Entry, name: str, known: Sequence[str]) -> None:
        near = nearest_name(name, known)
        hint = f"; did you mean {near}?" if near else f": expected {', '.join(known)}" if len(known) <= 8 else ""
        self.error(entry, f"{'.'.join(entry.path)}: there is no property {name}{hint}")

    def error(self, entry: Entry, text: str) -> None:
        self._findings.error(entry.file, entry.line, text)

    def long_enough(self, entry: Entry, size: int, expected: str) -> bool:
        """Whether the key has ``size`` names at least."""
        if len(entry.path) >= size:
            return True
        self.error(entry, f"{'.'.join(entry.path)}: expected {expected}")
        return False
