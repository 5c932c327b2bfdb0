"""What goes wrong with the lock service of a pair, and between it and the brokers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.ha.lock_service import HOST, LockService

if TYPE_CHECKING:
    from tests.simulation.ha.fabric import GroupFabric
    from tests.simulation.ha.node import HaNode
    from tests.simulation.world import World

ENDS = ("crash", "power", "still", "still", "session", "answer", "down", "cut off")
"""What happens at a change of the number, that more often which stands here twice."""


@dataclass(frozen=True, slots=True)
class SessionEnds:
    """The service ends the session of a broker that it has heard of; ``broker`` -1 = whichever is active then."""

    at: float
    broker: int


@dataclass(frozen=True, slots=True)
class LocksDown:
    """The service does nothing for ``seconds``."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class LocksCutOff:
    """Nothing gets from a broker (-1 = the active one) to the service, nor back unless ``one_way``."""

    at: float
    seconds: float
    broker: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class AnswersLost:
    """The next requests take effect, and nobody hears of it."""

    at: float
    count: int


@dataclass(frozen=True, slots=True)
class AtChange:
    """From ``at`` on, when the service has taken a claim, or a commit, ``what`` happens to whoever asked for it."""

    at: float
    commit: bool
    what: str
    seconds: float


LockFault = SessionEnds | LocksDown | LocksCutOff | AnswersLost | AtChange


def draw(rng: random.Random, at: float, longest: float) -> LockFault:
    seconds = rng.choice((rng.uniform(0.1, 2.0), rng.uniform(1.0, longest)))
    match rng.randrange(6):
        case 0:
            return SessionEnds(at, rng.randrange(-1, 2))
        case 1:
            return LocksDown(at, seconds)
        case 2:
            return LocksCutOff(at, seconds, rng.randrange(-1, 2), rng.random() < 0.4)
        case 3:
            return AnswersLost(at, rng.choice((1, 2, 3, 8)))
        case _:
            return AtChange(at, rng.random() < 0.5, rng.choice(ENDS), seconds)


def begin(fault: LockFault, world: World, locks: LockService, fabric: GroupFabric, nodes: list[HaNode], active: HaNode) -> None:
    match fault:
        case SessionEnds():
            locks.end_sessions((active if fault.broker < 0 else nodes[fault.broker]).name)
        case LocksDown():
            locks.go_down(fault.seconds)
        case LocksCutOff():
            _cut_off(fabric, active if fault.broker < 0 else nodes[fault.broker], fault.seconds, fault.one_way)
        case AnswersLost():
            locks.lost_answers += fault.count
        case AtChange():

            def changed(host: str, new: int) -> bool:
                meant = (new > 0) is fault.commit
                if meant:
                    world.note(f"fault: {fault} hits {host}")
                    _end(fault, locks, fabric, next(node for node in nodes if node.name == host))
                return meant

            locks.aims.append(changed)


def _cut_off(fabric: GroupFabric, node: HaNode, seconds: float, one_way: bool) -> None:
    fabric.block(node.name, HOST, seconds)
    if not one_way:
        fabric.block(HOST, node.name, seconds)


def _end(fault: AtChange, locks: LockService, fabric: GroupFabric, node: HaNode) -> None:
    match fault.what:
        case "crash" | "power":
            node.crash(fault.what == "power", fault.seconds)
        case "still":
            node.stand_still(fault.seconds, False)
        case "session":
            locks.end_sessions(node.name)
        case "answer":
            locks.lost_answers += 1
        case "down":
            locks.go_down(fault.seconds)
        case _:
            _cut_off(fabric, node, fault.seconds, False)
