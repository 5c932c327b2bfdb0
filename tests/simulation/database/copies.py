"""Copies of a database: at moments of a run another broker starts on what was committed, see :mod:`tests.simulation.copies`."""

from __future__ import annotations

from typing import Any

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.storage.disk.claim import OwnFolder
from mqbroker.storage.errors import StorageError
from mqbroker.storage.sql.sqlstore import SqlStore
from tests.simulation.broker import BrokerNode
from tests.simulation.copies import Copies, _Idle, body_in
from tests.simulation.database.connections import PlainDatabase
from tests.simulation.database.on_database import OnDatabase
from tests.simulation.settings import STORE
from tests.simulation.survival import Kept
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter


class DatabaseCopies(Copies):
    """The broker of a copy has an empty disk of its own."""

    def _start(self, node: BrokerNode, kept: Kept) -> str | None:
        assert isinstance(node, OnDatabase)
        database = PlainDatabase(node.server_of_data.image())
        self._reading = SimulatedDiskWriter()
        disk = SimulatedDisk(self._rng)
        disk.make_directory(STORE.node_directory)
        idle: Any = _Idle(node)
        directory, claim = STORE.large_messages_directory, OwnFolder(disk, STORE.node_directory)
        store = SqlStore(database, disk, directory, idle, self._reading, idle, self._rng.randbytes, claim, _failed)
        try:
            store.open()
            recovered = store.load()
            if store.node_id != node.node_id:
                return f"the node id would be {store.node_id} and not {node.node_id}"
            self.read(node, store, recovered, kept)  # type: ignore[arg-type]
        except StorageError as error:
            return str(error)
        finally:
            database.close()
        return None

    def body_of(self, message: Message) -> bytes:
        while True:
            try:
                return body_in(message)
            except NotYet as pending:
                pending.when_there(_nothing)
                self._reading.run()


def _failed(reason: str) -> None:
    raise StorageError(reason)


def _nothing() -> None: ...
