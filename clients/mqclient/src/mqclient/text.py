"""Small help for messages that a person reads."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` was probably meant to be, or None when none comes near.  Case does not count as a difference."""
    from difflib import get_close_matches  # only a message needs it

    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.lower(), candidate)
    close = get_close_matches(name.lower(), by_folded, 1, 0.6)
    return by_folded[close[0]] if close else None
