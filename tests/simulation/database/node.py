"""A broker of the simulation that keeps everything in a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import replace

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.messaging.ports import Store
from mqbroker.node.parts import Parts
from mqbroker.node.stores import make_store
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import DatabaseAwayError
from mqbroker.storage.sql.sqlstore import SqlStore
from tests.simulation.broker import BrokerNode
from tests.simulation.database import tables
from tests.simulation.database.server import DatabaseServer, ServerDatabase
from tests.simulation.database.threads import Threads, ThreadWriter
from tests.simulation.model import Ledger
from tests.simulation.network import Network
from tests.simulation.settings import STORE
from tests.simulation.world import Process, World

TAKER_PATIENCE = 40
"""How often another broker that wants the data asks for them while the database is away."""


class DatabaseNode(BrokerNode):
    """``store`` is that of the present process."""

    store: SqlStore  # type: ignore[assignment]

    def __init__(self, world: World, network: Network, ledger: Ledger, server: DatabaseServer, threads: Threads) -> None:
        self.server_of_data = server
        self.threads = threads
        self._breaks_known = 0
        """Errors of the database that are accounted for."""
        self._serves = False
        """Is the start over, in which the loop waits for the database?"""
        self._takers: list[Process] = []
        """Other brokers that have wanted the data."""
        super().__init__(world, network, ledger)

    # --- what it is made of

    def configuration(self) -> Configuration:
        return replace(
            super().configuration(),
            database_store=DatabaseStoreConfiguration("jdbc:postgresql://simulated/mq"),
            journal_directory=STORE.node_directory,
            large_messages_directory=STORE.large_messages_directory,
        )

    def _parts(self, process: Process) -> Parts:
        return replace(
            super()._parts(process),
            make_writer=lambda in_turn: ThreadWriter(self.threads, in_turn, process, self._disk_delay),
            database=ServerDatabase(self.server_of_data, process, self),
        )

    def _make_store(  # type: ignore[override]
        self, settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object]
    ) -> Store:
        store = make_store(settings, parts, new_writer, failed)
        assert isinstance(store, SqlStore)
        self.store = store
        store.own.held.subscribe(lambda ticket: self._acknowledges(store, ticket))
        return store

    def _acknowledges(self, store: SqlStore, ticket: int) -> None:
        """Work up to this ticket is about to be told to be durable: its transaction must have been committed by this owner."""
        committed = self.server_of_data.committed.get(store.owner, 0)
        if committed < store._batch:
            self.world.violation(
                f"{self.process.name} acknowledges transaction {store._batch}, and the database has {committed} of this owner"
            )

    # --- life

    @property
    def serves(self) -> bool:
        return self.running and self._serves

    def start(self) -> None:
        if not self.running:
            self._breaks_known = self.server_of_data.breaks
            self._serves = False
        super().start()

    def became_active(self, process: Process) -> None:
        super().became_active(process)
        self._serves = True
        # After a start the messages are pages.
        self.messages_recovered += self.paged

    def _keeps_what_it_began(self, new: Collection[str]) -> bool:
        """Of the folders only the lock may be new."""
        return all(path.startswith(f"{STORE.node_directory}/") for path in new)

    def killed_by_database(self, machine: bool, downtime: float) -> None:
        self.crash(machine, downtime)

    def _dies(self, machine: bool) -> None:
        process = self.process
        super()._dies(machine)
        self.server_of_data.process_died(process, machine)
        self.threads.process_died(process)

    def freeze(self, seconds: float) -> None:
        """The process stands still, its threads, too."""
        self.threads.freeze(self.process, seconds)

    def heal(self) -> None:
        super().heal()
        self.server_of_data.heal()
        # Starts that did not find the database have met none of it.
        self.trouble.clear()
        for taker in self._takers:
            taker.end()
            self.threads.process_died(taker)
            self.server_of_data.forget(taker)
        self._takers.clear()
        if self.serves and not self.server_of_data.owns(self.store._session):
            # It would notice with its next write only.
            self.crash(False, 0.1)

    @property
    def held_up_until(self) -> float:
        return max(super().held_up_until, self.server_of_data.last_trouble)

    def may_fail(self, reason: str) -> bool:
        """A store fails when another broker has the data, and a start while the database is away."""
        if reason.startswith(("FencedError", "OwnerChangedError")):
            return not self.server_of_data.owns(self.store._session)
        away = self.server_of_data.breaks != self._breaks_known and not self.store._loaded
        return super().may_fail(reason) or away

    def have_data_taken(self) -> None:
        """Another broker takes the data, as a start elsewhere does, and ends."""
        if not self.node_id:
            return
        name = f"taker {len(self._takers)}"
        taker = Process(self.world, name, self.generator(name))
        self._takers.append(taker)
        self.threads.start(taker, lambda: self._take(taker))

    def _take(self, taker: Process) -> None:
        database = ServerDatabase(self.server_of_data, taker)
        for _ in range(TAKER_PATIENCE):
            try:
                connection = database.connect()
                session.take(connection, self.node_id, taker.name)
            except DatabaseAwayError:
                self.threads.wait(taker, 0.1)
            else:
                self.world.note(f"{taker.name} has the data")
                connection.close()
                return

    # --- what the checks look at

    @property
    def has_paged(self) -> bool:
        return self.starts > 1

    @property
    def looked_at(self) -> Set[str]:
        return {body.path for body in self.store._bodies._looked_at.values()}

    def store_problems(self) -> Iterable[str]:
        return tables.problems(self.server_of_data, self.messaging)
