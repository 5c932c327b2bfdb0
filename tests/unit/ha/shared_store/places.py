"""Places that brokers share: a folder, and rows of a database."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

from mqbroker.ha.shared_store.folder import FolderLocks
from mqbroker.ha.shared_store.lease import LeaseTerms
from mqbroker.ha.shared_store.place import Found, SharedPlace
from mqbroker.ha.shared_store.rows import LeaseParts, RowLocks
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import Database
from mqbroker.storage.sql.schema import table
from tests.support.beats import ClockBeat
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.unit.ha.shared_store.nodes import TimedDatabase

NODE = "01234567-89ab-4cde-8f01-23456789abcd"
LOCK = "/lock/server.lock"
EXPIRATION, RENEW_PERIOD = 20.0, 4.0


class PlaceWorld(Protocol):
    """Where places are."""

    def make(self, hands_over: bool = False) -> SharedPlace:
        """The place of one more process, which has not opened it."""

    def put(self, state: bytes) -> None:
        """The state of a store that has been used."""

    def state(self) -> bytes: ...

    def hold(self) -> None:
        """Another process has the primary lock."""

    def hold_up(self) -> Callable[[], object]:
        """Nobody can ask for the state until the result is called."""

    def end_processes(self) -> None:
        """Whoever has a lock has died."""


class FolderPlaces:
    def __init__(self) -> None:
        self.rng = random.Random(1)
        self.disk = SimulatedDisk(self.rng)
        self.disk.make_directory("/lock")
        self._lock = NodeLock(self.disk, "/lock")

    def make(self, hands_over: bool = False) -> SharedPlace:
        return SharedPlace(FolderLocks(self.disk, "/lock", self.rng.randbytes), hands_over)

    def put(self, state: bytes) -> None:
        self._lock.write_node_id(NODE)
        self._lock.write_state(state)

    def state(self) -> bytes:
        return self._lock.state()

    def hold(self) -> None:
        self.disk.lock("/lock/serverlock.1")

    def hold_up(self) -> Callable[[], object]:
        held = self.disk.lock(LOCK)
        assert held is not None
        return held.release

    def end_processes(self) -> None:
        self.disk.end_process()


class RowPlaces:
    """``add_cleanup`` is that of a test.  All processes have one clock, that of the database is ``ahead_ms`` ahead of it.

    ``database``: an empty one, with a time of its own; None = a new file of SQLite.
    """

    def __init__(self, add_cleanup: Callable[..., object], database: Database | None = None) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-rows-")
        add_cleanup(folder.cleanup)
        self.rng = random.Random(1)
        self.clock = FakeClock()
        self.ahead_ms = 0
        self.lost: list[str] = []
        self.beats: list[ClockBeat] = []
        timed = TimedDatabase(str(Path(folder.name) / "pair.db"), lambda: self.clock.wall_ms() + self.ahead_ms)
        self.database: Any = timed if database is None else database
        # The time of a server goes on while the machine stands still.
        self._held_ms = 1000 if database is None else 600_000
        self.connection = self.database.connect()
        add_cleanup(self.connection.close)
        schema.prepare(self.database, self.connection)

    def locks(self, broker: str = "") -> RowLocks:
        def make_beat() -> ClockBeat:
            self.beats.append(ClockBeat(self.clock))
            return self.beats[-1]

        call: Callable[[Callable[[], object]], object] = lambda function: function()  # noqa: E731
        parts = LeaseParts(self.database, self.clock, self.rng.randbytes, make_beat, nullcontext(), call)
        return RowLocks(parts, LeaseTerms(EXPIRATION, RENEW_PERIOD), 250, self.lost.append, broker)

    def make(self, hands_over: bool = False) -> SharedPlace:
        return SharedPlace(self.locks(), hands_over)

    def put(self, state: bytes) -> None:
        if session.node_id_of(self.connection) is None:
            session.take(self.connection, NODE, "somebody")
        self.connection.run(table("UPDATE {pair} SET state = ?"), (state.decode(),))

    def state(self) -> bytes:
        return str(self.connection.rows(table("SELECT state FROM {pair}"))[0][0]).encode()

    def hold(self) -> None:
        expires = f"{self.database.now} + {self._held_ms}"
        self.connection.run(table(f"UPDATE {{lease}} SET holder = 'x', expires = {expires} WHERE name = 'primary'"))

    def hold_up(self) -> Callable[[], object]:
        self.database.away = True
        return self._answer

    def _answer(self) -> None:
        self.database.away = False

    def end_processes(self) -> None:
        self.connection.run(table("UPDATE {lease} SET expires = 0"))

    def lease(self, name: str = "primary") -> tuple[str, int]:
        """Holder, and the rest in ms."""
        statement = table(f"SELECT holder, expires - {self.database.now} FROM {{lease}} WHERE name = ?")
        holder, rest = self.connection.rows(statement, (name,))[0]
        return holder, rest


def opened(world: PlaceWorld, hands_over: bool = False) -> SharedPlace:
    place = world.make(hands_over)
    place.open(lambda: NODE)
    return place


def active(world: PlaceWorld, hands_over: bool = False) -> SharedPlace:
    place = opened(world, hands_over)
    assert place.take_as_primary() is Found.TAKEN
    place.activated()
    return place
