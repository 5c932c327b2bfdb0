"""A store in a SQLite file, and one broker process after the other that uses it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mqbroker.messaging.ports import QueueRecord, Recovered
from mqbroker.messaging.turns.turn import Turn
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.disk.claim import Claim, OwnFolder
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, Row
from mqbroker.storage.sql.sqlstore import PAUSE, SqlStore
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.support import LARGE

MOVING = ("moving",)
"""Kinds of settings that become the taker's own."""


class BreakingDatabase:
    """Connections that break, by chance: before a transaction, within one, and before or after its commit."""

    def __init__(self, database: Database, rng: random.Random, chance: float) -> None:
        self.name, self.binary, self.number, self.now = database.name, database.binary, database.number, database.now
        self.end_writers = database.end_writers
        self.breaks = 0
        self._database = database
        self._rng = rng
        self._chance = chance
        self.calm = False
        """Nothing breaks now: a start is not tried again by itself."""

    def connect(self) -> Connection:
        return BreakingConnection(self, self._database.connect())

    def happens(self) -> bool:
        found = not self.calm and self._rng.random() < self._chance
        self.breaks += found
        return found


class BreakingConnection:
    """A connection that has broken answers no more."""

    def __init__(self, database: BreakingDatabase, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._broken = False

    def begin(self) -> None:
        self._check()
        self._connection.begin()

    def begin_reading(self) -> None:
        self._check()
        self._connection.begin_reading()

    def commit(self) -> None:
        self._check()
        self._connection.commit()
        self._check()  # the answer to the commit is lost

    def rollback(self) -> None:
        self._connection.rollback()

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        self._check()
        return self._connection.rows(statement, parameters)

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        self._check()
        return self._connection.run(statement, parameters)

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        self._check()
        self._connection.run_many(statement, parameters)

    def close(self) -> None:
        self._connection.close()

    def _check(self) -> None:
        if self._broken or self._database.happens():
            self._broken = True
            raise DatabaseAwayError("the connection is lost")


class SqlRig:
    """``add_cleanup`` is that of a test: the folder of the database goes at its end.

    ``late``: pages and bodies are read in another thread.  ``chance``: how often a connection breaks, at each of its operations.
    ``database``: an empty one, or that of other brokers; None = a new file of SQLite.  ``broker_id``: as :class:`SqlStore` takes it.
    """

    def __init__(
        self,
        add_cleanup: Callable[..., object],
        seed: int = 1,
        *,
        late: bool = False,
        chance: float = 0.0,
        database: Database | None = None,
        broker_id: str = "",
    ) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-sql-")
        add_cleanup(folder.cleanup)
        self.broker_id = broker_id
        self.rng = random.Random(seed)
        self.path = Path(folder.name) / "store.db"
        whole = database or SqliteDatabase(str(self.path))
        self.breaking = BreakingDatabase(whole, self.rng, chance)
        self.database: Database = self.breaking if chance else whole
        self._late = late
        self.disk = SimulatedDisk(self.rng)
        self.failures: list[str] = []
        self.clock: FakeClock
        self.writer: SimulatedDiskWriter
        self.reading: SimulatedDiskWriter
        self.store: SqlStore

    def make(self, claim: Claim | None = None) -> SqlStore:
        """A new process, which has not touched the database yet.  ``claim``: the right to the data; None = a folder of its own."""
        self.clock = FakeClock()
        self.writer, self.reading = SimulatedDiskWriter(), SimulatedDiskWriter()
        self.store = SqlStore(
            self.database,
            self.disk,
            LARGE,
            self.writer,
            self.reading,
            self.clock,
            self.rng.randbytes,
            claim or OwnFolder(self.disk, LARGE),
            self.failures.append,
            self.broker_id,
            MOVING,
        )
        return self.store

    def start(self) -> Recovered:
        store = self.make()
        self.breaking.calm = True
        store.open()
        recovered = store.load()
        self.breaking.calm = False
        if self._late:
            store.write_at_end_of(Turn(self.clock))
            self.clock.run_due()
        return recovered

    def settle(self) -> None:
        """Let everything happen that is due, also what waits for a database that is away."""
        while self.clock.run_due() or self.writer.run_one() or self.reading.run_one() or self._wait():
            pass

    def _wait(self) -> bool:
        waits = self.clock.pending > 0
        if waits:
            self.clock.advance(PAUSE)
        return waits

    def stop(self) -> None:
        done: list[bool] = []
        self.store.stop(lambda: done.append(True))
        self.settle()
        assert done == [True]

    def restart(self) -> Recovered:
        self.stop()
        return self.start()

    def kill(self) -> Recovered:
        """The process ends now, and a new one starts; bodies in local files are lost."""
        self.store.abort()
        self.settle()
        self.disk.crash()
        return self.start()

    def queue(self, name: str = "q", address: str = "a") -> int:
        """Store a queue; returns its id."""
        queue_id = self.store.next_id()
        batch = self.store.begin()
        batch.put_queue(QueueRecord(queue_id, name, address, 1))
        self.store.commit(batch)
        return queue_id

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        """What the database has."""
        connection: Connection = self.database.connect()
        try:
            return connection.rows(statement)
        finally:
            connection.close()
