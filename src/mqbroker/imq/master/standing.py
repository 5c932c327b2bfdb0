"""How far a broker has followed a change record, and who keeps that: what OpenMQ calls last refresh time and last config server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mqbroker.messaging.ports import Store

KIND = "imq-record"
"""The kind of these settings in the store."""


class Standing:
    """``generation`` (None: no record yet), ``position`` and ``master`` (host:port) of what this broker has applied, kept in the store.

    Everything up to the position is done when it is noted; what was done after it is done again after a crash.
    """

    def __init__(self, store: Store, settings: Mapping[tuple[str, str], str]) -> None:
        self._store = store
        kept: dict[str, Any] = json.loads(settings.get((KIND, "standing"), "{}"))
        self.generation: str | None = kept.get("generation")
        self.position: int = kept.get("position", 0)
        self.master: str | None = kept.get("master")

    def advance(self, position: int) -> None:
        """Everything up to ``position`` is done; :meth:`keep` is to follow in the same turn."""
        self.position = position

    def note(self, position: int) -> None:
        """Everything up to ``position`` is done."""
        self.position = position
        self.keep()

    def follow(self, generation: str, position: int, master: str) -> None:
        """Everything of a record is done up to ``position``."""
        self.generation, self.position, self.master = generation, position, master
        self.keep()

    def forget(self) -> None:
        """The definitions here are not those of the record any more: take over everything again."""
        self.generation, self.position = None, 0
        self.keep()

    def keep(self) -> None:
        batch = self._store.begin()
        values = {"generation": self.generation, "position": self.position, "master": self.master}
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

    @property
    def changed(self) -> bool:
        """Is the master another one than the configuration says?"""
        return self.master != self._configured

    def hand_over(self, successor: str, change: str) -> None:
        """``successor`` is told now to be the master."""
        self._keep(self.master, successor, change)

    def settle(self, master: str, change: str | None = None) -> None:
        """This broker knows who is the master.  ``change`` is the name of the change by which it became so itself."""
        self._keep(master, None, change)

    def _keep(self, master: str, successor: str | None, change: str | None) -> None:
        self.master, self.successor, self.change = master, successor, change
        batch = self._store.begin()
        values = {"configured": self._configured, "master": master, "successor": successor, "change": change}
        batch.put_setting(KIND, "master", json.dumps(values))
        self._store.commit(batch)
