"""Wildcards in names: two engines, as the Artemis manual's chapter on wildcard syntax describes them.

*Settings* (``address-setting``, ``security-setting``) are found by name in a :class:`HierarchicalRepository`: ``*`` stands for one or more
characters of a word wherever it is written, ``#`` may only end a match.  *Queue addresses* are compared word by word by
:func:`matches_binding`: there a wildcard counts only as a whole word, and ``#`` may stand anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Generic, TypeVar

from mqbroker.config.model.address_settings import FIELD_NAMES, AddressSettings, PartialSettings, merge

T = TypeVar("T")

CACHED_NAMES_MAX = 1000
"""Names whose settings are kept ready: clients choose names, and more than these are looked up anew."""

Permissions = Mapping[str, frozenset[str]]
"""The roles that have each permission, by permission type."""


@dataclass(frozen=True, slots=True)
class Wildcards:
    """The characters of ``wildcard-addresses``.  ``routing_enabled`` false: a queue address with wildcards is a plain name."""

    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"
    routing_enabled: bool = True


def is_wildcard(address: str, wildcards: Wildcards) -> bool:
    """Whether a queue on ``address`` receives from other addresses too."""
    if not wildcards.routing_enabled:
        return False
    special = (wildcards.any_words, wildcards.single_word)
    return any(word in special for word in address.split(wildcards.delimiter))


def matches_binding(pattern: str, address: str, wildcards: Wildcards) -> bool:
    """Does a queue whose address is ``pattern`` receive messages sent to ``address``?"""
    if pattern == address:
        return True
    if not is_wildcard(pattern, wildcards):
        return False
    patterns = pattern.split(wildcards.delimiter)
    words = address.split(wildcards.delimiter)
    at_pattern = at_word = 0
    retry_pattern = retry_word = -1  # where to go on when the last "#" takes one more word
    while at_word < len(words):
        expected = patterns[at_pattern] if at_pattern < len(patterns) else None
        if expected == wildcards.any_words:
            retry_pattern, retry_word = at_pattern, at_word
            at_pattern += 1
        elif expected is not None and (expected == words[at_word] or (expected == wildcards.single_word and words[at_word])):
            at_pattern += 1
            at_word += 1
        elif retry_pattern >= 0:
            retry_word += 1
            at_pattern, at_word = retry_pattern + 1, retry_word
        else:
            return False
    return all(word == wildcards.any_words for word in patterns[at_pattern:])


class HierarchicalRepository(Generic[T]):
    """Values by match, found by name, the most specific match first.

    ``literal_markers``, two characters, enclose a match that is meant literally although it holds wildcard characters.
    ``version`` rises at every change.
    """

    def __init__(self, wildcards: Wildcards, literal_markers: str | None = None) -> None:
        self.version = 0
        self._wildcards = wildcards
        self._literal_markers = literal_markers
        self._values: dict[str, T] = {}
        self._literals: dict[str, T] = {}
        self._patterns: list[tuple[re.Pattern[str], T]] = []

    def check_match(self, match: str) -> None:
        """Raises ValueError when ``match`` cannot be used: empty, or with a wildcard for any words that is not at its end."""
        if not match:
            raise ValueError("a match must not be empty")
        if self._literal_of(match) is None and self._wildcards.any_words in match[:-1]:
            raise ValueError(f"AMQ229071: {self._wildcards.any_words} can only be at the end of a match, not in {match}")

    def set(self, match: str, value: T) -> None:
        """Add ``value``, or replace the one of the same match.  Raises ValueError as :meth:`check_match`."""
        self.check_match(match)
        self._rebuild({**self._values, match: value})

    def remove(self, match: str) -> bool:
        """Take a match away; false when there was none."""
        if match not in self._values:
            return False
        self._rebuild({key: value for key, value in self._values.items() if key != match})
        return True

    def swap(self, values: Mapping[str, T]) -> None:
        """Replace everything at once.  Raises ValueError as :meth:`check_match`; nothing has changed then."""
        for match in values:
            self.check_match(match)
        self._rebuild(dict(values))

    def values(self) -> dict[str, T]:
        """All values, by match."""
        return dict(self._values)

    def get(self, match: str) -> T | None:
        """The value of exactly this match."""
        return self._values.get(match)

    def candidates(self, name: str) -> list[T]:
        """Every value that applies to ``name``, the most specific first."""
        found: list[T] = []
        if name in self._values:
            found.append(self._values[name])
        if name in self._literals:
            found.append(self._literals[name])
        exact = self._values.get(name)
        found += [value for pattern, value in self._patterns if value is not exact and pattern.fullmatch(name)]
        return found

    def changed(self) -> None:
        """Called after every change; a subclass clears its caches."""

    def _rebuild(self, values: dict[str, T]) -> None:
        self._values = values
        self._literals = {}
        wild: list[str] = []
        for match, value in values.items():
            literal = self._literal_of(match)
            if literal is not None:
                self._literals[literal] = value
            elif self._wildcards.any_words in match or self._wildcards.single_word in match:
                wild.append(match)
        wild.sort(key=cmp_to_key(self._compare))
        self._patterns = [(self._compile(match), values[match]) for match in wild]
        self.version += 1
        self.changed()

    def _literal_of(self, match: str) -> str | None:
        markers = self._literal_markers
        if markers and len(match) > 2 and match[0] == markers[0] and match[-1] == markers[1]:
            return match[1:-1]
        return None

    def _compile(self, match: str) -> re.Pattern[str]:
        delimiter, any_words, single = self._wildcards.delimiter, self._wildcards.any_words, self._wildcards.single_word
        if match == any_words:
            return re.compile(".*", re.DOTALL)
        open_ended = match.endswith(any_words)
        if open_ended:
            match = match.removesuffix(any_words).removesuffix(delimiter)
        one_word = f"[^{re.escape(delimiter)}]+"
        text = "".join(one_word if character == single else re.escape(character) for character in match)
        if open_ended:
            text += f"(?:{re.escape(delimiter)}.*)?"
        return re.compile(text, re.DOTALL)

    def _compare(self, one: str, other: str) -> int:
        """Below 0 when ``one`` is more specific."""
        any_words, single = self._wildcards.any_words, self._wildcards.single_word
        one_open, other_open = any_words in one, any_words in other
        if one_open != other_open:
            return 1 if one_open else -1
        if one_open:
            return len(other) - len(one) or _order(one, other)
        words = zip(one.split(self._wildcards.delimiter), other.split(self._wildcards.delimiter), strict=False)
        for one_word, other_word in words:
            if (single in one_word) != (single in other_word):
                return 1 if single in one_word else -1
        return len(one) - len(other) or _order(one, other)


def _order(one: str, other: str) -> int:
    return (one > other) - (one < other)


class AddressSettingsRepository(HierarchicalRepository[PartialSettings]):
    """Address settings: all matches of an address are merged, field by field."""

    def __init__(
        self,
        wildcards: Wildcards | None = None,
        literal_markers: str | None = None,
        defaults: AddressSettings | None = None,
        settings: Mapping[str, PartialSettings] | None = None,
    ) -> None:
        super().__init__(wildcards or Wildcards(), literal_markers)
        self._defaults = defaults or AddressSettings()
        self._resolved: dict[tuple[str, int], AddressSettings] = {}
        self._merged: dict[tuple[int, ...], AddressSettings] = {}
        if settings:
            self.swap(settings)

    def check_settings(self, partial: PartialSettings) -> None:
        """Raises ValueError when ``partial`` names a field that does not exist."""
        unknown = sorted(partial.keys() - FIELD_NAMES)
        if unknown:
            raise ValueError(f"address settings have no {', '.join(unknown)}")

    def set(self, match: str, value: PartialSettings) -> None:
        self.check_settings(value)
        super().set(match, value)

    def swap(self, values: Mapping[str, PartialSettings]) -> None:
        for partial in values.values():
            self.check_settings(partial)
        super().swap(values)

    def lookup(self, address: str, automatic: PartialSettings | None = None) -> AddressSettings:
        """The settings of ``address``; for ``address::queue`` the settings of the address.

        ``automatic`` are those of an address that was created because somebody used it: they come before the match of all addresses, and
        behind every more specific one.  The object lives as long as the repository.
        """
        key = address, id(automatic)
        found = self._resolved.get(key)
        if found is None:
            partials = self.candidates(address.partition("::")[0])
            if automatic is not None:
                everything = self._values.get(self._wildcards.any_words)
                last = bool(partials) and partials[-1] is everything
                partials.insert(len(partials) - last, automatic)
            found = self._merge(partials)
            if len(self._resolved) >= CACHED_NAMES_MAX:
                self._resolved.clear()
            self._resolved[key] = found
        return found

    def written(self, address: str) -> dict[str, Any]:
        """The merged settings of all matches of ``address``, without the defaults."""
        found: dict[str, Any] = {}
        for partial in self.candidates(address.partition("::")[0]):
            for name, value in partial.items():
                found.setdefault(name, value)
        return found

    def changed(self) -> None:
        self._resolved = {}
        self._merged = {}

    def _merge(self, partials: list[PartialSettings]) -> AddressSettings:
        """One object for all addresses with the same matches: thousands of temporary queues share it."""
        # the partials live, with their identities, until the next change
        matches = tuple(map(id, partials))
        found = self._merged.get(matches)
        if found is None:
            found = self._merged[matches] = merge(partials, self._defaults)
        return found


class SecurityRepository(HierarchicalRepository[Permissions]):
    """Permissions: only the most specific match counts, nothing is merged, and without a match no user is allowed."""

    def __init__(
        self,
        wildcards: Wildcards | None = None,
        literal_markers: str | None = None,
        settings: Mapping[str, Permissions] | None = None,
    ) -> None:
        super().__init__(wildcards or Wildcards(), literal_markers)
        self._resolved: dict[str, Permissions] = {}
        if settings:
            self.swap(settings)

    def lookup(self, address: str) -> dict[str, frozenset[str]]:
        """The roles by permission for an address or for ``address::queue``.

        A match that is exactly ``address::queue`` comes first.  Without one, a match that is exactly ``address.queue`` still decides
        consume and browse, as older brokers did.
        """
        found = self._resolved.get(address)
        if found is None:
            found = self._find(address)
            if len(self._resolved) >= CACHED_NAMES_MAX:
                self._resolved.clear()
            self._resolved[address] = found
        return dict(found)

    def changed(self) -> None:
        self._resolved = {}

    def _find(self, address: str) -> Permissions:
        """As `lookup`; the value itself, not a copy."""
        name, qualified, queue = address.partition("::")
        if not qualified:
            return self._most_specific(address)
        exact = self.get(address)
        if exact is not None:
            return exact
        found = self._most_specific(name)
        older = self.get(f"{name}.{queue}")
        if older is None:
            return found
        return {**found, **{permission: older.get(permission, frozenset()) for permission in ("consume", "browse")}}

    def _most_specific(self, name: str) -> Permissions:
        candidates = self.candidates(name)
        return candidates[0] if candidates else {}
