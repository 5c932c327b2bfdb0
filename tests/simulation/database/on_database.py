"""A broker that has a database, and one that keeps everything there, whatever else they are: the bases of the kinds of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import replace
from functools import partial
from typing import Any

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.messaging.ports import Store
from mqbroker.node.activation import Surroundings
from mqbroker.node.life_machine import active
from mqbroker.node.parts import Parts, StartError
from mqbroker.node.stores import make_store
from mqbroker.storage.disk.diskwriter import DiskWriter
from mqbroker.storage.sql.sqlstore import SqlStore
from tests.simulation.broker import BrokerNode
from tests.simulation.database import tables
from tests.simulation.database.connections import URL, ServerDatabase
from tests.simulation.database.server import DatabaseServer
from tests.simulation.database.threads import ThreadBeat, ThreadLock, ThreadWriter
from tests.simulation.settings import STORE
from tests.simulation.world import Process


class AtDatabase(BrokerNode):
    """A broker that uses a database for anything.

    Stands among the bases before the one that says what the broker is otherwise, which gets ``others``.
    """

    def __init__(self, server: DatabaseServer, *others: Any) -> None:
        self.server_of_data = server
        self.threads = server.threads
        super().__init__(*others)

    def _parts(self, process: Process) -> Parts:
        return replace(super()._parts(process), make_writer=lambda in_turn: ThreadWriter(self.threads, in_turn, process, self._disk_delay))

    def with_database(self, outside: Surroundings, process: Process, patience: float) -> Surroundings:
        """The outside world of an activation that depends on rows; ``patience``: see :class:`ServerDatabase`."""
        return replace(
            outside,
            lock=ThreadLock(self.threads, process),
            database=ServerDatabase(self.server_of_data, process, self, patience),
            make_beat=lambda: ThreadBeat(self.threads, process),
            make_writer=lambda in_turn: ThreadWriter(self.threads, in_turn, process, self._disk_delay),
        )

    @property
    def serves(self) -> bool:
        """A broker whose loop waits for the database, or that has lost its data and begins again, serves nobody."""
        return super().serves and not self.process.in_the_middle and self.life.state == active.name

    def make_process(self) -> Process:
        process = super().make_process()
        process.run = partial(self.threads.run_event, process)
        return process

    def _start_process(self, start: Callable[[], None]) -> None:
        self.threads.run_event(self.process, partial(super()._start_process, start))

    def _does_not_start(self, error: StartError) -> None:
        super()._does_not_start(error)
        self._ends_at_database(False)

    def killed_by_database(self, machine: bool, downtime: float) -> None:
        self.crash(machine, downtime)

    def _dies(self, machine: bool) -> None:
        super()._dies(machine)
        self._ends_at_database(machine)

    def _ends_at_database(self, machine: bool) -> None:
        self.server_of_data.process_died(self.process, machine)
        self.threads.process_died(self.process)

    def freeze(self, seconds: float) -> None:
        self.threads.freeze(self.process, seconds)

    @property
    def held_up_until(self) -> float:
        return max(super().held_up_until, self.server_of_data.last_trouble)


class OnDatabase(AtDatabase):
    """A broker with its store in the database.  ``store`` is that of the present process."""

    store: SqlStore  # type: ignore[assignment]
    database_store = DatabaseStoreConfiguration(URL)
    _breaks_known = 0
    """Errors of the database that were there before the present store."""

    # --- what it is made of

    def configuration(self) -> Configuration:
        return replace(
            super().configuration(),
            database_store=self.database_store,
            journal_directory=STORE.node_directory,
            large_messages_directory=STORE.large_messages_directory,
        )

    def _parts(self, process: Process) -> Parts:
        return replace(super()._parts(process), database=ServerDatabase(self.server_of_data, process, self))

    def _make_store(  # type: ignore[override]
        self, settings: BrokerSettings, parts: Parts, new_writer: Callable[[], DiskWriter], failed: Callable[[str], object]
    ) -> Store:
        self._breaks_known = self.server_of_data.breaks
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

    def became_active(self, process: Process) -> None:
        super().became_active(process)
        # After a start the messages are pages.
        self.messages_recovered += self.paged

    def _keeps_what_it_began(self, new: Collection[str]) -> bool:
        """Of the folders only the lock may be new."""
        return all(path.startswith(f"{STORE.node_directory}/") for path in new)

    @property
    def owns_data(self) -> bool:
        """Are the data this process's, so far as the database knows?"""
        return self.store._loaded and self.server_of_data.owns(self.store._session)

    def may_fail(self, reason: str) -> bool:
        """A store fails when another broker has the data, and a start while the database is away."""
        if reason.startswith(("FencedError", "OwnerChangedError")):
            return not self.owns_data
        if "have another owner" in reason:  # a start that was overtaken
            return not self.server_of_data.owns(self.store._session)
        away = self.server_of_data.breaks != self._breaks_known and not self.store._loaded
        return super().may_fail(reason) or away

    # --- what the checks look at

    @property
    def has_paged(self) -> bool:
        return self.starts > 1

    @property
    def looked_at(self) -> Set[str]:
        return {body.path for body in self.store._bodies._looked_at.values()}

    def store_problems(self) -> Iterable[str]:
        return tables.problems(self.server_of_data, self.messaging)
