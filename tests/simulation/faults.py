"""What goes wrong in a run.  All of it is drawn from the seed before the run begins, so that a run can be told by its faults."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.broker import BrokerNode
from tests.simulation.network import TO_BROKER, TO_CLIENT, Cut, Network
from tests.simulation.phases import Aim
from tests.simulation.world import Process, World
from tests.support.disk import DISK_FAILS

FAULTS_FROM, FAULTS_UNTIL = 0.3, 5.0
"""Seconds of virtual time between which faults happen."""
ARMED_UNTIL = 3.5
"""The same for those that wait until the broker does something."""
BYTES_CARRIED = 50_000
"""About what a run carries in one direction."""
RARE = ("rename", "sync_directory", "remove", "open", "read")
"""Disk operations that a run does not have many of."""


@dataclass(frozen=True, slots=True)
class Crash:
    """At ``at`` the broker's process is killed, or its machine stops; it starts again ``downtime`` seconds later."""

    at: float
    machine: bool
    downtime: float


@dataclass(frozen=True, slots=True)
class CrashInWrite:
    """From ``at`` on ``operations`` disk operations of this kind ("" = any) succeed, and in the middle of the next the machine stops."""

    at: float
    kind_of: str
    operations: int
    downtime: float


@dataclass(frozen=True, slots=True)
class AtPhase:
    """The first ``times`` times after ``at`` that the broker has come so far, that happens after ``delay`` seconds.

    ``phase``: "reattach" (a client has asked for it) or "prepared" (a branch; the answer waits for the disk).  ``what``: "cut" (the
    connection of that client), "kill" (the broker's process) or "power" (its machine).  Meanwhile the disk takes ``slow`` times as long.
    """

    at: float
    phase: str
    what: str
    times: int
    delay: float
    slow: float
    downtime: float


@dataclass(frozen=True, slots=True)
class Stop:
    """An orderly stop."""

    at: float
    downtime: float


@dataclass(frozen=True, slots=True)
class StartTrouble:
    """The broker's process is killed, or its machine stops, and the starts that follow are refused, or stopped before they are over."""

    at: float
    trouble: tuple[str, ...]
    machine: bool
    downtime: float


@dataclass(frozen=True, slots=True)
class SlowNetwork:
    at: float
    seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class SlowDisk:
    at: float
    seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The wall clock of the broker's machine is set."""

    at: float
    milliseconds: int


@dataclass(frozen=True, slots=True)
class FullDisk:
    """For a while no more than ``room`` further bytes find place."""

    at: float
    seconds: float
    room: int


@dataclass(frozen=True, slots=True)
class FillingDisk:
    """For a while other programs leave less of the disk than the broker's disk guard wants to see free."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class FailingDisk:
    """After ``after`` more of these operations the disk refuses one: a sync keeps any part of its writes, a write is cut short."""

    at: float
    operation: str
    after: int


@dataclass(frozen=True, slots=True)
class Damage:
    """The broker's process ends, and while it is down a bit of a closed segment flips; an operator has the journal recovered."""

    at: float
    machine: bool
    downtime: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A process stands still: the broker's (``client`` -1) or that of a client."""

    at: float
    seconds: float
    client: int


@dataclass(frozen=True, slots=True)
class SlowReader:
    """A client reads nothing from its connections for a while."""

    at: float
    seconds: float
    client: int


Fault = (
    Crash
    | CrashInWrite
    | AtPhase
    | Stop
    | StartTrouble
    | SlowNetwork
    | SlowDisk
    | ClockStep
    | FullDisk
    | FillingDisk
    | FailingDisk
    | Damage
    | Pause
    | SlowReader
)


@dataclass(frozen=True, slots=True)
class Schedule:
    timed: list[Fault] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"  {fault}" for fault in (*self.timed, *self.cuts)) or "  none"

    def apply(self, world: World, network: Network, broker: BrokerNode, clients: Sequence[Process]) -> None:
        """Plan everything, and the end of all faults."""
        network.plan(self.cuts)
        for fault in self.timed:
            world.schedule(fault.at, _begin, fault, world, network, broker, clients)


def draw(rng: random.Random) -> Schedule:
    """A schedule: few faults, most often of few kinds."""
    timed = [_end_of_broker(rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if rng.random() < 0.15:
        timed.append(Pause(_time(rng), rng.choice((0.1, rng.uniform(0.2, 1.4), rng.uniform(1.5, 4.0))), rng.randrange(-1, 3)))
    if rng.random() < 0.15:
        timed.append(start_trouble(rng))
    if rng.random() < 0.15:
        timed.append(SlowReader(_time(rng), rng.uniform(0.1, 4.0), rng.randrange(6)))
    if rng.random() < 0.1:
        timed.append(FullDisk(_time(rng), rng.uniform(0.1, 2.0), rng.choice((0, rng.randrange(3000), rng.randrange(30_000)))))
    if rng.random() < 0.15:
        timed.append(failing_disk(rng))
    if rng.random() < 0.2:
        timed.append(at_phase(rng))
    if rng.random() < 0.08:
        timed.append(Damage(rng.uniform(1.5, FAULTS_UNTIL), rng.random() < 0.5, 0.2))
    if rng.random() < 0.2:
        timed.append(SlowNetwork(_time(rng), rng.uniform(0.2, 2.0), rng.choice((5.0, 30.0))))
    if rng.random() < 0.3:
        timed.append(SlowDisk(_time(rng), rng.uniform(0.2, 1.5), rng.choice((10.0, 100.0))))
    if rng.random() < 0.2:
        timed.append(ClockStep(_time(rng), rng.choice((-3_600_000, -1000, 1000, 3_600_000))))
    if rng.random() < 0.15:
        timed.append(FillingDisk(_time(rng), rng.uniform(0.1, 1.5)))
    cuts = [
        Cut(rng.choice((TO_BROKER, TO_CLIENT)), rng.randrange(BYTES_CARRIED), rng.random() < 0.2, rng.random() < 0.15)
        for _ in range(rng.choice((0, 0, 1, 2, 4)))
    ]
    return Schedule(sorted(timed, key=lambda fault: fault.at), cuts)


def _end_of_broker(rng: random.Random) -> Fault:
    downtime = rng.choice((0.01, rng.uniform(0.05, 0.5), rng.uniform(0.5, 2.0)))
    match rng.randrange(6):
        case 0:
            return Stop(_time(rng), downtime)
        case 1:
            return Crash(_time(rng), False, downtime)
        case 2 | 3:
            return crash_in_write(rng, downtime)
        case _:
            return Crash(_time(rng), True, downtime)


def crash_in_write(rng: random.Random, downtime: float) -> CrashInWrite:
    kind = rng.choice(("write", "write", "write", "sync", "rename", "sync_directory", "remove", ""))
    return CrashInWrite(rng.uniform(FAULTS_FROM, ARMED_UNTIL), kind, rng.randrange(2 if kind in RARE else 12), downtime)


def failing_disk(rng: random.Random) -> FailingDisk:
    operation = rng.choice(("sync", "sync", "sync", "write", "write", "read", "sync_directory", "rename", "open", "remove"))
    return FailingDisk(rng.uniform(FAULTS_FROM, ARMED_UNTIL), operation, 0 if operation in RARE else rng.randrange(8))


def at_phase(rng: random.Random) -> AtPhase:
    phase = rng.choice(("reattach", "reattach", "prepared"))
    what = rng.choice(("cut", "cut", "kill", "power") if phase == "reattach" else ("kill", "power", "power"))
    delay = rng.choice((0.0, rng.uniform(0.0, 0.005), rng.uniform(0.0, 0.05)))
    times = rng.randrange(1, 4) if what == "cut" else 1
    return AtPhase(
        rng.uniform(FAULTS_FROM, ARMED_UNTIL),
        phase,
        what,
        times,
        delay,
        rng.choice((1.0, 20.0)),
        rng.choice((0.01, rng.uniform(0.05, 0.5))),
    )


def start_trouble(rng: random.Random) -> StartTrouble:
    trouble = tuple(rng.choice(("refused", "refused", "stop")) for _ in range(rng.choice((1, 1, 2, 3))))
    return StartTrouble(_time(rng), trouble, rng.random() < 0.5, rng.choice((0.01, rng.uniform(0.05, 0.5))))


def _time(rng: random.Random) -> float:
    return rng.uniform(FAULTS_FROM, FAULTS_UNTIL)


def _begin(fault: Fault, world: World, network: Network, broker: BrokerNode, clients: Sequence[Process]) -> None:
    world.note(f"fault: {fault}")
    match fault:
        case Crash():
            broker.crash(fault.machine, fault.downtime)
        case CrashInWrite():
            broker.crash_in_write(fault.kind_of, fault.operations, fault.downtime)
        case AtPhase():
            broker.aims.append(Aim(fault.phase, fault.what, fault.times, fault.delay, fault.slow, fault.downtime))
        case Stop():
            broker.stop(fault.downtime)
        case StartTrouble():
            broker.trouble += fault.trouble
            broker.crash(fault.machine, fault.downtime)
        case SlowNetwork():
            network.slow = fault.factor
            world.schedule(fault.seconds, setattr, network, "slow", 1.0)
        case SlowDisk():
            broker.slow_disk = fault.factor
            world.schedule(fault.seconds, setattr, broker, "slow_disk", 1.0)
        case FullDisk():
            broker.disk.capacity = broker.disk.used + fault.room
            broker.disk.was_limited = True
            world.schedule(fault.seconds, setattr, broker.disk, "capacity", None)
        case FillingDisk():
            broker.fill_disk(fault.seconds)
        case FailingDisk():
            broker.disk.fail(fault.operation, OSError(errno.EIO, DISK_FAILS), fault.after)
        case Damage():
            broker.damage_due = True
            broker.crash(fault.machine, fault.downtime)
        case Pause():
            (broker.freeze if fault.client < 0 else clients[fault.client % len(clients)].pause)(fault.seconds)
        case SlowReader():
            network.slow_reader(clients[fault.client % len(clients)], fault.seconds)
        case ClockStep():
            broker.step_clock(fault.milliseconds)
