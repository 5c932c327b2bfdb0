"""What goes wrong with a database in a run, beside what :mod:`tests.simulation.faults` has for one broker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation import faults
from tests.simulation.faults import ARMED_UNTIL, FAULTS_FROM, FAULTS_UNTIL
from tests.simulation.network import Cut, Network
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.database.node import DatabaseNode
    from tests.simulation.database.server import DatabaseServer

POINTS = ("run", "run", "commit", "commit", "commit", "committed", "committed", "committed", "rows", "begin", "connect")
"""Operations of a connection; those more often that stand here more often.  "committed" is between a commit and its answer."""
RARE = ("connect",)


@dataclass(frozen=True, slots=True)
class SlowDatabase:
    at: float
    seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class DatabaseAway:
    """The server is restarted: connections and transactions end, new ones are refused for a while."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class DatabaseSilent:
    """For a while nothing is answered."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class NoNewConnections:
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AtOperation:
    """From ``at`` on ``after`` operations of the kind ``point`` succeed; what happens at the next one is ``what``.

    "break": the connection is lost.  "kill", "power": the broker's process ends, or its machine.  "freeze": its process stands still for
    ``seconds``; for the others that is the downtime, or how long the server may take to notice.  ``whom``: the number of the broker whose
    operations these are, -1 = the one that is active at ``at``, None = any.
    """

    at: float
    point: str
    after: int
    what: str
    seconds: float
    whom: int | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Another broker takes the data, and ends."""

    at: float


ServerFault = SlowDatabase | DatabaseAway | DatabaseSilent | NoNewConnections

DatabaseFault = ServerFault | AtOperation | Taken

AnyFault = DatabaseFault | faults.Fault


@dataclass(frozen=True, slots=True)
class DatabaseSchedule:
    """See :class:`tests.simulation.faults.Schedule`."""

    timed: list[AnyFault] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"  {fault}" for fault in (*self.timed, *self.cuts)) or "  none"

    def apply(self, world: World, network: Network, node: DatabaseNode, clients: Sequence[Process]) -> None:
        """Plan everything."""
        network.plan(self.cuts)
        for fault in self.timed:
            world.schedule(fault.at, _begin, fault, world, network, node, clients)


def draw(rng: random.Random) -> DatabaseSchedule:
    """A schedule: as for one broker on files, without what only its files meet, and what the database does."""
    ordinary = faults.draw(rng)
    # A journal that is damaged, or whose disk is slow, is none of a database.
    timed: list[AnyFault] = [fault for fault in ordinary.timed if not isinstance(fault, faults.Damage | faults.SlowDisk)]
    timed += [_at_operation(rng) for _ in range(rng.choice((0, 1, 1, 2, 3, 4)))]
    timed += of_server(rng, FAULTS_FROM, FAULTS_UNTIL)
    timed += [Taken(_time(rng)) for _ in range(rng.choice((0, 0, 0, 0, 1, 2)))]
    return DatabaseSchedule(sorted(timed, key=lambda fault: fault.at), ordinary.cuts)


def of_server(rng: random.Random, first: float, last: float) -> list[ServerFault]:
    """What the server does between these times."""
    timed: list[ServerFault] = []
    if rng.random() < 0.3:
        timed.append(DatabaseAway(rng.uniform(first, last), rng.choice((0.0, rng.uniform(0.05, 0.5), rng.uniform(0.5, 2.5)))))
    if rng.random() < 0.2:
        timed.append(DatabaseSilent(rng.uniform(first, last), rng.choice((rng.uniform(0.05, 0.5), rng.uniform(0.5, 3.0)))))
    if rng.random() < 0.15:
        timed.append(NoNewConnections(rng.uniform(first, last), rng.uniform(0.1, 2.0)))
    if rng.random() < 0.3:
        timed.append(SlowDatabase(rng.uniform(first, last), rng.uniform(0.2, 1.5), rng.choice((10.0, 60.0))))
    return timed


def _at_operation(rng: random.Random) -> AtOperation:
    point = rng.choice(POINTS)
    what = rng.choice(("break", "break", "break", "kill", "power", "freeze"))
    seconds = rng.choice((rng.uniform(0.01, 0.5), rng.uniform(0.5, 2.5)))
    return AtOperation(rng.uniform(FAULTS_FROM, ARMED_UNTIL), point, rng.randrange(2 if point in RARE else 40), what, seconds)


def _time(rng: random.Random) -> float:
    return rng.uniform(FAULTS_FROM, FAULTS_UNTIL)


def begin_at_server(fault: ServerFault, server: DatabaseServer) -> None:
    match fault:
        case SlowDatabase():
            server.slow = fault.factor
            server.world.schedule(fault.seconds, setattr, server, "slow", 1.0)
        case DatabaseAway():
            server.go_away(fault.seconds)
        case DatabaseSilent():
            server.fall_silent(fault.seconds)
        case NoNewConnections():
            server.refuse(fault.seconds)
    server.world.note(f"fault: {fault}")


def _begin(fault: AnyFault, world: World, network: Network, node: DatabaseNode, clients: Sequence[Process]) -> None:
    match fault:
        case SlowDatabase() | DatabaseAway() | DatabaseSilent() | NoNewConnections():
            begin_at_server(fault, node.server_of_data)
            return
        case AtOperation():
            node.server_of_data.arm(fault.point, fault.after, fault.what, fault.seconds)
        case Taken():
            node.have_data_taken()
        case _:
            faults._begin(fault, world, network, node, clients)
            return
    world.note(f"fault: {fault}")
