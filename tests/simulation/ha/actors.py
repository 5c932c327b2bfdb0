"""Clients of a group that need to know more than those of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.xa import XAError
from tests.simulation.branches import BranchWorker

if TYPE_CHECKING:
    from tests.simulation.ha.run import HaSimulation


class HaBranchWorker(BranchWorker):
    """Asks again as long as a former holder may have said that there is no such branch: nothing durable stands behind that answer."""

    simulation: HaSimulation  # type: ignore[assignment]

    def is_over(self, error: XAError) -> bool:
        return self.simulation.group.is_calm and super().is_over(error)
