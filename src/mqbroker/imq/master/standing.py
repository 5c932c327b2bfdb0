"""How far a broker has followed a change record, and who keeps that: what OpenMQ calls last refresh time and last config server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mqbroker.imq.record.followed import KIND, LIFE_KIND, Followed
from mqbroker.messaging.ports import Store


class Standing(Followed):
    """How far this broker has come, kept in the store; ``master`` is host:port.

    Everything up to the position is done when it is noted; what was done after it is done again after a crash.
    """

    def __init__(self, store: Store, settings: Mapping[tuple[str, str], str]) -> None:
        super().__init__(settings)
        self._store = store
        self._made: dict[str, tuple[str | None, int]] = {}
        """Queues whose life is not noted yet."""
        self._former_lives = self.former_lives(settings)
        """The lives that are kept in a former form."""

    def made(self, queue: str, position: int, generation: str | None = None) -> None:
        """A queue was made, whose life begins at this position of the record, or of the former one of that generation; :meth:`keep` is to
        follow in the same turn."""
        self._made[queue] = generation, position

    def ended(self, queue: str) -> None:
        """The queue is deleted."""
        self._made.pop(queue, None)
        if self.lives.pop(queue, None) is not None:
            batch = self._store.begin()
            batch.delete_setting(LIFE_KIND, queue)
            self._store.commit(batch)

    def advance(self, position: int) -> None:
        """The changes up to ``position`` are made; :meth:`keep` is to follow in the same turn."""
        self.position = position

    def note(self, position: int) -> None:
        """The changes up to ``position`` are made."""
        self.position = position
        self.keep()

    def follow(self, generation: str, former: Sequence[str], position: int, master: str) -> None:
        """The changes of a record are made up to ``position``."""
        self.generation, self.former, self.position, self.master = generation, tuple(former), position, master
        self.keep()

    def forget(self) -> None:
        """The definitions here are not those of the record any more: take over everything again."""
        self.generation, self.position, self.former = None, 0, ()
        for queue in list(self.lives):
            self.ended(queue)
        self.keep()

    def keep(self) -> None:
        made, self._made = self._made, {}
        batch = self._store.begin()
        former, self._former_lives = self._former_lives, {}
        for queue in former.keys() & self.lives.keys():
            batch.put_setting(LIFE_KIND, queue, json.dumps(self.lives[queue]))
        if self.generation is not None:
            for queue, (generation, position) in made.items():
                self.lives[queue] = life = generation or self.generation, position
                batch.put_setting(LIFE_KIND, queue, json.dumps(life))
        values = {"generation": self.generation, "position": self.position, "master": self.master, "former": self.former}
        batch.put_setting(KIND, "standing", json.dumps(values))
        self._store.commit(batch)


class Mastership:
    """The master broker, also after a change at run time; ``configured`` is the one of the configuration.

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
