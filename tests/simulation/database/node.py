"""A broker of the simulation that is alone on its database."""

from __future__ import annotations

from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import DatabaseAwayError
from tests.simulation.database.connections import ServerDatabase
from tests.simulation.database.on_database import OnDatabase
from tests.simulation.database.server import DatabaseServer
from tests.simulation.model import Ledger
from tests.simulation.network import Network
from tests.simulation.world import Process, World

TAKER_PATIENCE = 40
"""How often another broker that wants the data asks for them while the database is away."""


class DatabaseNode(OnDatabase):
    """Another broker takes its data now and then, and ends."""

    def __init__(self, server: DatabaseServer, world: World, network: Network, ledger: Ledger) -> None:
        self._takers: list[Process] = []
        """Other brokers that have wanted the data."""
        super().__init__(server, world, network, ledger)

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
        if self.serves and not self.owns_data:
            # It would notice with its next write only.
            self.crash(False, 0.1)

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
