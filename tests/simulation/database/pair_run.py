"""One run of brokers that share a database: ``--database-pair``.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import random

from tests.simulation.copies import Copies
from tests.simulation.database import pair_faults
from tests.simulation.database.copies import DatabaseCopies
from tests.simulation.database.pair import DatabaseGroup
from tests.simulation.ha.faults import HaSchedule
from tests.simulation.ha.group import Group
from tests.simulation.ha.plan import HaPlan
from tests.simulation.ha.run import HaSimulation
from tests.simulation.policies import Plan
from tests.simulation.run import Result


class DatabasePairSimulation(HaSimulation):
    """See :class:`tests.simulation.ha.run.HaSimulation`; the database is a server of its own, which no crash of a broker reaches."""

    command = "python -m tests.simulation --database-pair"

    def _draw_plan(self) -> HaPlan:
        return HaPlan.draw(self.world.generator("group plan"))

    def _draw_schedule(self, rng: random.Random) -> HaSchedule:
        return pair_faults.draw(rng, self.plan.brokers)

    def _make_group(self, settings: Plan) -> Group:
        return DatabaseGroup(self.world, self.plan, self.ledger, settings)

    def _make_copies(self) -> Copies:
        return DatabaseCopies(self.world, self.ledger, self.group.fronts)

    def run(self) -> Result:
        group = self.group
        assert isinstance(group, DatabaseGroup)
        try:
            return super().run()
        finally:
            group.threads.end()
            group.server.close()


def simulate_database_pair(seed: int) -> Result:
    """Run one seed."""
    return DatabasePairSimulation(seed).run()
