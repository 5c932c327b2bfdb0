"""One run of a simulated group of brokers of which one is active.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mqbroker.server.transport.liveness import CONNECTION_TTL_MS
from mqclient.wire.primitives import TransportConfiguration
from mqclient.xa import Xid
from tests.simulation import once
from tests.simulation.branches import SOURCE
from tests.simulation.cluster.fabric import FabricRuntime
from tests.simulation.copies import Copies
from tests.simulation.ha import faults, pair_faults, router
from tests.simulation.ha.actors import HaBranchWorker
from tests.simulation.ha.fabric import GroupFabric
from tests.simulation.ha.group import Group, SharedStoreGroup
from tests.simulation.ha.ledger import HaLedger
from tests.simulation.ha.node import HaNode
from tests.simulation.ha.pair import PairGroup
from tests.simulation.ha.pair_copies import PairCopies
from tests.simulation.ha.plan import HaPlan
from tests.simulation.ha.seeds import checks_networks, has_locks, is_of_pairs
from tests.simulation.loose import LooseReceiver
from tests.simulation.policies import Plan
from tests.simulation.reading import ReadingLedger
from tests.simulation.receivers import AcknowledgingReceiver, Drain, TransactedReceiver
from tests.simulation.run import Result, judged_run, works_once
from tests.simulation.workload import Actor, AsynchronousSender, BlockingSender, TransactedSender
from tests.simulation.world import Process, World

EVENTS_MAX = 500_000
PATIENCE = 60.0
"""Seconds of virtual time that clients have to end their work when nothing fails any more."""
SETTLED_SECONDS = 15.0
"""Seconds in which the broker that is to be active is, and the others wait."""
SCHEDULED_MAX = 100.0
ADDRESSES = ("orders", "orders", "jobs", "jobs", "news")
QUEUES = (("orders", 2), ("jobs", 2), ("news.mail", 1), ("shipped", 1))
"""Queues, and how many receive from them at most."""


class HaSimulation:
    """A group of brokers and their clients in one virtual world.  ``plan`` and ``schedule`` come from the seed unless they are given."""

    command = "python -m tests.simulation --ha"
    label = ""
    """Before the names of its clients, where there are others."""

    def __init__(self, seed: int, plan: HaPlan | None = None, schedule: faults.HaSchedule | None = None) -> None:
        self.world = World(seed, EVENTS_MAX)
        self.plan = plan or self._draw_plan()
        self.ledger = HaLedger()
        self.schedule = schedule or self._draw_faults()
        self.quiet_from = faults.PAIR_HEALED_AT if self.plan.replicated else faults.HEALED_AT
        self.group = self._make_group(replace(Plan.draw(self.world.generator("plan")), once=works_once(seed)))
        if checks_networks(seed):
            self.group.check_networks()
        self.actors: list[Actor] = []
        self.reading = ReadingLedger(self)  # type: ignore[arg-type]
        self.copies = self._make_copies()
        self.decisions: dict[Xid, bool] = {}
        """What transaction managers have decided: True to commit."""

    def _draw_plan(self) -> HaPlan:
        rng = self.world.generator("group plan")
        if not is_of_pairs(self.world.seed):
            return HaPlan.draw(rng)
        plan = HaPlan.draw_pair(rng)
        if not has_locks(self.world.seed):
            return plan
        plan = plan.with_locks()
        return plan.competing() if random.Random(f"{self.world.seed}/competing primaries").random() < 0.4 else plan

    def _draw_faults(self) -> faults.HaSchedule:
        schedule, plan = self._draw_schedule(self.world.generator("group faults")), self.plan
        if checks_networks(self.world.seed):
            longest = faults.PAIR_HELD_UP_MAX if plan.replicated else faults.HELD_UP_MAX
            schedule.timed.extend(router.draw(self.world.generator("network check"), faults.FAULTS_FROM, faults.FAULTS_UNTIL, longest))
            schedule.timed.sort(key=lambda fault: fault.at)
        return schedule

    def _draw_schedule(self, rng: random.Random) -> faults.HaSchedule:
        return pair_faults.draw(rng, self.plan) if self.plan.replicated else faults.draw(rng, self.plan.brokers)

    def _make_group(self, settings: Plan) -> Group:
        world, plan, ledger = self.world, self.plan, self.ledger
        if plan.replicated:
            return PairGroup(world, plan, ledger, settings, pair_faults.may_split(plan, self.schedule))
        return SharedStoreGroup(world, plan, ledger, settings)

    def _make_copies(self) -> Copies:
        group = self.group
        if isinstance(group, PairGroup):
            return PairCopies(self.world, self.ledger, group)
        return Copies(self.world, self.ledger, group.fronts)

    # --- what its clients are made of, see tests.simulation.run.Simulation

    @property
    def broker(self) -> HaNode:
        return self.group.front

    @property
    def network(self) -> GroupFabric:
        return self.group.fabric

    @property
    def connectors(self) -> list[TransportConfiguration]:
        return [self.group.connector(node) for node in self.group.nodes]

    def runtime(self, process: Process) -> FabricRuntime:
        return FabricRuntime(process, self.group.fabric)

    # --- the course of a run

    def run(self) -> Result:
        """Work under faults, heal, settle, drain, check."""
        return judged_run(self, self._run, self._result)

    def _result(self) -> Result:
        world = self.world
        return Result(
            world.seed,
            world.violations,
            self.schedule,
            world.log,
            world.events,
            len(self.ledger.sent),
            len(self.ledger.receipts),
            self.group.activations,
            f"{self.plan}",
            self.command,
        )

    def _run(self) -> None:
        world = self.world
        world.note(f"{self.plan}")
        self.group.start()
        self._people()
        self.schedule.apply(world, self.group, [actor.process for actor in self.actors])
        for actor in self.actors:
            actor.start()
        world.run(self.quiet_from)
        if world.violations:
            return
        self.group.heal()
        world.note("everything is healed")
        steps: tuple[Callable[[], bool], ...] = (
            self._settle,
            lambda: self._all_end(self.actors),
            self._clients_are_gone,
            self._last_crash,
            lambda: self._wait(SCHEDULED_MAX, lambda: self.broker.nothing_scheduled, "scheduled messages never become due"),
            self._drain,
            self._judge,
        )
        for step in steps:
            if not step():
                return

    def _wait(self, seconds: float, condition: Callable[[], bool], text: str | Callable[[], str]) -> bool:
        if self.world.run(seconds, condition):
            return True
        if not self.world.violations:
            self.world.violation(text if isinstance(text, str) else text())
        return False

    def _settle(self) -> bool:
        """Exactly one broker is active, that one which is to be, and the others wait for it."""
        group = self.group
        if not self._wait(
            SETTLED_SECONDS, lambda: not group.differences(), lambda: f"after {SETTLED_SECONDS:.0f} s: {'; '.join(group.differences())}"
        ):
            return False
        serving = [node for node in group.nodes if node.serves]
        if len(serving) == 1:
            # The one that became active last may have given way since, as after a split.
            group.fronts[:] = serving
        self.world.note(f"{group.front.name} is active, the others wait")
        return True

    def _all_end(self, actors: Sequence[Actor]) -> bool:
        def text() -> str:
            return "; ".join(f"{actor.name} does not end: {actor.doing}" for actor in actors if not actor.finished)

        return self._wait(PATIENCE, lambda: all(actor.finished for actor in actors), text)

    def _clients_are_gone(self) -> bool:
        patience = CONNECTION_TTL_MS / 1000 + 3
        return self._wait(
            patience,
            lambda: self.broker.serves and not self.broker.strangers,
            lambda: f"the broker keeps {self.broker.strangers}" if self.broker.serves else "no broker is active",
        )

    def _last_crash(self) -> bool:
        """A failover more, in half of the runs."""
        rng = self.world.generator("last crash")
        if rng.random() < 0.5:
            return True
        self.broker.crash(rng.random() < 0.5, 0.1)
        self.world.run(1.0)
        return self._settle()

    def _drain(self) -> bool:
        """Take out what is left."""
        world, broker = self.world, self.broker
        if broker.paged:
            # What is scheduled in pages is seen when it is read: it must be due then, also by a clock that is behind.
            world.run(3.0 + max(map(abs, self.plan.skews)) / 1000)
        drain = Drain(self)  # type: ignore[arg-type]
        drain.start()
        return self._all_end([drain]) and self._clients_are_gone()

    def _judge(self) -> bool:
        """Nothing may be left, neither now nor when another broker goes on."""
        world, broker = self.world, self.broker
        self.group.flush()
        world.run(2.0)
        for problem in (*self.ledger.problems(), *broker.idle_problems(), *self.group.problems()):
            world.violation(problem)
        if world.violations:
            return False
        broker.crash(True, 0.1)
        world.run(2.0)
        if not self.group.goes_on_at_once and not self._settle():
            return False
        if self.broker.serves and self.broker.messages_recovered:
            world.violation(f"{self.broker.messages_recovered} messages are back after all were acknowledged")
        return True

    # --- who works in it

    def _people(self) -> None:
        rng = self.world.generator(f"{self.label}people")
        senders: Sequence[Any] = (BlockingSender, BlockingSender, AsynchronousSender, TransactedSender)
        for number in range(rng.choice((2, 3, 3))):
            self.actors.append(rng.choice(senders)(self, f"{self.label}sender{number}", rng.choice(ADDRESSES)))
        branches = rng.random() < 0.4
        for queue, most in QUEUES:
            count = rng.randrange(most + 1)
            alone = count == 1 and not (branches and queue == SOURCE)
            for number in range(count):
                self.actors.append(self._receiver(rng.randrange(4), f"{self.label}{queue}-receiver{number}", queue, alone))
        if branches:
            self.actors.append(HaBranchWorker(self, f"{self.label}branches"))  # type: ignore[arg-type]
        once_rng = self.world.generator(f"{self.label}people with exactlyOnce")
        if works_once(self.world.seed):
            self.actors += once.people(self, once_rng, ADDRESSES, (("orders", "shipped"), ("jobs", None), ("news.mail", None)), self.label)
        for actor in self.actors:
            actor.settings.initial_connect_attempts = (once_rng if actor.settings.exactly_once else rng).choice((1, 5))
            # A session that never gives up looks for its node at all places, also when it was told of no backup.
            actor.settings.ha = True
        self._deaths()

    def _receiver(self, kind: int, name: str, queue: str, alone: bool) -> Actor:
        simulation: Any = self
        if kind == 0:
            return LooseReceiver(simulation, name, queue, alone)
        if kind == 1:
            return TransactedReceiver(simulation, name, queue, alone, "shipped" if queue == "orders" else None)
        return AcknowledgingReceiver(simulation, name, queue, alone) if kind == 2 else TransactedReceiver(simulation, name, queue, alone)

    def _deaths(self) -> None:
        """Some clients end in the middle of their work."""
        rng = self.world.generator("deaths")
        for actor in self.actors:
            if actor.mortal and rng.random() < 0.05:
                self.world.schedule(rng.uniform(0.5, 6.0), actor.die, rng.random() < 0.5)
