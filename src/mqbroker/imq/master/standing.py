"""How far a broker has followed a change record, and who keeps that: what OpenMQ calls last refresh time and last config server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mqbroker.messaging.ports import Store

KIND = "imq-record"
"""The kind of these settings in the store."""


LIVES_KEPT = 32
"""Queues whose positions are in the store: those that were made last."""


class Standing:
    """``generation`` (None: no record yet), ``position`` and ``master`` (host:port) of what this broker has applied, kept in the store.

    Everything up to the position is done when it is noted; what was done after it is done again after a crash.  ``former`` are the records
    that this one has come from.  ``lives`` tells of queues that were made by the record, or with it, at which position of which
    generation that was; of queues that have been there for long it says nothing.
    """

    def __init__(self, store: Store, settings: Mapping[tuple[str, str], str]) -> None:
        self._store = store
        kept: dict[str, Any] = json.loads(settings.get((KIND, "standing"), "{}"))
        self.generation: str | None = kept.get("generation")
        self.position: int = kept.get("position", 0)
        self.master: str | None = kept.get("master")
        self.former: tuple[str, ...] = tuple(kept.get("former", ()))
        self.lives: dict[str, tuple[str, int]] = {name: (life[0], life[1]) for name, life in kept.get("lives", {}).items()}
        self._made: list[str] = []
        """Queues whose position is not noted yet."""

    def has(self, generation: str, position: int) -> bool:
        """Is everything done up to ``position`` of that record, or of one that has come from it?"""
        return generation in self.former or (generation == self.generation and position <= self.position)

    def made(self, queue: str) -> None:
        """A queue was made as the record says; :meth:`keep` is to follow in the same turn."""
        self._made.append(queue)

    def ended(self, queue: str) -> None:
        """The queue is deleted."""
        self.lives.pop(queue, None)
        self._made = [name for name in self._made if name != queue]

    def advance(self, position: int) -> None:
        """Everything up to ``position`` is done; :meth:`keep` is to follow in the same turn."""
        self.position = position

    def note(self, position: int) -> None:
        """Everything up to ``position`` is done."""
        self.position = position
        self.keep()

    def follow(self, generation: str, former: Sequence[str], position: int, master: str) -> None:
        """Everything of a record is done up to ``position``."""
        self.generation, self.former, self.position, self.master = generation, tuple(former), position, master
        self.keep()

    def forget(self) -> None:
        """The definitions here are not those of the record any more: take over everything again."""
        self.generation, self.position, self.former = None, 0, ()
        self.lives.clear()
        self.keep()

    def keep(self) -> None:
        made, self._made = self._made, []
        if self.generation is not None:
            for queue in made:
                self.lives.pop(queue, None)
                self.lives[queue] = self.generation, self.position
        batch = self._store.begin()
        values = {
            "generation": self.generation,
            "position": self.position,
            "master": self.master,
            "former": self.former,
            "lives": dict(list(self.lives.items())[-LIVES_KEPT:]),
        }
        batch.put_setting(KIND, "standing", json.dumps(values))
        self._store.commit(batch)


class Mastership:
    """Which broker is the master, also after a change at run time; ``configured`` is the one of the configuration.

    A change holds until the configuration names another master than it did then.
    """

    def __init__(self, store: Store, settings: Mapping[tuple[str, str], str], configured: str) -> None:
        self._store = store
        self._configured = configured
        kept: dict[str, Any] = json.loads(settings.get((KIND, "master"), "{}"))
        valid = kept.get("configured") == configured
        self.master: str = kept["master"] if valid else configured
        self.successor: str | None = kept.get("successor") if valid else None
        """The broker that was told to be the master, and whose answer is missing."""
        self.change: str | None = kept.get("change") if valid else None
        """The name of the change to it, or of the one by which this broker became the master."""
        self.changed: bool = valid and kept.get("changed", True)
        """Has the master been another one than the configuration says?  Members may have missed that it is this one again."""

    def hand_over(self, successor: str, change: str) -> None:
        """``successor`` is told now to be the master."""
        self._keep(self.master, successor, change)

    def settle(self, master: str, change: str | None = None) -> None:
        """This broker knows who is the master.  ``change`` is the name of the change by which it became so itself."""
        self._keep(master, None, change)

    def _keep(self, master: str, successor: str | None, change: str | None) -> None:
        self.master, self.successor, self.change = master, successor, change
        self.changed = self.changed or master != self._configured
        batch = self._store.begin()
        values = {
            "configured": self._configured,
            "master": master,
            "successor": successor,
            "change": change,
            "changed": self.changed,
        }
        batch.put_setting(KIND, "master", json.dumps(values))
        self._store.commit(batch)
