"""One run of brokers that host each other's backups.

Each node has clients, a ledger and judges of its own, those of :mod:`tests.simulation.ha.run`; what fails is a process or a machine, and
with it the primary of one node and the backups of others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from mqclient.core.factories.locator import Locator
from mqclient.wire.primitives import TransportConfiguration
from mqclient.xa import Xid
from tests.simulation import faults
from tests.simulation.cluster.faults import OfNode
from tests.simulation.copies import Copies
from tests.simulation.ha import faults as ha_faults
from tests.simulation.ha import pair_faults
from tests.simulation.ha.colocated.groups import Colony, CopiedSide, Side
from tests.simulation.ha.colocated.plan import ColocatedPlan
from tests.simulation.ha.faults import FAULTS_FROM, FAULTS_UNTIL, GuestsStopped, HaSchedule, downtime_of
from tests.simulation.ha.pair_copies import PairCopies
from tests.simulation.ha.run import EVENTS_MAX, SCHEDULED_MAX, SETTLED_SECONDS, HaSimulation
from tests.simulation.policies import Plan
from tests.simulation.reading import ReadingLedger
from tests.simulation.run import Result, judged_run, works_once
from tests.simulation.workload import Actor
from tests.simulation.world import World


class AnnouncedPlaces(Locator):
    """Of a client with ``exactlyOnce``: it has to reach each broker under the host and port that this announces.

    No name stands for the place of the backup, which therefore is unknown while nobody hosts it.
    """

    def __init__(self, actor: Actor, group: Side) -> None:
        super().__init__(actor.runtime, [group.connector(group.home)], actor.settings)
        self._group = group

    @property
    def connectors(self) -> Sequence[TransportConfiguration]:
        return [*self._connectors, *self._group.backup_places]


class SideSimulation(HaSimulation):
    """What clients of one node do, and how that is judged."""

    def __init__(self, group: Side, quiet_from: float) -> None:
        self.label = f"{group.home.name} "
        self.world, self.plan, self.ledger, self.group = group.world, group.plan, group.ledger, group
        self.quiet_from = quiet_from
        self.actors: list[Actor] = []
        self.reading = ReadingLedger(self)  # type: ignore[arg-type]
        self.copies = (
            PairCopies(self.world, self.ledger, group) if isinstance(group, CopiedSide) else Copies(self.world, self.ledger, group.fronts)
        )
        self.decisions: dict[Xid, bool] = {}

    @property
    def connectors(self) -> list[TransportConfiguration]:
        nodes = self.group.nodes
        return [self.group.connector(node) for node in (nodes[0], nodes[-1])]

    def _people(self) -> None:
        super()._people()
        for actor in self.actors:
            if actor.settings.exactly_once:
                actor.locator = AnnouncedPlaces(actor, self.group)


class ColocatedSimulation:
    """``plan`` and ``schedule`` come from the seed unless they are given."""

    def __init__(self, seed: int, plan: ColocatedPlan | None = None, schedule: HaSchedule | None = None) -> None:
        self.world = World(seed, 2 * EVENTS_MAX)
        rng = self.world.generator("group plan")
        brokers = 3 if self.world.generator("brokers").random() < 0.3 else 2
        self.plan = plan or (ColocatedPlan.draw_pair if rng.random() < 0.5 else ColocatedPlan.draw)(rng, brokers)
        self.schedule = schedule or draw(self.world.generator("group faults"), self.plan)
        settings = replace(Plan.draw(self.world.generator("plan")), once=works_once(seed))
        self.colony = Colony(self.world, self.plan, settings, may_split=False)
        self.quiet_from = ha_faults.PAIR_HEALED_AT if self.plan.replicated else ha_faults.HEALED_AT
        self.sides = [SideSimulation(side, self.quiet_from) for side in self.colony.sides]

    def run(self) -> Result:
        """Work under faults, heal, settle, drain, check."""
        return judged_run(self, self._run, self._result)

    def _result(self) -> Result:
        world, sides = self.world, self.sides
        return Result(
            world.seed,
            world.violations,
            self.schedule,
            world.log,
            world.events,
            sum(len(side.ledger.sent) for side in sides),
            sum(len(side.ledger.receipts) for side in sides),
            sum(side.group.activations for side in sides),
            f"{self.plan}",
            "python -m tests.simulation --ha",
        )

    def _run(self) -> None:
        world, colony = self.world, self.colony
        world.note(f"{self.plan}")
        colony.start()
        for side in self.sides:
            side._people()
        actors = [actor for side in self.sides for actor in side.actors]
        self.schedule.apply(world, colony, [actor.process for actor in actors])
        for actor in actors:
            actor.start()
        world.run(self.quiet_from)
        if world.violations:
            return
        colony.heal()
        world.note("everything is healed")
        steps: tuple[Callable[[], bool], ...] = (
            self._settle,
            self._each(lambda side: side._all_end(side.actors)),
            self._each(SideSimulation._clients_are_gone),
            self._last_crash,
            self._each(
                lambda side: side._wait(SCHEDULED_MAX, lambda: side.broker.nothing_scheduled, "scheduled messages never become due")
            ),
            self._each(SideSimulation._drain),
            self._each(lambda side: side._judge() and self._settle()),
        )
        for step in steps:
            if not step():
                return

    def _each(self, step: Callable[[SideSimulation], bool]) -> Callable[[], bool]:
        return lambda: all(step(side) for side in self.sides)

    def _settle(self) -> bool:
        """Each node has one active broker, and is backed up if anybody can host its backup."""
        colony = self.colony

        def text() -> str:
            return f"after {SETTLED_SECONDS:.0f} s: {'; '.join(colony.differences())}"

        if not self.sides[0]._wait(SETTLED_SECONDS, lambda: not colony.differences(), text):
            return False
        return all(side._settle() for side in self.sides)

    def _last_crash(self) -> bool:
        return all(side._last_crash() and self._settle() for side in self.sides)


def draw(rng: random.Random, plan: ColocatedPlan) -> HaSchedule:
    """What goes wrong with groups of any kind, and hosts that end, and come back."""
    found = pair_faults.draw(rng, plan) if plan.replicated else ha_faults.draw(rng, plan.brokers)
    found.timed.extend(OfNode(rng.randrange(plan.brokers), _end(rng)) for _ in range(rng.choice((0, 1, 1, 2))))
    if rng.random() < 0.3:
        found.timed.append(GuestsStopped(rng.uniform(FAULTS_FROM, FAULTS_UNTIL), rng.randrange(plan.brokers)))
    if plan.replicated and plan.brokers > 2 and rng.random() < 0.4:
        found.timed.extend(_moves(rng, plan.brokers))
    found.timed.sort(key=lambda fault: fault.at)
    return found


def _moves(rng: random.Random, brokers: int) -> list[OfNode]:
    """A host ends, and is back with its copy once the backup is hosted elsewhere; then the primary of that ends."""
    host, primary = rng.sample(range(brokers), 2)
    at, power = rng.uniform(FAULTS_FROM, FAULTS_UNTIL - 4.0), rng.random() < 0.5
    first = faults.Crash(at, power, rng.uniform(1.5, 2.5))
    return [OfNode(host, first), OfNode(primary, faults.Crash(at + rng.uniform(3.0, 4.0), power, rng.uniform(1.0, 3.0)))]


def _end(rng: random.Random) -> faults.Fault:
    at = rng.uniform(FAULTS_FROM, FAULTS_UNTIL)
    if rng.random() < 0.3:
        return faults.Stop(at, downtime_of(rng))
    return faults.Crash(at, rng.random() < 0.5, downtime_of(rng))
