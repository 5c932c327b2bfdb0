"""What goes wrong in a cluster: what goes wrong with one broker, on any of the nodes, and what goes wrong between them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.simulation import faults
from tests.simulation.cluster.fabric import Fabric
from tests.simulation.cluster.node import ClusterNode
from tests.simulation.cluster.plan import ClusterPlan
from tests.simulation.network import TO_BROKER, TO_CLIENT, Cut
from tests.simulation.world import Process, World

FAULTS_FROM, FAULTS_UNTIL = 0.3, 6.0
PARTITION_MAX = 4.0
HEALED_AT = FAULTS_UNTIL + PARTITION_MAX
BYTES_CARRIED = 60_000
"""About what a node's network carries in one direction."""


@dataclass(frozen=True, slots=True)
class OfNode:
    """What may happen to a broker that is alone happens to one of the nodes."""

    node: int
    fault: faults.Fault

    @property
    def at(self) -> float:
        return self.fault.at

    @property
    def kind(self) -> str:
        return type(self.fault).__name__


@dataclass(frozen=True, slots=True)
class CutOf:
    """A cut of a connection to one of the nodes."""

    node: int
    cut: Cut

    @property
    def kind(self) -> str:
        return "Cut"


@dataclass(frozen=True, slots=True)
class Partition:
    """Nothing gets from ``one`` to ``other`` (-1: to no other node), nor back unless ``one_way``."""

    at: float
    seconds: float
    one: int
    other: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class DyingLink:
    """Between two nodes bytes come in bursts, with longer and longer silence between them."""

    at: float
    one: int
    other: int
    bursts: int


@dataclass(frozen=True, slots=True)
class BadDatagrams:
    """Many datagrams are lost, come twice or late."""

    at: float
    seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class Away:
    """A node goes, and stays away while the others are judged."""

    at: float
    node: int
    machine: bool
    in_order: bool = False
    """Does it stop, and give its messages away?"""


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """A node stops in order, gives its messages to another one, and starts again.

    ``delay`` seconds after it has begun with that, ``trouble`` meets it: "target" (that ends), "target's machine", "own" (its
    process ends), "own machine", "link" (nothing gets through between both for ``seconds``), "cut short" (an operator will not wait), ""
    (none).
    """

    at: float
    node: int
    downtime: float
    trouble: str
    delay: float
    seconds: float


ClusterFault = OfNode | Partition | DyingLink | BadDatagrams | Away | ScaleDown


@dataclass(frozen=True, slots=True)
class ClusterSchedule:
    timed: list[ClusterFault] = field(default_factory=list)
    cuts: list[CutOf] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"  {fault}" for fault in (*self.timed, *self.cuts)) or "  none"

    def apply(self, world: World, fabric: Fabric, nodes: Sequence[ClusterNode], clients: Sequence[Process]) -> None:
        for node in nodes:
            node.network.plan([each.cut for each in self.cuts if each.node == node.number])
        for fault in self.timed:
            world.schedule(fault.at, self.begin, fault, world, fabric, nodes, clients)

    def begin(self, fault: Any, world: World, fabric: Fabric, nodes: Sequence[Any], clients: Sequence[Process]) -> None:
        _begin(fault, world, fabric, nodes, clients)


def draw(rng: random.Random, plan: ClusterPlan) -> ClusterSchedule:
    nodes, away = plan.nodes, plan.away
    timed: list[ClusterFault] = [_between(rng, nodes) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    timed += [OfNode(rng.randrange(nodes), _of_one(rng)) for _ in range(rng.choice((0, 1, 1, 2, 3, 4)))]
    if rng.random() < 0.2:
        timed.append(BadDatagrams(_time(rng), rng.uniform(0.5, 5.0), rng.choice((5.0, 15.0))))
    if away is not None:
        timed.append(Away(away[1], away[0], rng.random() < 0.5, plan.scales_down and rng.random() < 0.7))
    if plan.scales_down:
        timed += [scale_down(rng, nodes) for _ in range(rng.choice((1, 1, 2, 3)))]
    cuts = [
        CutOf(
            rng.randrange(nodes),
            Cut(rng.choice((TO_BROKER, TO_CLIENT)), rng.randrange(BYTES_CARRIED), rng.random() < 0.2, rng.random() < 0.15),
        )
        for _ in range(rng.choice((0, 1, 2, 4, 6)))
    ]
    return ClusterSchedule(sorted(timed, key=lambda fault: fault.at), cuts)


def scale_down(rng: random.Random, nodes: int) -> ScaleDown:
    trouble = rng.choice(("", "", "", "target", "target's machine", "own", "own machine", "link", "cut short"))
    delay = rng.choice((0.0, rng.uniform(0.0, 0.05), rng.uniform(0.0, 0.3)))
    downtime = rng.choice((0.01, rng.uniform(0.05, 0.5), rng.uniform(0.5, 3.0)))
    return ScaleDown(_time(rng), rng.randrange(nodes), downtime, trouble, delay, rng.uniform(0.05, PARTITION_MAX))


def _between(rng: random.Random, nodes: int) -> ClusterFault:
    one = rng.randrange(nodes)
    other = rng.choice([each for each in range(nodes) if each != one])
    if rng.random() < 0.2:
        return DyingLink(_time(rng), one, other, rng.randrange(3, 8))
    seconds = rng.choice((rng.uniform(0.05, 0.8), rng.uniform(1.0, 2.0), rng.uniform(2.0, PARTITION_MAX)))
    return Partition(_time(rng), seconds, one, -1 if rng.random() < 0.3 else other, rng.random() < 0.3)


def _of_one(rng: random.Random) -> faults.Fault:
    downtime = rng.choice((0.01, rng.uniform(0.05, 0.5), rng.uniform(0.5, 3.0)))
    at = _time(rng)
    match rng.randrange(14):
        case 0 | 1:
            return faults.Stop(at, downtime)
        case 2 | 3:
            return faults.Crash(at, False, downtime)
        case 4 | 5:
            return faults.crash_in_write(rng, downtime)
        case 6 | 7:
            return faults.Crash(at, True, downtime)
        case 8:
            return faults.Pause(at, rng.choice((0.1, rng.uniform(0.2, 1.4), rng.uniform(1.5, 4.0))), -1)
        case 9:
            return faults.SlowNetwork(at, rng.uniform(0.2, 2.0), rng.choice((5.0, 30.0)))
        case 10:
            return faults.SlowDisk(at, rng.uniform(0.2, 1.5), rng.choice((10.0, 100.0)))
        case 11:
            return faults.failing_disk(rng) if rng.random() < 0.5 else faults.at_phase(rng)
        case 12:
            return faults.start_trouble(rng)
        case _:
            return faults.FillingDisk(at, rng.uniform(0.1, 1.5))


def _time(rng: random.Random) -> float:
    return rng.uniform(FAULTS_FROM, FAULTS_UNTIL)


def _begin(fault: ClusterFault, world: World, fabric: Fabric, nodes: Sequence[ClusterNode], clients: Sequence[Process]) -> None:
    match fault:
        case OfNode():
            node = nodes[fault.node]
            if isinstance(fault.fault, faults.SlowNetwork):
                fabric.last_trouble = max(fabric.last_trouble, world.now + fault.fault.seconds)
            world.note(f"on {node.name}:")
            faults._begin(fault.fault, world, node.network, node, clients)
            return
        case Partition():
            others = [fault.other] if fault.other >= 0 else [node.number for node in nodes if node.number != fault.one]
            for other in others:
                fabric.block(nodes[fault.one].name, nodes[other].name, fault.seconds)
                if not fault.one_way:
                    fabric.block(nodes[other].name, nodes[fault.one].name, fault.seconds)
        case DyingLink():
            one, other_node = nodes[fault.one].name, nodes[fault.other].name
            begin = 0.0
            for number in range(fault.bursts):
                silence = 0.1 * (number + 1)
                for pair in ((one, other_node), (other_node, one)):
                    world.schedule(begin, fabric.block, *pair, silence)
                begin += silence + 0.05
        case BadDatagrams():
            fabric.bad_datagrams = fault.factor
            world.schedule(fault.seconds, setattr, fabric, "bad_datagrams", 1.0)
        case Away():
            nodes[fault.node].go_away(fault.machine, fault.in_order)
        case ScaleDown():
            nodes[fault.node].leave(fault.downtime, partial(_meet, fault, world, fabric, nodes))
    world.note(f"fault: {fault}")


def _meet(fault: ScaleDown, world: World, fabric: Fabric, nodes: Sequence[ClusterNode], target_id: str) -> None:
    """The node has begun to give its messages to a target."""
    if fault.trouble:
        leaver, (target,) = nodes[fault.node], [node for node in nodes if node.node_id == target_id]
        world.schedule(fault.delay, _trouble, fault, world, fabric, leaver, target, leaver.process)


def _trouble(fault: ScaleDown, world: World, fabric: Fabric, leaver: ClusterNode, target: ClusterNode, process: Process) -> None:
    if not process.alive:
        return
    world.note(f"fault: {fault.trouble!r} meets {leaver.name} on its way to {target.name}")
    match fault.trouble:
        case "link":
            fabric.block(leaver.name, target.name, fault.seconds)
            fabric.block(target.name, leaver.name, fault.seconds)
        case "cut short":
            leaver.life.active.others.cut_short()
        case _:
            dying = target if fault.trouble.startswith("target") else leaver
            dying.crash(fault.trouble.endswith("machine"), fault.seconds)
