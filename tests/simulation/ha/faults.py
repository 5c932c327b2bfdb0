"""What goes wrong with a group: what goes wrong with one broker, on any of them, and what makes two of them believe to be the one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation import faults
from tests.simulation.cluster.faults import BYTES_CARRIED, CutOf, OfNode
from tests.simulation.ha import lock_faults, router
from tests.simulation.ha.group import Group
from tests.simulation.ha.lock_faults import AnswersLost, AtChange, LockFault, LocksCutOff, LocksDown, SessionEnds
from tests.simulation.ha.node import HaNode, Standstill
from tests.simulation.ha.router import Isolated
from tests.simulation.network import TO_BROKER, TO_CLIENT, Cut
from tests.simulation.world import Process, World

FAULTS_FROM, FAULTS_UNTIL = 0.6, 6.0
HELD_UP_MAX = 4.0
HEALED_AT = FAULTS_UNTIL + HELD_UP_MAX
PAIR_HELD_UP_MAX = 8.0
"""Longer than it takes a replica to take over, and an active broker to give its connections up."""
PAIR_HEALED_AT = FAULTS_UNTIL + PAIR_HELD_UP_MAX
ACTIVE = -1
"""Instead of the number of a broker: whichever is active then."""
WHERE = ("-", "write", "write", "sync", "sync", "read", "read", "rename", "rename", "rename", "remove", "sync_directory", "")
"""Where the active broker is held up, those more often that stand here twice."""
CLIENTS = -1
"""Instead of the number of a broker: all clients."""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """The active broker stands still for ``seconds``, and may lose its locks then: another one takes its place before it goes on.

    From ``at`` on that is after ``after`` disk operations of the kind ``operation`` ("" = any), in the middle of what it does there; with
    "-" for the kind it happens at once, between two events.  ``stopping``: only while it stops in order, for which it is asked.
    """

    at: float
    seconds: float
    operation: str
    after: int
    loses_locks: bool
    stopping: bool


@dataclass(frozen=True, slots=True)
class WaiterHeldUp:
    """A broker that waits stands still for ``seconds`` in the middle of a look at the folder, the ``after``-th from ``at`` on."""

    at: float
    seconds: float
    after: int


@dataclass(frozen=True, slots=True)
class LockLost:
    """The active broker loses its locks, and is not told.  ``downtime``: for so long there is nobody else who could take them."""

    at: float
    downtime: float


@dataclass(frozen=True, slots=True)
class PowerCut:
    """All machines stop at once."""

    at: float


@dataclass(frozen=True, slots=True)
class AllKilled:
    """All processes end at once."""

    at: float
    downtimes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nothing gets from ``one`` to ``other``, nor back unless ``one_way``; ``bursts`` times, with some bytes between."""

    at: float
    seconds: float
    one: int
    other: int
    one_way: bool
    bursts: int


@dataclass(frozen=True, slots=True)
class FullFolder:
    """For a while no more than ``room`` further bytes find place on the disk of all."""

    at: float
    seconds: float
    room: int


@dataclass(frozen=True, slots=True)
class SlowLoad:
    """From ``at`` on the process of a broker stands still for ``seconds`` whenever it is to read its journal."""

    at: float
    broker: int
    seconds: float


@dataclass(frozen=True, slots=True)
class GuestsStopped:
    """Management stops the backups that a broker hosts."""

    at: float
    host: int


OfBrokers = HeldUp | WaiterHeldUp | LockLost | PowerCut | AllKilled | Blocked | FullFolder | SlowLoad | GuestsStopped
HaFault = OfNode | OfBrokers | LockFault | Isolated


@dataclass(frozen=True, slots=True)
class HaSchedule:
    timed: list[HaFault] = field(default_factory=list)
    cuts: list[CutOf] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"  {fault}" for fault in (*self.timed, *self.cuts)) or "  none"

    def apply(self, world: World, group: Group, clients: Sequence[Process]) -> None:
        for node in group.machines:
            node.network.plan([each.cut for each in self.cuts if each.node == node.number])
        for fault in self.timed:
            world.schedule(fault.at, self.begin, fault, world, group, clients)

    def begin(self, fault: HaFault, world: World, group: Group, clients: Sequence[Process]) -> None:
        _begin(fault, world, group, clients)


def draw(rng: random.Random, brokers: int) -> HaSchedule:
    timed: list[HaFault] = [end_of_active(rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    timed += [_held_up(rng) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    timed += [OfNode(rng.randrange(ACTIVE, brokers), of_one(rng, HELD_UP_MAX)) for _ in range(rng.choice((0, 1, 1, 2)))]
    if rng.random() < 0.2:
        timed.append(LockLost(_time(rng), rng.choice((0.0, rng.uniform(1.5, HELD_UP_MAX)))))
    if rng.random() < 0.2:
        timed.append(WaiterHeldUp(_time(rng), rng.uniform(0.2, HELD_UP_MAX), rng.randrange(4)))
    if rng.random() < 0.1:
        timed.append(PowerCut(_time(rng)))
    if rng.random() < 0.15:
        timed.append(AllKilled(_time(rng), tuple(rng.uniform(0, 1.0) for _ in range(brokers))))
    if rng.random() < 0.3:
        timed.append(draw_blocked(rng, brokers, HELD_UP_MAX))
    if rng.random() < 0.1:
        timed.append(FullFolder(_time(rng), rng.uniform(0.1, 2.0), rng.choice((0, rng.randrange(3000), rng.randrange(30_000)))))
    cuts = [
        CutOf(
            rng.randrange(brokers),
            Cut(rng.choice((TO_BROKER, TO_CLIENT)), rng.randrange(BYTES_CARRIED), rng.random() < 0.2, rng.random() < 0.15),
        )
        for _ in range(rng.choice((0, 0, 1, 2, 4)))
    ]
    if rng.random() < 0.35:
        timed.append(_overtaken(rng))
    return HaSchedule(sorted(timed, key=lambda fault: fault.at), cuts)


def _time(rng: random.Random) -> float:
    return rng.uniform(FAULTS_FROM, FAULTS_UNTIL)


def downtime_of(rng: random.Random) -> float:
    return rng.choice((0.01, rng.uniform(0.05, 0.5), rng.uniform(0.5, 3.0)))


def end_of_active(rng: random.Random) -> OfNode:
    at, downtime = _time(rng), downtime_of(rng)
    kinds: tuple[faults.Fault, ...] = (
        faults.Stop(at, downtime),
        faults.Crash(at, False, downtime),
        faults.Crash(at, True, downtime),
        faults.crash_in_write(rng, downtime),
    )
    return OfNode(ACTIVE, rng.choice(kinds))


def _held_up(rng: random.Random) -> HeldUp:
    """Longer than it takes another broker to take the place, most often."""
    seconds = rng.choice((rng.uniform(0.2, 1.0), rng.uniform(1.0, HELD_UP_MAX), rng.uniform(1.0, HELD_UP_MAX)))
    stopping = rng.random() < 0.25
    operation = rng.choice(("write", "sync", "sync", "read", "lock", "remove") if stopping else WHERE)
    rare = operation in ("rename", "remove", "sync_directory")
    return HeldUp(_time(rng), seconds, operation, rng.randrange(2 if rare else 5), rng.random() < 0.8, stopping)


def _overtaken(rng: random.Random) -> HeldUp:
    """Where a former holder would do the most harm: before a file gets its name, and before the state of an orderly stop is written."""
    stopping = rng.random() < 0.5
    operation = rng.choice(("sync", "write", "rename")) if stopping else "rename"
    return HeldUp(_time(rng), rng.uniform(2.0, HELD_UP_MAX), operation, rng.randrange(2), True, stopping)


def of_one(rng: random.Random, longest: float) -> faults.Fault:
    """What happens to any of the brokers, or to a client."""
    at = _time(rng)
    match rng.randrange(9):
        case 0:
            return faults.Stop(at, downtime_of(rng))
        case 1:
            return faults.Crash(at, rng.random() < 0.5, downtime_of(rng))
        case 2:
            return faults.Pause(at, rng.uniform(0.1, longest), rng.randrange(-1, 3))
        case 3:
            return faults.SlowNetwork(at, rng.uniform(0.2, 2.0), rng.choice((5.0, 30.0)))
        case 4:
            return faults.SlowDisk(at, rng.uniform(0.2, 1.5), rng.choice((10.0, 100.0)))
        case 5:
            return faults.failing_disk(rng)
        case 6:
            return faults.at_phase(rng)
        case 7:
            return faults.SlowReader(at, rng.uniform(0.1, 4.0), rng.randrange(6))
        case _:
            return faults.StartTrouble(at, ("refused",) * rng.choice((1, 1, 2)), rng.random() < 0.5, downtime_of(rng))


def draw_blocked(rng: random.Random, brokers: int, longest: float) -> Blocked:
    one = rng.randrange(brokers)
    other = rng.choice([CLIENTS, *(each for each in range(brokers) if each != one)])
    bursts = rng.choice((1, 1, 1, 5))
    seconds = rng.choice((rng.uniform(0.05, 0.8), rng.uniform(1.0, 2.0), rng.uniform(2.0, longest))) / bursts
    return Blocked(_time(rng), seconds, one, other, rng.random() < 0.4, bursts)


def _begin(fault: HaFault, world: World, group: Group, clients: Sequence[Process]) -> None:
    world.note(f"fault: {fault}")
    node = _active(group)
    match fault:
        case OfNode():
            _of_node(fault, world, group, clients)
        case HeldUp():
            if fault.stopping and node.running and not node.process.stopping:
                node.stop(0.3)
            if fault.operation == "-":
                if fault.loses_locks:
                    group.lose_locks(node)
                node.stand_still(fault.seconds, False)
            else:
                node.standstills.append(Standstill(fault.operation, fault.after, fault.seconds, fault.loses_locks, fault.stopping))
        case WaiterHeldUp():
            for each in group.waiting[:1]:
                each.standstills.append(Standstill("read", fault.after, fault.seconds, False, False, waiting=True))
        case LockLost():
            group.lose_locks(node)
            for other in group.nodes if fault.downtime else ():
                if other is not node:
                    other.crash(False, fault.downtime)
        case PowerCut():
            group.lose_power()
        case AllKilled():
            for each, downtime in zip(group.machines, fault.downtimes, strict=True):
                each.crash(False, downtime)
        case Blocked():
            for number in range(fault.bursts):
                world.schedule(number * (fault.seconds + 0.05), _block, fault, group, clients)
        case FullFolder():
            group.limit(fault.room)
            world.schedule(fault.seconds, group.limit, None)
        case SlowLoad():
            group.nodes[fault.broker].load_seconds = fault.seconds
        case GuestsStopped():
            for each in group.nodes[fault.host].companions:
                each.stop(0.0)
        case Isolated():
            router.begin(fault, group)
        case SessionEnds() | LocksDown() | LocksCutOff() | AnswersLost() | AtChange():
            assert group.locks is not None
            lock_faults.begin(fault, world, group.locks, group.fabric, group.nodes, node)


def _active(group: Group) -> HaNode:
    return next(iter(group.serving), group.front)


def _of_node(fault: OfNode, world: World, group: Group, clients: Sequence[Process]) -> None:
    node = _active(group) if fault.node == ACTIVE else group.machines[fault.node]
    if isinstance(fault.fault, faults.SlowNetwork):
        group.fabric.last_trouble = max(group.fabric.last_trouble, world.now + fault.fault.seconds)
    if isinstance(fault.fault, faults.SlowDisk):
        node.is_slow(fault.fault.seconds)
    if isinstance(fault.fault, faults.Pause) and fault.fault.client < 0:
        node.stand_still(fault.fault.seconds, False)
        return
    if isinstance(fault.fault, faults.FullDisk):
        group.limit_of(node, fault.fault.room)
        world.schedule(fault.fault.seconds, group.limit_of, node, None)
        return
    world.note(f"on {node.name}:")
    faults._begin(fault.fault, world, node.network, node, clients)


def _block(fault: Blocked, group: Group, clients: Sequence[Process]) -> None:
    one = group.machines[fault.one].name
    others = [client.name for client in clients] if fault.other == CLIENTS else [group.machines[fault.other].name]
    for other in others:
        group.fabric.block(one, other, fault.seconds)
        if not fault.one_way:
            group.fabric.block(other, one, fault.seconds)
