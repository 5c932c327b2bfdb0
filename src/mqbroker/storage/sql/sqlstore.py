"""The store in a database (decision 41).

One thread writes: the batches that gather while a transaction runs are the next transaction.  Another one reads pages and bodies.  The loop
waits for neither, except at the start.  A database that is away stalls durable work and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from twisted.logger import Logger

from mqbroker.messaging.ports import Cancellable, Clock, Recovered, StoreBatch, WritingTurn
from mqbroker.storage.disk.claim import Claim, run_and_release
from mqbroker.storage.disk.diskwriter import DiskWriter, Step, run_steps
from mqbroker.storage.disk.filesystem import FileSystem
from mqbroker.storage.disk.nodelock import new_node_id
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.adoption import read_sessions
from mqbroker.storage.sql.batch import SqlBatch
from mqbroker.storage.sql.bodies import SqlBodies, SqlLargeBody
from mqbroker.storage.sql.connections import Connections, Outage, Trouble
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, missed_at_start, transaction
from mqbroker.storage.sql.inheritance import own_state
from mqbroker.storage.sql.inheriting import Done, Inheriting
from mqbroker.storage.sql.pager import SqlPager
from mqbroker.storage.sql.reader import Rows
from mqbroker.storage.sql.removals import remove_piece
from mqbroker.storage.sql.rows import RowsRead
from mqbroker.storage.sql.session import ID_BLOCK, StoreSession
from mqbroker.storage.sql.work import Work
from mqbroker.storage.tickets import Tickets

PAUSE = 0.5
"""Seconds until a database that is away is asked again."""

STOP_SECONDS = 8.0
"""Seconds that a stop waits for the database: a little less than the stop of the broker waits for its store."""


class SqlStore(Tickets):
    """See :class:`mqbroker.messaging.ports.Store`.

    ``bodies_directory`` is where bodies of large messages lie as they come in.  ``writer`` and ``reading`` are two threads.
    ``claim`` is the right to the local folder of the broker: a second process of the same instance is refused, while one that has the data
    from elsewhere is told apart by the epoch.  ``on_failure`` is called once, with a reason, when the store is lost.  ``broker_id`` is that
    of a member of an enhanced cluster, '' = it is none.  ``moving``: see :class:`.Inheriting`.
    """

    _log = Logger()

    def __init__(
        self,
        database: Database,
        file_system: FileSystem,
        bodies_directory: str,
        writer: DiskWriter,
        reading: DiskWriter,
        clock: Clock,
        entropy: Callable[[int], bytes],
        claim: Claim,
        on_failure: Callable[[str], object] | None = None,
        broker_id: str = "",
        moving: Collection[str] = (),
    ) -> None:
        super().__init__(on_failure)
        self.node_id = ""
        self.owner = entropy(16).hex()
        """Names this process in the rows of its sessions."""
        self._broker_id = broker_id
        self._claim = claim
        self._database = database
        self._writer = writer
        self._reading = reading
        self._clock = clock
        self._entropy = entropy
        self._make_directory = partial(file_system.make_directory, bodies_directory)
        self._connections = Connections(database, clock.monotonic)
        self.outage = Outage(database.name, self._connections, reading, clock.monotonic, lambda: self.backlog)
        self.pager: SqlPager | None = (pager := SqlPager(self.next_id, self._hand_over))
        self._bodies = SqlBodies(
            file_system,
            bodies_directory,
            writer,
            reading,
            self._connections,
            clock.call_later,
            lambda function: self.when_synced(self.last, function),
            self.fail,
            PAUSE,
        )
        self._inheriting = Inheriting(
            pager, self._bodies, self._connections, reading, clock.call_later, self._hand_over, self._begin_ids, PAUSE, moving
        )
        self._reads: RowsRead | None = None
        self._session: StoreSession
        self._loaded = False
        self._next_id = self._ids_end = 0
        self._block: tuple[int, int] | None = None
        """The block of ids that follows: first, and behind the last."""
        self._drawing = False
        self._gathered = Work()
        self._gathered_bodies: list[Any] = []
        """Bodies that are held until they are written, or brought from the database before their pieces go."""
        self._batch = 0
        self._busy = False
        self._away = Trouble(clock.monotonic)
        self._scheduled = False
        self._turn: WritingTurn | None = None
        self._unsubscribe: Callable[[], object] | None = None
        self._stopped: Callable[[], object] | None = None
        self._limit: Cancellable | None = None

    # --- start and stop

    def open(self, node_id: str | None = None) -> None:
        """Make the tables where there are none, and learn the node id.  ``node_id`` is the one of an empty database; None = a new one.

        Raises :class:`mqbroker.storage.errors.StorageError`, OSError.
        """
        self._make_directory()
        self._claim.open(lambda: node_id or new_node_id(self._entropy))
        try:
            connection = self._connections.at_start()
            schema.prepare(self._database, connection)
            self.node_id = self._settle_node_id(connection)
            self._connections.close_start()  # a backup may wait for long before it loads
        except DatabaseAwayError as error:
            self._release()
            raise missed_at_start(error) from error
        except BaseException:
            self._release()
            raise

    def _settle_node_id(self, connection: Connection) -> str:
        """Brokers that share the data learn it late: it is '' until one of them has become active."""
        local = self._claim.node_id
        return local and session.settle_node_id(connection, local, lambda: new_node_id(self._entropy), self._broker_id)

    def _release(self) -> None:
        run_steps([self._connections.close, self._claim.withdraw])
        self._claim.release()

    def load(self) -> Recovered:
        """Become the owner of the data, and read all but the messages.  Raises StorageError, OSError."""
        try:
            self.check_open()
            recovered = self._load()
            self._connections.close_start()
            return recovered
        except DatabaseAwayError as error:
            self._release()
            raise missed_at_start(error) from error
        except BaseException:
            self._release()
            raise

    def _load(self) -> Recovered:
        connection = self._connections.at_start()
        self.node_id = self._settle_node_id(connection)
        self._session = own = session.take(connection, self.node_id, self.owner, self._broker_id, self._claim.epoch)
        with transaction(connection):
            self._next_id = session.draw_ids(connection, ID_BLOCK)
        self._ids_end = self._next_id + ID_BLOCK
        self._bodies.session = own.number
        self._bodies.remove_orphans(())
        self._reads = RowsRead(self._connections, self._reading, self._clock.call_later, self.fail, PAUSE)
        pager = self.pager
        assert pager is not None
        pager.session, pager.adopted = own.number, self._next_id - 1
        pager.last_place = pager.adopted
        pager.rows = Rows(self._reads, self._bodies, self._inheriting.damaged_row)
        sessions = [own, *session.inherited(connection, own, self._broker_id)]
        state, *others = read_sessions(connection, sessions, pager.adopted)
        if state.marked:
            pager.removing.add(state.session)
        recovered = own_state(state, pager, self._bodies)
        recovered.inherited = self._inheriting.found(others)
        self._inheriting.set_aside(state.damaged)
        self._claim.activated()
        self._loaded = True
        self.outage.open()
        if pager.removing:
            self._schedule()
        self._log.info("messages are kept in the database {name}, in epoch {epoch}", name=self._database.name, epoch=own.epoch)
        return recovered

    def inherit(self, sessions: Sequence[StoreSession], done: Done) -> None:
        """Take over what :func:`mqbroker.storage.sql.session.switch` has given to this broker, which goes on serving.

        ``done`` is called within a turn, with what came, or with a DatabaseError or FencedError; not before a database that is away has
        come back, and never after the end of the store.  Ids that are drawn from then on are greater than all that came.  The next start of
        this broker does the same with what it finds.
        """
        self._inheriting.inherit(sessions, self._turn, done)

    def write_at_end_of(self, turn: WritingTurn) -> None:
        """From now on write the work of each turn at its end; pages and bodies are read in another thread from the next turn on."""
        self._turn = turn
        self._unsubscribe = turn.ended.subscribe(self.flush)
        self._clock.call_later(0, self._read_later)

    def stop(self, done: Callable[[], object]) -> None:
        """Write what is left, then call ``done`` (also when that fails)."""
        self._stopped = done
        if not self._loaded or self.failed:
            self._leave(done)
            return
        self.wait_for_own_only()
        self.when_synced(self.last, self._leave, done, [self._claim.leave])
        self._bodies.flush()
        self.flush()
        if not self._closed:
            self._limit = self._clock.call_later(STOP_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """The database takes nothing: whoever waits for an answer to what it has not taken gets none."""
        if not self._closed:
            work = f"{self.backlog} batches of work were accepted and not written; nobody had an answer to them"
            self.fail(DatabaseAwayError(f"the database {self._database.name} was away for {STOP_SECONDS:g} s of the stop: {work}"))

    def abort(self) -> None:
        self._leave(_nothing)

    def withdraw(self) -> None:
        """As :meth:`abort`: the start of this store has added nothing to the data."""
        self._leave(_nothing, [self._claim.withdraw])

    # --- the contract

    def next_id(self) -> int:
        number = self._next_id
        if number >= self._ids_end:
            number = self._next_block()
        self._next_id = number + 1
        if self._ids_end - number <= ID_BLOCK // 2 and self._block is None and not self._drawing and self._loaded:
            self._draw_later()
        return number

    def begin(self) -> SqlBatch:
        return SqlBatch(self._session.number, self._bodies, self._inheriting.origins)

    def commit(self, batch: StoreBatch) -> int:
        own: SqlBatch = batch  # type: ignore[assignment]
        assert self.pager is not None
        arrival = self.pager.put(own)
        if own.work.empty:
            for effect in own.effects:
                effect()
            return self.last
        self.last = ticket = self.last + 1
        self._gathered.join(own.work)
        for message in own.held:
            message.large.hold()  # type: ignore[union-attr]
            self._gathered_bodies.append(message.large)
        for body in filter(self._bodies.outlives, own.settled):
            self._gathered.keep_bodies.append(self._bodies.keeping(body))
            body.hold()
            self._gathered_bodies.append(body)
        for effect in own.effects:
            effect()
        if arrival is not None:
            self.when_synced(ticket, self.pager.arrived, arrival)
        self._schedule()
        return ticket

    def create_large_body(self, body_id: int) -> SqlLargeBody:
        return self._bodies.create(body_id)

    # --- writing

    @property
    def session(self) -> StoreSession:
        """The current session; there is none before the store is loaded."""
        return self._session

    @property
    def backlog(self) -> int:
        """Batches that were handed over and are not durable yet."""
        return self.last - self.own.reached

    def flush(self) -> None:
        """Begin the next transaction now, unless one runs."""
        assert self.pager is not None
        if self._busy or self._closed or (self._gathered.empty and not self.pager.removing):
            return
        self._busy = True
        work, self._gathered = self._gathered, Work()
        self.pager.removing |= work.marked
        bodies, self._gathered_bodies = self._gathered_bodies, []
        self._batch += 1
        self._submit(work, self._batch, self.last, bodies, first=True)

    def _submit(self, work: Work, batch: int, ticket: int, bodies: list[Any], *, first: bool) -> None:
        self._bodies.flush()
        assert self.pager is not None
        removed: set[int] = set()
        step: Step = partial(self._transaction, work, batch, not first, sorted(self.pager.removing), removed)
        self._writer.submit([step], partial(self._written, work, batch, ticket, bodies, removed))

    def _transaction(self, work: Work, batch: int, again: bool, removing: Sequence[int], removed: set[int]) -> None:
        """A step of the writing thread.  ``again``: the answer to an earlier try was lost, which may have been committed.

        ``removing`` are sessions with marked references, of which a piece goes; ``removed`` gets those that have none left.
        """

        def write(connection: Connection) -> None:
            with transaction(connection):
                if again and self._session.last_batch(connection) >= batch:
                    return
                self._session.write(connection, batch)
                work.run(connection)
                removed.update([number for number in removing if not remove_piece(connection, number)])

        self._connections.write(write)

    def _written(self, work: Work, batch: int, ticket: int, bodies: list[Any], removed: set[int], error: Exception | None) -> None:
        if isinstance(error, DatabaseAwayError) and not self._closed:
            if self._away.is_told():
                self._log.warn("the database {name} is away: {error}; it is asked again", name=self._database.name, error=error)
            self._clock.call_later(PAUSE, self._try_again, work, batch, ticket, bodies)
            return
        self._busy = False
        if error is not None:
            self.fail(error)
            return
        seconds = self._away.over()
        if seconds is not None:
            self._log.info("the database {name} answers again, after {seconds:.0f} s", name=self._database.name, seconds=seconds)
        assert self.pager is not None
        self.pager.removing -= removed
        self._inheriting.removed(removed)
        self.own.hold(ticket)
        for body in bodies:
            self._bodies.written(body)
        self.flush()

    def _try_again(self, work: Work, batch: int, ticket: int, bodies: list[Any]) -> None:
        if not self._closed:
            self._submit(work, batch, ticket, bodies, first=False)

    def _schedule(self) -> None:
        if self._busy or self._scheduled or (self._turn is not None and self._turn.active):
            return
        self._scheduled = True
        self._clock.call_later(0, self._due)

    def _due(self) -> None:
        self._scheduled = False
        self.flush()

    def _read_later(self) -> None:
        if self._reads is not None and not self._closed:
            self._reads.late = True

    def _hand_over(self, work: Work) -> None:
        """Work of the store itself goes with the next transaction."""
        if self._closed:
            return
        self.last += 1
        self._gathered.join(work)
        self._schedule()

    # --- ids

    def _begin_ids(self, first: int) -> None:
        """Go on with a block that was drawn just now; nothing is given of one that was drawn before."""
        self._next_id, self._ids_end = first, first + ID_BLOCK
        if self._block is not None and self._block[0] < first:
            self._block = None

    def _next_block(self) -> int:
        """The block is used up: go on with the next one, which is drawn here and now if it has not come yet."""
        if self._block is None:
            try:
                connection = self._connections.at_start()
                with transaction(connection):
                    first = session.draw_ids(connection, ID_BLOCK)
            finally:
                self._connections.close_start()
            self._block = first, first + ID_BLOCK
        (number, self._ids_end), self._block = self._block, None
        return number

    def _draw_later(self) -> None:
        self._drawing = True
        drawn: list[int] = []
        self._reading.submit([partial(self._draw, drawn)], partial(self._drawn, drawn))

    def _draw(self, drawn: list[int]) -> None:
        """A step of the reading thread."""

        def draw(connection: Connection) -> None:
            with transaction(connection):
                drawn.append(session.draw_ids(connection, ID_BLOCK))

        self._connections.read(draw)

    def _drawn(self, drawn: list[int], error: Exception | None) -> None:
        self._drawing = False
        if error is None and self._block is None:
            self._block = drawn[0], drawn[0] + ID_BLOCK

    # --- the end

    def fail(self, error: BaseException, *text: str) -> None:
        super().fail(error, *text)
        if self._stopped is not None:
            self._leave(self._stopped)

    def close(self) -> None:
        super().close()
        self.outage.close()
        self._bodies.close()
        self._inheriting.close()
        if self._reads is not None:
            self._reads.close()
        if self._limit is not None:
            self._limit.cancel()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = self._turn = None

    def _leave(self, done: Callable[[], object], steps: Sequence[Step] = ()) -> None:
        self._stopped = None
        self.close()
        self._reading.submit([self._connections.close_reading], lambda _: None)
        last = [self._bodies.close_files, self._connections.close, *steps]
        self._writer.submit([partial(run_and_release, self._claim, last)], partial(self._left, done))


def _nothing() -> None: ...
