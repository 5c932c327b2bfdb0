"""How far a broker has followed a change record, as its data say: also those of a broker that is not there any more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KIND = "imq-record"
"""The kind of the setting in the store that says how far a record is followed."""

LIFE_KIND = "imq-life"
"""The kind of the settings that say where in the record a queue was made; the key is its name."""

Life = tuple[str, int]
"""A generation of the change record, and the position at which a queue was made."""


class Followed:
    """The standing in a store's settings: changes up to ``position`` of the record ``generation`` (None: no record yet) are made.

    ``former`` are the records that this one has come from, ``master`` is host:port.  ``lives`` are those of queues that were made by the
    record, or with it; of queues that were there before, it says nothing.
    """

    def __init__(self, settings: Mapping[tuple[str, str], str]) -> None:
        kept: dict[str, Any] = json.loads(settings.get((KIND, "standing"), "{}"))
        self.generation: str | None = kept.get("generation")
        self.position: int = kept.get("position", 0)
        self.master: str | None = kept.get("master")
        self.former: tuple[str, ...] = tuple(kept.get("former", ()))
        found = ((name, json.loads(text)) for (kind, name), text in settings.items() if kind == LIFE_KIND)
        self.lives: dict[str, Life] = self.former_lives(settings) | {name: (life[0], life[1]) for name, life in found}

    @staticmethod
    def former_lives(settings: Mapping[tuple[str, str], str]) -> dict[str, Life]:
        """The lives of the latest queues, where the store has them in the form before that of :data:`LIFE_KIND`."""
        kept: dict[str, Any] = json.loads(settings.get((KIND, "standing"), "{}"))
        return {name: (life[0], life[1]) for name, life in kept.get("lives", {}).items()}

    def has(self, generation: str, position: int) -> bool:
        """Is everything done up to ``position`` of that record, or of one that has come from it?"""
        return generation in self.former or (generation == self.generation and position <= self.position)

    def missed(self, other: Followed) -> int | None:
        """The position to which the other one has followed the same record, where this one has not; None: nothing is missed.

        A broker that follows no record yet has missed everything.
        """
        if other.generation is None or self.generation not in (None, other.generation) or self.has(other.generation, other.position):
            return None
        return other.position

    def has_later(self, queue: str, other: Followed) -> bool:
        """Was the queue made here at a position of the other one's record to which that has not come?"""
        life = self.lives.get(queue)
        return life is not None and life[0] == other.generation and life[1] > other.position
