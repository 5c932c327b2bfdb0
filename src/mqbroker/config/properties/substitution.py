"""``${name}`` and ``${name:default}`` in configuration files.

A name is looked up in the properties that are passed in; a missing one takes the default, or else is empty.  Defaults and values may hold
further placeholders.  Inserted text is never read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

EXPANSIONS_MAX = 1000
"""Placeholders in one text; more means that values name each other in a circle."""

LENGTH_MAX = 1 << 20
"""Characters of one expanded text."""


class SubstitutionError(ValueError):
    """A text whose placeholders cannot be replaced."""


def substitute(text: str, properties: Mapping[str, str], missing: Callable[[str], None]) -> str:
    """Replace every placeholder in ``text``.

    ``missing`` is told each name that has neither a value nor a default.  Raises :class:`SubstitutionError`.
    """
    for _ in range(EXPANSIONS_MAX):
        start = text.rfind("${")  # the last one has no other placeholder inside
        if start < 0:
            return text
        end = text.find("}", start)
        if end < 0:
            raise SubstitutionError("'${' without '}': expected ${name} or ${name:default}")
        name, colon, default = text[start + 2 : end].partition(":")
        name = name.strip()
        value = properties.get(name)
        if value is None:
            if not colon:
                missing(name)
            value = default
        text = text[:start] + value + text[end + 1 :]
        if len(text) > LENGTH_MAX:
            break
    raise SubstitutionError("the placeholders lead in a circle: a value contains its own name")
