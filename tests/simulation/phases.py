"""Faults that wait until the broker has come to a certain point of its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.broker import BrokerNode
    from tests.simulation.network import BrokerTransport


SLOW_SECONDS = 0.3
"""How long the disk is slow after such a fault."""


@dataclass(slots=True)
class Aim:
    """A fault that waits for the broker to come to a phase, see :class:`tests.simulation.faults.AtPhase`."""

    phase: str
    what: str
    times: int
    delay: float
    slow: float
    downtime: float


def watch_phases(node: BrokerNode) -> None:
    """Let the aims of a broker that has just started hear of the phases."""
    sessions, branches = node.server.sessions, node.messaging.branches
    reattach, prepare = sessions.reattach, branches.prepare

    def reattached(connection: Any, request: Any) -> None:
        reattach(connection, request)
        _come_to(node, "reattach", connection._transport)

    def prepared(xid: Any) -> int:
        ticket = prepare(xid)
        _come_to(node, "prepared", None)
        return ticket

    sessions.reattach = reattached  # type: ignore[method-assign]
    branches.prepare = prepared  # type: ignore[method-assign]


def _come_to(node: BrokerNode, phase: str, transport: BrokerTransport | None) -> None:
    world = node.world
    for aim in [aim for aim in node.aims if aim.phase == phase]:
        aim.times -= 1
        if not aim.times:
            node.aims.remove(aim)
        world.note(f"fault: {aim} hits")
        if aim.slow > node.slow_disk:
            node.slow_disk = aim.slow
            world.schedule(aim.delay + SLOW_SECONDS, setattr, node, "slow_disk", 1.0)
        if aim.what != "cut":
            world.schedule(aim.delay, node.crash, aim.what == "power", aim.downtime)
        elif transport is not None:
            world.schedule(aim.delay, transport.cut)
