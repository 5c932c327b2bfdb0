"""Copies of a database: at moments of a run another broker starts on what was committed, see :mod:`tests.simulation.copies`."""

from __future__ import annotations

from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import Recovered
from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.errors import StorageError
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import transaction
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.sqlstore import SqlStore
from tests.simulation.broker import BrokerNode
from tests.simulation.copies import Copies, _Idle, body_in
from tests.simulation.database.connections import PlainDatabase
from tests.simulation.database.member_ledger import THE_CLUSTER
from tests.simulation.database.on_database import OnDatabase
from tests.simulation.imq.copies import HomeCopies
from tests.simulation.settings import STORE
from tests.simulation.survival import Kept
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter

TAKEN_OVER = 0.3
"""The part of the copies of an enhanced cluster in which one member takes over all others."""


class DatabaseCopies(Copies):
    """The brokers of a copy share its database; each has an empty disk of its own."""

    _database: PlainDatabase | None = None

    def look(self) -> None:
        try:
            super().look()
        finally:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _start(self, node: BrokerNode, kept: Kept) -> str | None:
        assert isinstance(node, OnDatabase)
        if self._database is None:
            self._database = PlainDatabase(node.server_of_data.image())
            self.begin(self._database)
        try:
            self._adopt(node, self._database, kept)
        except StorageError as error:
            return str(error)
        return None

    def begin(self, database: PlainDatabase) -> None:
        """The brokers of a copy are about to start."""

    def _adopt(self, node: OnDatabase, database: PlainDatabase, kept: Kept) -> None:
        store = self.new_store(node, database)
        store.open()
        recovered = store.load()
        if store.node_id != node.node_id:
            raise StorageError(f"the node id would be {store.node_id} and not {node.node_id}")
        self.read(node, store, recovered, kept)  # type: ignore[arg-type]

    def new_store(self, node: OnDatabase, database: PlainDatabase, broker_id: str = "") -> SqlStore:
        """The store of a start on the copy."""
        self._reading = SimulatedDiskWriter()
        disk = SimulatedDisk(self._rng)
        disk.make_directory(STORE.node_directory)
        idle: Any = _Idle(node)
        directory, claim = STORE.large_messages_directory, OwnFolder(disk, STORE.node_directory)
        return SqlStore(database, disk, directory, idle, self._reading, idle, self._rng.randbytes, claim, _failed, broker_id)

    def body_of(self, message: Message) -> bytes:
        while True:
            try:
                return body_in(message)
            except NotYet as pending:
                pending.when_there(_nothing)
                self._reading.run()


class MemberCopies(DatabaseCopies, HomeCopies):
    """All members start on the copy; at times one of them has taken over all others."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._owners: list[str] = []
        """The members that have data."""

    def begin(self, database: PlainDatabase) -> None:
        connection = database.connect()
        owners = [str(broker) for (broker,) in connection.rows(table("SELECT DISTINCT broker FROM {session} ORDER BY broker"))]
        if self._rng.random() < TAKEN_OVER:
            taker = self._rng.choice(owners)
            with transaction(connection):
                for target in owners:
                    if target != taker:
                        session.switch(connection, target, taker, "the taker of a copy")
            owners = [taker]
        self._owners = owners

    def _adopt(self, node: OnDatabase, database: PlainDatabase, kept: Kept) -> None:
        if node.name not in self._owners:
            return  # another one has what it had
        store = self.new_store(node, database, node.name)
        store.open()
        recovered = store.load()
        _join(recovered)
        self.read(node, store, recovered, kept)  # type: ignore[arg-type]
        ids = kept.next_ids
        ids[THE_CLUSTER] = min(ids[node.name], ids.get(THE_CLUSTER, ids[node.name]))


def _join(recovered: Recovered) -> None:
    """What was inherited is in the queues of the same names.  Queues that are not there keep their ids: all ids are of one sequence."""
    here = {queue.name: queue.queue_id for queue in recovered.queues}
    for each in recovered.inherited:
        found = each.found
        each.assign({queue.queue_id: here.setdefault(queue.name, queue.queue_id) for queue in found.queues})
        recovered.queues += found.queues
        recovered.messages += found.messages
        recovered.duplicate_ids += found.duplicate_ids
        recovered.branches += found.branches


def _failed(reason: str) -> None:
    raise StorageError(reason)


def _nothing() -> None: ...
