"""Runs in which only orderly stops, starts that fail and scale-down happen, of one broker or of a cluster: ``--stops``."""

from __future__ import annotations

import gc
import random
from dataclasses import replace

from mqbroker.storage.files.filestore import FileStore
from tests.simulation import faults
from tests.simulation.cluster.faults import ClusterFault, ClusterSchedule, OfNode, scale_down
from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.cluster.run import ClusterSimulation
from tests.simulation.faults import FAULTS_FROM, FAULTS_UNTIL, Schedule, Stop, start_trouble
from tests.simulation.run import Result, Simulation
from tests.simulation.world import World

CLUSTER_EVERY = 3
"""Of so many seeds one is a cluster."""


def simulate_stops(seed: int) -> Result:
    """Run one seed."""
    if seed % CLUSTER_EVERY:
        alone = Simulation(seed)
        alone.schedule = _of_one(random.Random(f"{seed}/stops"))
        result = alone.run()
    else:
        result = leaving_cluster(seed).run()
        gc.collect()  # as simulate_cluster does it
    return replace(result, command="python -m tests.simulation --stops")


def _of_one(rng: random.Random) -> Schedule:
    timed: list[faults.Fault] = [_stop(rng) for _ in range(rng.choice((1, 2, 3)))]
    timed += [start_trouble(rng) for _ in range(rng.choice((0, 1, 2)))]
    return Schedule(sorted(timed, key=lambda fault: fault.at), [])


def leaving_cluster(seed: int, store_class: type[FileStore] = FileStore) -> ClusterSimulation:
    """A cluster whose brokers leave by scale-down, some of them more than once."""
    rng = random.Random(f"{seed}/stops")
    plan = ClusterPlan.draw(World(seed).generator("cluster plan"))
    # The time that a run takes grows with the square of its nodes.
    plan = replace(plan, nodes=min(plan.nodes, 3), skews=plan.skews[:3], away=None).leaving()
    timed: list[ClusterFault] = [scale_down(rng, plan.nodes) for _ in range(rng.choice((1, 2, 3)))]
    timed += [OfNode(rng.randrange(plan.nodes), rng.choice((_stop, start_trouble))(rng)) for _ in range(rng.choice((0, 1, 2)))]
    return ClusterSimulation(seed, plan, ClusterSchedule(sorted(timed, key=lambda fault: fault.at), []), store_class)


def _stop(rng: random.Random) -> Stop:
    return Stop(rng.uniform(FAULTS_FROM, FAULTS_UNTIL), rng.choice((0.01, rng.uniform(0.05, 0.5), rng.uniform(0.5, 2.0))))
