"""What goes wrong with home brokers that share a database: what goes wrong in every cluster, and with the database."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster import faults
from tests.simulation.cluster.fabric import Fabric
from tests.simulation.cluster.faults import FAULTS_FROM, FAULTS_UNTIL, ClusterSchedule, OfNode
from tests.simulation.database.faults import POINTS, RARE, AtOperation, ServerFault, begin_at_server, of_server
from tests.simulation.faults import Crash, Pause
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.database.on_database import AtDatabase
    from tests.simulation.imq.plan import HomePlan

ENDS = ("break", "break", "break", "kill", "power", "freeze")
FROZEN_MAX = 4.0


class HomeSchedule(ClusterSchedule):
    """See :class:`tests.simulation.cluster.faults.ClusterSchedule`."""

    def begin(self, fault: Any, world: World, fabric: Fabric, nodes: Sequence[AtDatabase], clients: Sequence[Process]) -> None:
        server = nodes[0].server_of_data
        if isinstance(fault, AtOperation):
            node = None if fault.whom is None else nodes[fault.whom]
            server.arm(fault.point, fault.after, fault.what, fault.seconds, node)
            world.note(f"fault: {fault}")
        elif isinstance(fault, ServerFault):
            begin_at_server(fault, server)
        else:
            super().begin(fault, world, fabric, nodes, clients)


def draw(rng: random.Random, plan: HomePlan, operations: int) -> HomeSchedule:
    """``operations``: about how many each broker does at the database while something may go wrong."""
    ordinary = faults.draw(rng, plan)
    timed: list[Any] = [*ordinary.timed]
    timed += [_at_operation(rng, plan.nodes, operations) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    timed += of_server(rng, FAULTS_FROM, FAULTS_UNTIL)
    if plan.enhanced is not None:
        timed += [_long_absence(rng, plan.nodes) for _ in range(rng.choice((0, 1, 1, 2)))]
    return HomeSchedule(sorted(timed, key=lambda fault: fault.at), ordinary.cuts)


def _long_absence(rng: random.Random, nodes: int) -> OfNode:
    """Long enough for a takeover, most often; the member comes back, or goes on, while clients work."""
    at, seconds = rng.uniform(FAULTS_FROM, 4.5), rng.uniform(1.0, FROZEN_MAX)
    fault = Pause(at, seconds, -1) if rng.random() < 0.3 else Crash(at, rng.random() < 0.5, seconds)
    return OfNode(rng.randrange(nodes), fault)


def _at_operation(rng: random.Random, nodes: int, operations: int) -> AtOperation:
    point, what = rng.choice(POINTS), rng.choice(ENDS)
    seconds = rng.choice((rng.uniform(0.01, 0.5), rng.uniform(0.5, FROZEN_MAX if what == "freeze" else 2.5)))
    after = rng.randrange(2 if point in RARE else operations)
    return AtOperation(rng.uniform(FAULTS_FROM, FAULTS_UNTIL), point, after, what, seconds, rng.choice((None, rng.randrange(nodes))))
