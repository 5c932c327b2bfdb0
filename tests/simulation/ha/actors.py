"""Clients of a group that need to know more than those of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqclient.xa import XAER_NOTA, XAError, Xid
from tests.simulation.branches import BranchWorker

if TYPE_CHECKING:
    from tests.simulation.ha.run import HaSimulation


class HaBranchWorker(BranchWorker):
    """Asks again as long as a former holder may have said that there is no such branch: nothing durable stands behind that answer."""

    simulation: HaSimulation  # type: ignore[assignment]

    def is_over(self, xid: Xid, error: XAError) -> bool:
        over = self.simulation.group.is_calm and super().is_over(xid, error)
        if over and error.error_code == XAER_NOTA:
            self.simulation.ledger.unknown_branches.add(xid)
        return over
