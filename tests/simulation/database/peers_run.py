"""One run of home brokers whose change record is in a database: ``--peers``.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import gc
import random
from dataclasses import replace

from mqbroker.node.parts import Parts
from mqbroker.storage.files.filestore import FileStore
from tests.simulation.cluster.faults import ClusterSchedule
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.database import home_faults
from tests.simulation.database.connections import ServerDatabase
from tests.simulation.database.on_database import AtDatabase
from tests.simulation.database.server import DatabaseServer
from tests.simulation.database.threads import Threads
from tests.simulation.imq.node import OWN, HomeNode
from tests.simulation.imq.plan import HomePlan
from tests.simulation.imq.run import HomeSimulation
from tests.simulation.run import Result
from tests.simulation.world import Process

OPERATIONS = 12
"""About as many operations at the database a broker does while something may go wrong."""


class PeerNode(AtDatabase, HomeNode):
    """A member that keeps its messages in files, and follows the table."""

    def _parts(self, process: Process) -> Parts:
        return replace(super()._parts(process), record=ServerDatabase(self.server_of_data, process, self))


class HomesAtDatabase(HomeSimulation):
    """Home brokers that share a database, a server of its own, which no crash of a broker reaches."""

    member_class: type[AtDatabase]
    operations = OPERATIONS
    _server: DatabaseServer | None = None

    @property
    def server(self) -> DatabaseServer:
        if self._server is None:
            self._server = DatabaseServer(self.world, Threads(self.world))
        return self._server

    def _make_node(self, kind: type[ClusterNode], number: int, store_class: type[FileStore]) -> ClusterNode:
        return self.member_class(self.server, self.world, self.fabric, self.ledger, self.plan, number, store_class)  # type: ignore[return-value]

    def _draw_faults(self, rng: random.Random) -> ClusterSchedule:
        return home_faults.draw(rng, self.plan, self.operations)

    def _heal_nodes(self) -> None:
        self.server.heal()
        super()._heal_nodes()

    def _is_quiet(self) -> bool:
        """Members ask each other which record they follow, now and then."""
        return not any(
            address.memory.messages
            for node in self.nodes
            for name, address in node.messaging.core.addresses.items()
            if name.startswith(OWN)
        )

    def run(self) -> Result:
        server = self.server
        try:
            return super().run()
        finally:
            server.threads.end()
            server.close()


class PeersSimulation(HomesAtDatabase):
    command = "python -m tests.simulation --peers"
    member_class = PeerNode

    def _draw_plan(self, rng: random.Random) -> HomePlan:
        return HomePlan.draw(rng).with_peers()


def simulate_peers(seed: int) -> Result:
    """Run one seed."""
    result = PeersSimulation(seed).run()
    gc.collect()  # what processes that died have left behind must not be taken apart in the next run
    return result
