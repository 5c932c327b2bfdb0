"""Branches of distributed transactions in a cluster: their transaction manager looks for them at every node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mqclient.core.factories.locator import Locator
from mqclient.errors import MQError
from mqclient.xa import XAER_NOTA, XAError, Xid
from tests.simulation.branches import BranchWorker
from tests.simulation.client import CONNECTOR, SimulatedRuntime
from tests.simulation.cluster.actors import AtNode
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.model import Outcome, Unit


class ClusterBranchWorker(AtNode, BranchWorker):
    """Works at one node.  What is prepared there may be at another one when it is decided, or at two, after a scale-down."""

    targets = ("orders", "jobs")

    def queues(self, address: str) -> tuple[str, ...]:
        return (address, "audit") if address == "orders" and self.simulation.cluster.plan.divert else (address,)

    async def _decide(self, xid: Xid, unit: Unit, commit: bool) -> None:
        """Tell all nodes, until none has given anything away while they were told; one that is away holds up no other."""
        unit.asked = self.world.now
        if not commit:
            self.ledger.finish(unit, Outcome.NEVER)
        await self.leave()
        lives: list[int] = []
        while lives != self._lives():
            lives = self._lives()
            untold = list(self.simulation.cluster.nodes)
            while untold:
                untold = [node for node in untold if self.may_know(node) and not await self._tell(node, xid, unit, commit)]
                if untold:
                    await self.pause(0.1)
        if commit:
            self.ledger.finish(unit, Outcome.DONE, self.world.now)

    def may_know(self, node: ClusterNode) -> bool:
        """May the node know the branch?  Asked until it has answered."""
        return True

    def _lives(self) -> list[int]:
        """Differs from before when a node has stopped, or is about to."""
        return [2 * node.starts + node.process.stopping for node in self.simulation.cluster.nodes]

    async def _tell(self, node: ClusterNode, xid: Xid, unit: Unit, commit: bool) -> bool:
        """Has the node understood, or does it know nothing of the branch?"""
        runtime: Any = SimulatedRuntime(self.process, node.network)
        locator = Locator(runtime, [CONNECTOR], self.settings)
        told = False
        try:
            factory = await self.call(f"connect to {node.name}", locator.create_session_factory)
            try:
                session = await factory.create_session(xa=True)
                resource = session.xa_resource
                tell: Callable[[], Awaitable[None]] = (lambda: resource.commit(xid)) if commit else (lambda: resource.rollback(xid))
                await self.call(f"{'commit' if commit else 'roll back'} {unit.name} at {node.name}", tell)
                told = True
            except XAError as error:
                self.world.note(f"{self.name}: {error}")
                told = error.error_code == XAER_NOTA or error.rolled_back
            finally:
                await factory.close()
        except MQError:
            pass
        return told
