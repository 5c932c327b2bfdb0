"""Runs with a store that answers everything later, of one broker or of a cluster: ``--late``."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

from tests.simulation.run import Result, Simulation
from tests.simulation.stops import CLUSTER_EVERY, leaving_cluster
from tests.support.late_store import DELAY, LateStore


def simulate_late(seed: int) -> Result:
    """Run one seed: a broker whose commits and reads come later than they are asked for, or a cluster of such brokers that leave."""
    if seed % CLUSTER_EVERY:
        result = Simulation(seed, _LateStore).run()
    else:
        result = leaving_cluster(seed, _LateStore).run()
        gc.collect()  # as simulate_cluster does it
    return replace(result, command="python -m tests.simulation --late")


class _LateStore(LateStore):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args, delay=DELAY)
