"""One run of a broker on a database: ``--database``.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.broker import BrokerNode
from tests.simulation.copies import Copies
from tests.simulation.database.copies import DatabaseCopies
from tests.simulation.database.faults import DatabaseSchedule, draw
from tests.simulation.database.node import DatabaseNode
from tests.simulation.database.server import DatabaseServer
from tests.simulation.database.threads import Threads
from tests.simulation.run import Result, Simulation


class DatabaseSimulation(Simulation):
    """See :class:`tests.simulation.run.Simulation`; the database is a server of its own, which no crash of the broker reaches."""

    broker: DatabaseNode

    def make_broker(self, store_class: object) -> BrokerNode:
        self.threads = Threads(self.world)
        self.server = DatabaseServer(self.world, self.threads)
        return DatabaseNode(self.server, self.world, self.network, self.ledger)

    def draw_faults(self, rng: random.Random) -> DatabaseSchedule:  # type: ignore[override]
        return draw(rng)

    def make_copies(self) -> Copies:
        return DatabaseCopies(self.world, self.ledger, [self.broker])

    def run(self) -> Result:
        threads, server = self.threads, self.server
        try:
            return replace(super().run(), command="python -m tests.simulation --database")
        finally:
            threads.end()
            server.close()


def simulate_database(seed: int) -> Result:
    """Run one seed."""
    return DatabaseSimulation(seed).run()
