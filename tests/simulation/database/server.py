"""A database server in memory, and connections to it that are slow, stall and break.

There are two databases of SQLite: in ``_work`` runs the one transaction that is open, and ``_front`` has what was committed, for all who
read beside it.  So a reader never waits for a writer, nor sees its work, as with the log of SQLite and with PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mqbroker.process.sqlite import SqliteConnection
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, Row
from mqbroker.storage.sql.schema import table
from tests.simulation.database.connections import NAME, Machine, SimulatedConnection, memory
from tests.simulation.database.threads import Threads
from tests.simulation.world import WALL_START_MS, Process, World
from tests.support.disk import SimulatedCrash

if TYPE_CHECKING:
    from mqbroker.storage.sql.session import StoreSession

IDLE_LIMIT = 1.0
"""Seconds after which the server ends a transaction in which nothing happens."""
HELD_UP = 0.1
"""Seconds of a wait for another transaction from which on it counts as trouble."""
SILENT = "the database does not answer"


@dataclass(slots=True)
class Armed:
    """A fault that waits for an operation: the one at ``point`` after ``after`` others of that kind, see :mod:`.faults`.

    ``machine``: whose operations these are; None = those of anybody.
    """

    point: str
    after: int
    what: str
    seconds: float
    machine: Machine | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Taking:
    """The process ``owner`` has become the owner of a session, which now belongs to the member ``broker`` ('' = there are no members)."""

    time: float
    session: int
    owner: str
    broker: str
    former: str
    """The process that was the owner before; '' = none."""


class DatabaseServer:
    """The server of a run.  ``slow`` multiplies the time that everything takes."""

    def __init__(self, world: World, threads: Threads) -> None:
        self.world = world
        self.threads = threads
        self.rng = world.generator("database")
        self.slow = 1.0
        self.armed: list[Armed] = []
        self.last_trouble = -1000.0
        """When it last failed, or was slow."""
        self.last_uneven = -1000.0
        """The same, where others may have met none of it."""
        self.breaks = 0
        """How often an operation has failed."""
        self.committed: dict[str, int] = {}
        """The number of the last transaction that each owner of data has committed."""
        self.takings: list[Taking] = []
        """Who has become the owner of which data, in order."""
        self.on_taking: Callable[[Taking], object] = lambda taking: None
        self.ahead_ms = 0
        """By how much its clock has been put forward."""
        self.holder: SimulatedConnection | None = None
        """Who has a transaction open."""
        self._finishing = False
        """The holder is gone, and what becomes of its transaction is decided later."""
        self._transaction = 0
        self._owners: dict[int, str] = {}
        self._has_tables = False
        self._away_until = self._silent_until = self._refuses_until = 0.0
        self._connections: list[SimulatedConnection] = []
        self._replayed_ms: int | None = None
        self._work_raw, self._front_raw = memory(), memory()
        for each in (self._work_raw, self._front_raw):
            each.create_function("now_ms", 0, self.wall_ms)
        self._work, self._front = SqliteConnection(self._work_raw, NAME), SqliteConnection(self._front_raw, NAME)

    def wall_ms(self) -> int:
        """The time of the server, ms since the epoch: ``now_ms()`` in statements."""
        return WALL_START_MS + int(self.world.now * 1000) + self.ahead_ms if self._replayed_ms is None else self._replayed_ms

    # --- for connections

    def connect(self, process: Process, machine: Machine | None, patience: float | None) -> SimulatedConnection:
        connection = SimulatedConnection(self, process, machine, patience)
        self.meet(connection, "connect")
        self.threads.wait(process, self.delay())
        if self.world.now < max(self._away_until, self._refuses_until):
            raise self.trouble("the database takes no connection")
        self._connections.append(connection)
        self._wait_for_answer(connection)
        connection.check()
        return connection

    def delay(self) -> float:
        if self.slow > 1:
            self.last_trouble = self.last_uneven = self.world.now
        return self.rng.expovariate(4000) * self.slow

    def trouble(self, text: str) -> DatabaseAwayError:
        self.breaks += 1
        self.last_trouble = self.world.now
        return DatabaseAwayError(text)

    def travel(self, connection: SimulatedConnection) -> None:
        """A request or an answer is under way."""
        self.threads.wait(connection.process, self.delay())
        self._wait_for_answer(connection)
        connection.check()

    def _wait_for_answer(self, connection: SimulatedConnection) -> None:
        silent = self._silent_until - self.world.now
        if silent <= 0:
            return
        self.last_trouble = self.world.now
        if connection.commits and silent > connection.silence_limit and self.rng.random() < 0.5:
            # The request has come through, and is carried out; the client does not hear of that.
            self.leave(connection, SILENT, silent, commit=True)
        self.threads.wait(connection.process, min(silent, connection.silence_limit))
        if self.world.now < self._silent_until:
            # The server sees that the client is gone when it can hear again.
            self.leave(connection, SILENT, self._silent_until - self.world.now)
        self.last_trouble = self.world.now

    def open_transaction(self, connection: SimulatedConnection) -> None:
        """Wait for the transaction that is open, and begin one."""
        begun, pause = self.world.now, 0.0005
        while self.holder is not None:
            if self.world.now - begun > connection.lock_limit:
                raise self.trouble("the database is held up by another transaction")
            if self.world.now - begun > HELD_UP:
                self.last_trouble = self.last_uneven = self.world.now
            self.threads.wait(connection.process, pause)
            connection.check()
            pause = min(pause * 2, 0.05)
        self.holder = connection
        self._finishing = False
        self._transaction += 1
        self._work.begin()
        self.world.schedule(IDLE_LIMIT, self._look_whether_idle, self._transaction)

    def _look_whether_idle(self, transaction: int) -> None:
        connection = self.holder
        if connection is None or self._transaction != transaction or self._finishing:
            return
        idle = self.world.now - connection.used
        if idle < IDLE_LIMIT:
            self.world.schedule(IDLE_LIMIT - idle + 0.01, self._look_whether_idle, transaction)
            return
        self.world.note(f"the database ends a transaction of {connection.process.name}, in which nothing happens")
        connection.broken = "the database has ended the idle transaction"
        self.roll_back(connection)

    def work(self, connection: SimulatedConnection) -> Connection:
        """Where its transaction runs."""
        assert self.holder is connection
        return self._work

    @property
    def front(self) -> Connection:
        return self._front

    def commit(self, connection: SimulatedConnection) -> None:
        """What the open transaction has done is done for all."""
        assert self.holder is connection
        self._work.commit()
        self._front.begin()
        for self._replayed_ms, function in connection.done:
            function(self._front)
        self._replayed_ms = None
        self._front.commit()
        self._free(connection)
        if self.has_tables:
            self._note_owners()

    def _note_owners(self) -> None:
        for session, owner, broker, current, batch in self.ask(
            "SELECT session, owner, broker, current, batch FROM {session} ORDER BY session"
        ):
            if current:
                self.committed[owner] = max(self.committed.get(owner, 0), batch)
            if owner and owner != self._owners.get(session, ""):
                former, self._owners[session] = self._owners.get(session, ""), owner
                self.takings.append(Taking(self.world.now, session, owner, broker, former))
                self.on_taking(self.takings[-1])

    def end_writers(self, connection: SimulatedConnection) -> list[Row]:
        """What somebody else has open ends, unless it is a commit that is under way."""
        holder = self.holder
        if holder is None or holder is connection or self._finishing:
            return []
        self.world.note(f"{connection.process.name} has a transaction of {holder.process.name} ended")
        holder.broken = "the database has ended the connection"
        self.roll_back(holder)
        return [(True,)]

    def roll_back(self, connection: SimulatedConnection) -> None:
        if self.holder is connection:
            self._work.rollback()
            self._free(connection)

    def _free(self, connection: SimulatedConnection) -> None:
        connection.done = []
        self.holder = None
        self._finishing = False

    def leave(self, connection: SimulatedConnection, reason: str, seconds: float, commit: bool = False) -> None:
        """A connection is lost for the client; the server notices ``seconds`` later, and then rolls back or commits."""
        connection.broken = connection.broken or reason
        if self.holder is not connection or self._finishing:
            return
        self._finishing = True
        self.world.schedule(seconds, self._finish, connection, self._transaction, commit)

    def _finish(self, connection: SimulatedConnection, transaction: int, commit: bool) -> None:
        if self.holder is connection and self._transaction == transaction:
            (self.commit if commit else self.roll_back)(connection)

    # --- faults

    def meet(self, connection: SimulatedConnection, point: str) -> None:
        """A connection comes to an operation; raises what a fault there causes."""
        for armed in self.armed:
            if armed.point != point or connection.machine is None or armed.machine not in (None, connection.machine):
                continue
            if armed.after:
                armed.after -= 1
                continue
            self.armed.remove(armed)
            self._hit(armed, connection)
            return

    def _hit(self, armed: Armed, connection: SimulatedConnection) -> None:
        world, machine = self.world, connection.machine
        assert machine is not None
        world.note(f"fault: {armed} hits {connection.process.name}")
        self.last_trouble = self.last_uneven = world.now
        if armed.what == "freeze":
            machine.freeze(armed.seconds)
            return
        # A commit that is under way may be carried out.
        commits = armed.point == "commit" and self.rng.random() < 0.5
        notices = self.rng.choice((0.0, self.rng.uniform(0, 0.05), armed.seconds))
        self.leave(connection, "the connection is lost", notices, commits)
        if armed.what in ("kill", "power"):
            machine.killed_by_database(armed.what == "power", armed.seconds)
            raise SimulatedCrash
        raise self.trouble(connection.broken)

    def arm(self, point: str, after: int, what: str, seconds: float, machine: Machine | None = None) -> None:
        """See :class:`tests.simulation.database.faults.AtOperation`."""
        self.armed.append(Armed(point, after, what, seconds, machine))

    def put_forward(self, milliseconds: int) -> None:
        """Its clock is set: what was to last for a while has ended."""
        self.ahead_ms += milliseconds
        self.last_trouble = self.world.now

    def go_away(self, seconds: float) -> None:
        """The server is restarted: connections and transactions end."""
        self._away_until = max(self._away_until, self.world.now + seconds)
        self.last_trouble = self._away_until
        for connection in self._connections:
            connection.broken = connection.broken or "the database has ended the connection"
        if self.holder is not None:
            self.roll_back(self.holder)
        self._connections.clear()

    def fall_silent(self, seconds: float) -> None:
        self._silent_until = max(self._silent_until, self.world.now + seconds)
        self.last_trouble = self.world.now

    def refuse(self, seconds: float) -> None:
        """New connections are refused; those that are there go on."""
        self._refuses_until = max(self._refuses_until, self.world.now + seconds)
        self.last_uneven = self._refuses_until

    def heal(self) -> None:
        self.slow = 1.0
        self.armed.clear()
        self._away_until = self._silent_until = self._refuses_until = 0.0

    def process_died(self, process: Process, machine: bool) -> None:
        """Its connections end; that of a machine that is gone only when the server notices."""
        for connection in [each for each in self._connections if each.process is process]:
            self._connections.remove(connection)
            seconds = self.rng.choice((0.0, self.rng.uniform(0, 0.02)))
            if machine:
                seconds = self.rng.choice((seconds, self.rng.uniform(0, IDLE_LIMIT)))
            self.leave(connection, "the process is gone", seconds, connection.commits and self.rng.random() < 0.5)

    def forget(self, process: Process) -> None:
        """Its connections are gone at once, and with them what they have begun."""
        for connection in [each for each in self._connections if each.process is process]:
            connection.broken = connection.broken or "the process is gone"
            self._connections.remove(connection)
            self.roll_back(connection)

    def closed(self, connection: SimulatedConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
        if not self._finishing:
            self.roll_back(connection)

    # --- what the checks look at

    @property
    def has_tables(self) -> bool:
        self._has_tables = self._has_tables or bool(self.ask("SELECT 1 FROM sqlite_master WHERE name = '{session}'"))
        return self._has_tables

    def image(self) -> bytes:
        """What was committed."""
        return self._front_raw.serialize()

    def ask(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """What was committed, at once."""
        return self._front.rows(table(statement), parameters)

    def turn_of(self, owner: str) -> int:
        """Which of the takings was the last one by this process, counted from 1; 0 = none."""
        return max((number for number, taking in enumerate(self.takings, 1) if taking.owner == owner), default=0)

    def owns(self, session: StoreSession) -> bool:
        """Do the data have this owner, in this epoch?"""
        return self.ask("SELECT owner, epoch FROM {session} WHERE session = ?", (session.number,)) == [(session.owner, session.epoch)]

    def close(self) -> None:
        self._work_raw.close()
        self._front_raw.close()
