"""The tables of ``protocol-spec/``, made from the grammar.

A chapter marks the place of a table with two comment lines::

    <!-- generated: NAME -->
    <!-- end: NAME -->

:func:`refresh` puts the table of that name between them.  Nothing here reads or writes files; ``generate.py`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import construct as cs

from mqclient.errors import ERROR_CLASSES
from mqclient.wire.packets import grammar_messages, grammar_types
from mqclient.wire.packets.grammar import CHAPTERS, GRAMMAR
from mqclient.wire.packets.grammar_packets import Description, Presence, UpToTrailer, When
from mqclient.wire.packets.grammar_types import Wire

_REGION = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.DOTALL)


def refresh(text: str) -> str:
    """``text`` of a chapter with all its tables as the grammar gives them now.  Raises KeyError for a table that does not exist."""
    return _REGION.sub(lambda found: f"{found[1]}\n{TABLES[found['name']]()}\n{found[3]}", text)


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "\n".join([_row(*head), _row(*("---" for _ in head)), *(_row(*row) for row in rows)]) + "\n"


def _field(entry: Any) -> tuple[str, str, str, str]:
    """(name, type, when it is there, notes) of one field of a ``Struct``."""
    subcon = entry
    when: list[str] = []
    while not isinstance(subcon, Wire):
        if isinstance(subcon, When):
            when.append(subcon.text)
        if isinstance(subcon, UpToTrailer):
            when.append("up to the trailer")
        subcon = subcon.subcon
    return f"`{entry.name}`", subcon.label, ", ".join(when), entry.docs


def _fields(layout: Any) -> str:
    entries = [entry for entry in layout.subcons if entry.name and not isinstance(entry.subcon, Presence)]
    rows: list[tuple[object, ...]] = [(number, *_field(entry)) for number, entry in enumerate(entries, 1)]
    return _table(("#", "field", "type", "when", "notes"), rows) if rows else "Empty body.\n"


def _packet(description: Description) -> str:
    facts = [f"Direction {description.direction}, channel {description.channel}"]
    if description.since:
        facts.append(f"since version {description.since}")
    facts.append("counted" if description.counted else "not counted")
    if description.response:
        facts.append("a response")
    if description.answer:
        facts.append(f"answered by {description.answer}")
    return "\n".join(
        (
            f"### {description.name} ({description.type})",
            "",
            description.meaning,
            "",
            "; ".join(facts) + ".",
            "",
            _fields(description.layout),
        )
    )


def _chapter(name: str) -> Callable[[], str]:
    return lambda: "\n".join(_packet(description) for description in CHAPTERS[name])


def _numbers() -> str:
    order = sorted(GRAMMAR.values(), key=lambda description: (description.type < 0, abs(description.type)))
    return _table(
        ("type", "name", "direction", "channel", "since", "counted", "response", "answered by"),
        [
            (
                description.type,
                description.name,
                description.direction,
                description.channel,
                description.since or "all",
                "yes" if description.counted else "no",
                "yes" if description.response else "",
                description.answer,
            )
            for description in order
        ],
    )


def _types() -> str:
    named = {entry.label: entry.meaning for entry in vars(grammar_types).values() if isinstance(entry, Wire) and entry.meaning}
    return _table(("type", "encoding"), list(named.items()))


def _value_types(types: dict[int, tuple[str, Any]]) -> str:
    rows: list[tuple[object, ...]] = []
    for kind, (name, subcon) in sorted(types.items()):
        rows.append((kind, name, "nothing" if subcon is cs.Pass else subcon.label))
    return _table(("type", "name", "value"), rows)


def _errors() -> str:
    return _table(
        ("code", "class", "may be tried again"),
        [(code, f"`{cls.__name__}`", "yes" if cls.retriable else "") for code, cls in sorted(ERROR_CLASSES.items())],
    )


TABLES: dict[str, Callable[[], str]] = {
    **{name: _chapter(name) for name in CHAPTERS},
    "numbers": _numbers,
    "types": _types,
    "message": lambda: _fields(grammar_messages.MESSAGE),
    "headers": lambda: _fields(grammar_messages.HEADERS),
    "old-message": lambda: _fields(grammar_messages.OLD_MESSAGE_BYTES),
    "property-types": lambda: _value_types(grammar_messages.PROPERTY_TYPES),
    "stream-types": lambda: _value_types(grammar_messages.STREAM_TYPES),
    "errors": _errors,
}
"""What can stand in a marked region, by name."""
