"""Properties that override broker.xml, as they are written: keys, values and places.  Their meaning is in :mod:`.overrides`.

A key is a path of names with dots between.  A name that holds dots itself is put in quotes (``key.surround`` names another quote).  The
value ``-`` (``remove.value`` names another) takes away the thing that the key names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mqbroker.config.problems import Findings
from mqbroker.config.properties.properties import PropertiesError, parse_properties
from mqbroker.config.properties.substitution import substitute

JSON_DEPTH_MAX = 32
"""Levels of a JSON file of properties."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One override and where it was written."""

    path: tuple[str, ...]
    value: str
    file: str
    line: int
    removes: bool = False


def read_entries(data: bytes, file: str, substitutions: Mapping[str, str], findings: Findings) -> list[Entry]:
    """The entries of a ``.properties`` or ``.json`` file."""
    try:
        written = _json_entries(data) if file.endswith(".json") else [(each.key, each.value, each.line) for each in parse_properties(data)]
    except PropertiesError as error:
        findings.error(file, error.line, error.text)
        return []
    except (ValueError, RecursionError) as error:
        findings.error(file, getattr(error, "lineno", 0), f"this is not JSON of properties: {error}")
        return []
    special = {key: value for key, value, _ in written if key in ("key.surround", "remove.value")}
    quote, remover = special.get("key.surround", '"'), special.get("remove.value", "-")
    entries: list[Entry] = []
    for key, text, line in written:
        if key in special:
            continue
        missing: list[str] = []
        try:
            value = substitute(text, substitutions, missing.append).strip()
            entries.append(Entry(split_key(key, quote), value, file, line, value == remover))
        except ValueError as error:
            findings.error(file, line, str(error))
        for name in missing:
            findings.warn(file, line, f"${{{name}}} has no value and no default: it is empty")
    return entries


def prefixed_entries(properties: Mapping[str, str], prefix: str, findings: Findings) -> list[Entry]:
    """The entries among system properties."""
    entries: list[Entry] = []
    for key, value in properties.items():
        if key.startswith(prefix):
            try:
                entries.append(Entry(split_key(key.removeprefix(prefix), '"'), value.strip(), f"-D{key}", 0, value.strip() == "-"))
            except ValueError as error:
                findings.error(f"-D{key}", 0, str(error))
    return entries


def split_key(key: str, quote: str) -> tuple[str, ...]:
    """The names in a key.  Raises ValueError when a quote is not closed or a name is empty."""
    names: list[str] = []
    rest = key
    while True:
        if quote and rest.startswith(quote):
            name, closed, rest = rest[len(quote) :].partition(quote)
            if not closed or (rest and not rest.startswith(".")):
                raise ValueError(f"{key}: expected {quote} and a dot, or the end, after {name}")
            more = bool(rest)
            rest = rest[1:]
        else:
            name, dot, rest = rest.partition(".")
            more = bool(dot)
        if not name:
            raise ValueError(f"{key}: a name in the key is empty")
        names.append(name)
        if not more:
            return tuple(names)


def _json_entries(data: bytes) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []

    def walk(value: object, names: tuple[str, ...]) -> None:
        if isinstance(value, dict) and len(names) < JSON_DEPTH_MAX:
            for name, inner in value.items():
                walk(inner, (*names, name if not names or '"' in name or "." not in name else f'"{name}"'))
        elif isinstance(value, str | int | float):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            found.append((".".join(names), text, 0))
        else:
            raise ValueError(f"{'.'.join(names)}: expected a text, a number, true, false or an object")

    import json  # few brokers have such a file

    walk(json.loads(data), ())
    return found
