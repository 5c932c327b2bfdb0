"""What goes wrong with brokers that share a database: with any of them, between them, and with the database."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster.faults import BYTES_CARRIED, CutOf, OfNode
from tests.simulation.database.faults import POINTS, RARE, AtOperation, ServerFault, begin_at_server, of_server
from tests.simulation.ha import faults as ha_faults
from tests.simulation.ha.faults import (
    ACTIVE,
    FAULTS_FROM,
    FAULTS_UNTIL,
    HELD_UP_MAX,
    AllKilled,
    HaSchedule,
    HeldUp,
    PowerCut,
    draw_blocked,
    end_of_active,
    of_one,
)
from tests.simulation.network import TO_BROKER, TO_CLIENT, Cut
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.database.pair import DatabaseGroup

WHOSE = (ACTIVE, ACTIVE, 0, 1, None)
"""Whose operations faults wait for, that more often which stands here twice."""
ENDS = ("break", "break", "break", "kill", "power", "freeze", "freeze", "freeze")


@dataclass(frozen=True, slots=True)
class ClockPutForward:
    """The clock of the database is set: every lease has ended, and its holder does not know."""

    at: float
    milliseconds: int


class PairSchedule(HaSchedule):
    """See :class:`tests.simulation.ha.faults.HaSchedule`."""

    def begin(self, fault: Any, world: World, group: Any, clients: Sequence[Process]) -> None:
        if not begin_at_database(fault, group):
            super().begin(fault, world, group, clients)


def draw(rng: random.Random, brokers: int) -> PairSchedule:
    timed: list[Any] = [end_of_active(rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    timed += [OfNode(rng.randrange(ACTIVE, brokers), of_one(rng, HELD_UP_MAX)) for _ in range(rng.choice((0, 0, 1, 2)))]
    timed += [HeldUp(_time(rng), _standstill(rng), "-", 0, False, False) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    timed += [_at_operation(rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    timed += of_server(rng, FAULTS_FROM, FAULTS_UNTIL)
    if rng.random() < 0.25:
        timed.append(ClockPutForward(_time(rng), rng.choice((300, rng.randrange(1000, 5000), 3_600_000))))
    if rng.random() < 0.1:
        timed.append(PowerCut(_time(rng)))
    if rng.random() < 0.15:
        timed.append(AllKilled(_time(rng), tuple(rng.uniform(0, 1.0) for _ in range(brokers))))
    if rng.random() < 0.2:
        timed.append(draw_blocked(rng, brokers, HELD_UP_MAX))
    cuts = [
        CutOf(
            rng.randrange(brokers),
            Cut(rng.choice((TO_BROKER, TO_CLIENT)), rng.randrange(BYTES_CARRIED), rng.random() < 0.2, rng.random() < 0.15),
        )
        for _ in range(rng.choice((0, 0, 1, 2)))
    ]
    return PairSchedule(sorted(timed, key=lambda fault: fault.at), cuts)


def _time(rng: random.Random) -> float:
    return rng.uniform(FAULTS_FROM, FAULTS_UNTIL)


def _standstill(rng: random.Random) -> float:
    """Longer than a lease lasts, most often."""
    return rng.choice((rng.uniform(0.2, 1.0), rng.uniform(1.0, HELD_UP_MAX), rng.uniform(1.0, HELD_UP_MAX)))


def _at_operation(rng: random.Random) -> AtOperation:
    point, what = rng.choice(POINTS), rng.choice(ENDS)
    seconds = _standstill(rng) if what == "freeze" else rng.choice((rng.uniform(0.01, 0.5), rng.uniform(0.5, 2.5)))
    return AtOperation(_time(rng), point, rng.randrange(2 if point in RARE else 20), what, seconds, rng.choice(WHOSE))


def begin_at_database(fault: object, group: DatabaseGroup) -> bool:
    """Is it a fault of the database, or of what a broker does there?"""
    match fault:
        case AtOperation():
            node = None if fault.whom is None else ha_faults._active(group) if fault.whom == ACTIVE else group.nodes[fault.whom]
            group.server.arm(fault.point, fault.after, fault.what, fault.seconds, node)  # type: ignore[arg-type]
        case ClockPutForward():
            group.server.put_forward(fault.milliseconds)
        case _ if isinstance(fault, ServerFault):
            begin_at_server(fault, group.server)
            return True
        case _:
            return False
    group.world.note(f"fault: {fault}")
    return True
