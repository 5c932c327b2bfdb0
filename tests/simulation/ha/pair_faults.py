"""What goes wrong with a pair that replicates and its voters, drawn from the seed."""

from __future__ import annotations

import random

from tests.simulation import faults
from tests.simulation.cluster.faults import BYTES_CARRIED, CutOf, OfNode
from tests.simulation.ha import lock_faults
from tests.simulation.ha.faults import (
    ACTIVE,
    CLIENTS,
    FAULTS_FROM,
    FAULTS_UNTIL,
    PAIR_HELD_UP_MAX,
    AllKilled,
    Blocked,
    HaFault,
    HaSchedule,
    HeldUp,
    PowerCut,
    SlowLoad,
    downtime_of,
    draw_blocked,
    end_of_active,
    of_one,
)
from tests.simulation.ha.plan import HaPlan
from tests.simulation.ha.router import Isolated
from tests.simulation.network import TO_BROKER, TO_CLIENT, Cut

HELD_UP_IN = ("-", "-", "-", "write", "sync", "read", "rename", "remove", "")
"""Where the active broker is held up, those more often that stand here more often."""


def draw(rng: random.Random, plan: HaPlan) -> HaSchedule:
    """Many faults, or one that is not disturbed by others."""
    machines = plan.brokers + plan.voters
    if rng.random() < 0.4:
        if plan.locks and rng.random() < 0.5:
            return HaSchedule(_without_locks(rng))
        return HaSchedule(_disaster(rng, plan.brokers, machines))
    timed: list[HaFault] = [end_of_active(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
    timed += [_held_up(rng) for _ in range(rng.choice((0, 0, 1)))]
    timed += [OfNode(rng.randrange(ACTIVE, machines), _of_one(rng)) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if rng.random() < 0.15:
        timed += _one_after_the_other(rng)
    if rng.random() < 0.2:
        timed.append(SlowLoad(_time(rng), rng.randrange(plan.brokers), rng.uniform(0.2, PAIR_HELD_UP_MAX)))
    if rng.random() < 0.1:
        timed.append(PowerCut(_time(rng)))
    if rng.random() < 0.15:
        timed.append(AllKilled(_time(rng), tuple(rng.uniform(0, 1.0) for _ in range(machines))))
    timed += [draw_blocked(rng, machines, PAIR_HELD_UP_MAX) for _ in range(rng.choice((0, 0, 1)))]
    if rng.random() < 0.3:
        timed += _isolated(rng, plan.brokers, machines)
    if plan.locks:
        timed += [lock_faults.draw(rng, _time(rng), PAIR_HELD_UP_MAX) for _ in range(rng.choice((1, 2, 2, 3)))]
    cuts = [
        CutOf(
            rng.randrange(machines),
            Cut(rng.choice((TO_BROKER, TO_CLIENT)), rng.randrange(BYTES_CARRIED), rng.random() < 0.2, rng.random() < 0.15),
        )
        for _ in range(rng.choice((0, 0, 1, 2)))
    ]
    return HaSchedule(sorted(timed, key=lambda fault: fault.at), cuts)


def may_split(plan: HaPlan, schedule: HaSchedule) -> bool:
    """May two brokers be active, since they are a pair alone that is cut, or since voters remember nothing?

    Brokers that only end and start again, however often, do not split: whichever starts has to meet the other one.
    """
    if plan.locks:
        return False
    if plan.java_voters:
        return True
    return not plan.voters and (bool(schedule.cuts) or any(map(_cuts, schedule.timed)))


def _cuts(fault: HaFault) -> bool:
    """Do the brokers not hear of each other for a while, although both are there?"""
    single = fault.fault if isinstance(fault, OfNode) else fault
    if isinstance(single, faults.Pause) and single.client >= 0:
        return False
    if isinstance(single, Blocked) and single.other == CLIENTS:
        return False
    return isinstance(single, Blocked | HeldUp | Isolated | SlowLoad | faults.Pause | faults.SlowNetwork | faults.SlowDisk)


def _time(rng: random.Random) -> float:
    return rng.uniform(FAULTS_FROM, FAULTS_UNTIL)


def _held_up(rng: random.Random) -> HeldUp:
    """At times longer than all time-outs together."""
    seconds = rng.choice((rng.uniform(0.2, 2.0), rng.uniform(2.0, PAIR_HELD_UP_MAX)))
    stopping = rng.random() < 0.2
    operation = rng.choice(("write", "sync", "remove") if stopping else HELD_UP_IN)
    return HeldUp(_time(rng), seconds, operation, rng.randrange(2 if operation in ("rename", "remove") else 5), False, stopping)


def _disaster(rng: random.Random, brokers: int, machines: int) -> list[HaFault]:
    match rng.randrange(8):
        case 0 | 1 | 2:
            return _isolated(rng, brokers, machines)
        case 3:
            return [HeldUp(_time(rng), rng.uniform(1.0, PAIR_HELD_UP_MAX), "-", 0, False, False)]
        case 4:
            return [end_of_active(rng)]
        case 5:
            return [PowerCut(_time(rng))]
        case _:
            return _one_after_the_other(rng)


def _without_locks(rng: random.Random) -> list[HaFault]:
    """The active broker or its replica ends, and the lock service fails one of them meanwhile."""
    at = _time(rng)
    first = OfNode(rng.choice((ACTIVE, ACTIVE, 0, 1)), faults.Crash(at, rng.random() < 0.5, rng.uniform(0.5, 6.0)))
    return [first, lock_faults.draw(rng, max(at + rng.uniform(-0.5, 2.0), 0.0), PAIR_HELD_UP_MAX)]


def _one_after_the_other(rng: random.Random) -> list[HaFault]:
    """The active broker ends, then the one that takes its place; the first one is back while the second is away."""
    at, back = _time(rng), rng.uniform(0.5, 4.0)
    first = faults.Stop(at, back) if rng.random() < 0.6 else faults.Crash(at, rng.random() < 0.5, back)
    second = faults.Crash(at + rng.uniform(0.1, back), rng.random() < 0.5, back + rng.uniform(0.5, 4.0))
    return [OfNode(ACTIVE, first), OfNode(ACTIVE, second)]


def _isolated(rng: random.Random, brokers: int, machines: int) -> list[HaFault]:
    """One broker hears nothing of the others, in one direction or both: of the next one, or of the voters, too.  Clients reach it."""
    one = rng.randrange(brokers)
    others = [(one + 1) % brokers] if rng.random() < 0.5 else [each for each in range(machines) if each != one]
    at, one_way, bursts = _time(rng), rng.random() < 0.3, rng.choice((1, 1, 1, 4))
    seconds = rng.choice((rng.uniform(0.5, 5.0), rng.uniform(5.0, PAIR_HELD_UP_MAX), rng.uniform(5.0, PAIR_HELD_UP_MAX))) / bursts
    ends = [(one, other) if rng.random() < 0.5 or not one_way else (other, one) for other in others]
    return [Blocked(at, seconds, sender, receiver, one_way, bursts) for sender, receiver in ends]


def _of_one(rng: random.Random) -> faults.Fault:
    if rng.random() < 0.15:
        return faults.FullDisk(_time(rng), rng.uniform(0.1, 2.0), rng.choice((0, rng.randrange(3000), rng.randrange(30_000))))
    if rng.random() < 0.15:
        return faults.crash_in_write(rng, downtime_of(rng))
    if rng.random() < 0.2:
        return faults.Pause(_time(rng), rng.uniform(0.5, PAIR_HELD_UP_MAX), -1)
    return of_one(rng, PAIR_HELD_UP_MAX)
