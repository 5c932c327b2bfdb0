"""The run of a seed, whatever kind of high availability it gives."""

from __future__ import annotations

import gc
from dataclasses import replace

from tests.simulation.ha.colocated.run import ColocatedSimulation
from tests.simulation.ha.retiring import retiring_cluster
from tests.simulation.ha.run import HaSimulation
from tests.simulation.ha.seeds import gives_away, is_colocated
from tests.simulation.run import Result


def simulate_ha(seed: int) -> Result:
    """Run one seed."""
    if is_colocated(seed):
        return ColocatedSimulation(seed).run()
    if not gives_away(seed):
        return HaSimulation(seed).run()
    result = retiring_cluster(seed).run()
    gc.collect()  # as simulate_cluster does it
    return replace(result, command="python -m tests.simulation --ha")
