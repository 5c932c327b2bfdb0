"""One run of the simulation.  Many of them: :mod:`tests.simulation.many`."""

from __future__ import annotations

import gc
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mqbroker.server.transport.liveness import CONNECTION_TTL_MS
from mqbroker.storage.files.filestore import FileStore
from mqclient.wire.primitives import TransportConfiguration
from mqclient.xa import Xid
from tests.simulation import balances, faults, groups, limits, machines, once
from tests.simulation.administrator import Administrator
from tests.simulation.branches import BranchWorker
from tests.simulation.broker import BrokerNode
from tests.simulation.client import CONNECTOR, SimulatedRuntime
from tests.simulation.copies import Copies
from tests.simulation.diverting import AUDIT, GOODS, RED
from tests.simulation.givingup import GivingUpReceiver, GivingUpSender
from tests.simulation.loose import ForgettingReceiver, LooseReceiver
from tests.simulation.model import Ledger
from tests.simulation.network import Network
from tests.simulation.others import Manager, Subscriber, TemporaryUser
from tests.simulation.policies import ARCHIVE, FLEETING, PARCELS, PERISHABLES, RETURNS, SORTED, SORTED_QUEUE
from tests.simulation.reading import ReaderUser, ReadingLedger
from tests.simulation.receivers import AcknowledgingReceiver, Drain, Receiver, TransactedReceiver
from tests.simulation.returning import MixedReceiver
from tests.simulation.selecting import FilterUser
from tests.simulation.values import ValueKeeper
from tests.simulation.workload import Actor, AsynchronousSender, BlockingSender, Sender, TransactedSender
from tests.simulation.world import Process, SimulationError, World
from tests.support.disk import SimulatedCrash

HEALED_AT = faults.FAULTS_UNTIL + 0.5
"""Seconds of virtual time after which nothing fails any more."""
PATIENCE = 60.0
"""Seconds of virtual time that clients then have to end their work; every call ends far earlier."""
SCHEDULED_MAX = 4000.0
"""Seconds of virtual time until everything scheduled is due: while the wall clock was wrong, that may have been an hour later."""
UNUSED_MAX = 4.0
"""Seconds of virtual time after which queues that go by themselves have gone: what one scan finds unused another removes."""
MORE_QUEUES = (
    (PERISHABLES, PERISHABLES),
    (SORTED, SORTED_QUEUE),
    (PARCELS, PARCELS),
    (GOODS, GOODS),
    (GOODS, RED),
    (GOODS, AUDIT),
    (FLEETING, FLEETING),
)
LOOKED_AT_EVERY = 5
"""Events after which is looked again at who has which group."""
ADDRESSES = ("orders", "orders", "jobs", "news", "news", "stock", PERISHABLES, SORTED, PARCELS, GOODS, GOODS, RETURNS, RETURNS, FLEETING)
"""Where senders send to, those more often that stand here twice."""
WORDS: dict[type[Actor], str] = {
    GivingUpSender: "giving up",
    BlockingSender: "blocking",
    AsynchronousSender: "asynchronous",
    TransactedSender: "transacted",
}
VIOLATIONS_MAX = 20
LOG_LINES = 200
"""Lines of the event log that a failing run shows unless all are asked for."""


class AnySchedule(Protocol):
    """The faults of a run; its text names them all."""

    @property
    def timed(self) -> Sequence[object]: ...

    @property
    def cuts(self) -> Sequence[object]: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What a run came to.  ``digest`` is of the whole event log: equal digests, equal runs."""

    seed: int
    violations: list[str]
    schedule: AnySchedule
    log: list[str]
    events: int
    messages: int
    receipts: int
    starts: int
    plan: str = ""
    """What the broker, or the cluster, was told, where that is worth showing."""
    command: str = "python -m tests.simulation"
    handovers: int = 0
    """How often a node of a cluster has given everything away in a scale-down."""

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.log).encode()).hexdigest()

    def report(self, verbose: bool = False, plant: str = "") -> str:
        """Seed, faults and event log of a run that failed."""
        log = self.log if verbose else self.log[-LOG_LINES:]
        cut = [] if len(log) == len(self.log) else [f"  … {len(self.log) - len(log)} lines before these; --verbose shows all"]
        return "\n".join(
            [
                f"seed {self.seed} violates:",
                *(f"  {text}" for text in self.violations[:VIOLATIONS_MAX]),
                *([f"of: {self.plan}"] if self.plan else []),
                "faults:",
                str(self.schedule),
                "events:",
                *cut,
                *(f"  {line}" for line in log),
                f"replay with: {self.command} --seed {self.seed} --verbose{f' --plant {plant}' if plant else ''}",
            ]
        )


class Simulation:
    """A broker and its clients in one virtual world.  ``store_class`` is the store of the broker: a test plants a fault in it."""

    def __init__(self, seed: int, store_class: type[FileStore] = FileStore) -> None:
        self.world = World(seed)
        self.ledger = Ledger()
        self.network = Network(self.world)
        self.broker = self.make_broker(store_class)
        self.schedule = self.draw_faults(self.world.generator("faults"))
        self.quiet_from = HEALED_AT
        """When nothing fails any more."""
        self.actors: list[Actor] = []
        self.reading = ReadingLedger(self)
        self.world.watch(self._look_at_groups)
        self.copies = self.make_copies()
        self.decisions: dict[Xid, bool] = {}
        """What transaction managers have decided: True to commit."""

    # --- what it is made of

    def make_broker(self, store_class: type[FileStore]) -> BrokerNode:
        return BrokerNode(self.world, self.network, self.ledger, store_class)

    def draw_faults(self, rng: random.Random) -> faults.Schedule:
        return faults.draw(rng)

    def make_copies(self) -> Copies:
        return Copies(self.world, self.ledger, [self.broker])

    @property
    def connectors(self) -> list[TransportConfiguration]:
        return [CONNECTOR]

    def runtime(self, process: Process) -> SimulatedRuntime:
        return SimulatedRuntime(process, self.network)

    # --- the course of a run

    def run(self) -> Result:
        """Work under faults, heal, drain, check."""
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
            self.broker.starts,
        )

    def _run(self) -> None:
        world, broker = self.world, self.broker
        broker.start()
        self._people()
        self.schedule.apply(world, self.network, broker, [actor.process for actor in self.actors])
        for actor in self.actors:
            actor.start()
        world.run(HEALED_AT)
        self.network.heal()
        broker.heal()
        world.note("everything is healed")
        if not self._all_end(self.actors) or not self._broker_is_left():
            return
        broker.have_damage_looked_for()
        if not world.run(PATIENCE, lambda: broker.serves):
            return
        if world.generator("last crash").random() < 0.5:
            broker.crash(True, 0.1)
            if not world.run(PATIENCE, lambda: broker.serves):
                return
        self.ledger.lost_memory = broker.starts > 1
        if not world.run(SCHEDULED_MAX, lambda: broker.nothing_scheduled):
            world.violation("scheduled messages never become due")
            return
        if broker.paged:
            # What is scheduled in pages is seen when it is read: it must be due then.
            world.run(SCHEDULED_MAX if self._clock_was_ahead() and broker.plan.redelivery_delay else 3.0)
            due = max((time for message in self.ledger.sent.values() for time in message.due), default=0)
            world.run(SCHEDULED_MAX, lambda: broker.process.wall_ms() >= due)
        self._drain()

    def _look_at_groups(self) -> int:
        for problem in self.broker.group_problems():
            self.world.violation(problem)
        return LOOKED_AT_EVERY

    def _clock_was_ahead(self) -> bool:
        return any(isinstance(fault, faults.ClockStep) and fault.milliseconds > 0 for fault in self.schedule.timed)

    def _drain(self) -> None:
        """Take out what is left; then nothing may be left, neither now nor after another crash."""
        world, broker = self.world, self.broker
        for queue in broker.messaging.core.queues.values():
            # A request to pause one may come after the one to resume it, when they took different connections.
            queue.paused = False
            broker.messaging.core.turn.run(broker.messaging.core.turn.mark_queue, queue)
        drain = Drain(self)
        drain.start()
        if not self._all_end([drain]) or not self._broker_is_left():
            return
        world.run(UNUSED_MAX)
        for problem in (*self.ledger.problems(), *broker.idle_problems()):
            world.violation(problem)
        broker.crash(True, 0.1)
        world.run(1.0)
        if broker.serves and broker.messages_recovered:
            world.violation(f"{broker.messages_recovered} messages are back after all were acknowledged and the broker crashed")

    def _people(self) -> None:
        """Who works in this run."""
        rng = self.world.generator("people")
        senders = (BlockingSender, BlockingSender, AsynchronousSender, TransactedSender)
        for number in range(rng.choice((2, 3))):
            address = rng.choice(ADDRESSES)
            kind = rng.choice(senders)
            if kind is TransactedSender and self.broker.plan.may_block(address):
                # What a transaction has sent fills the address; one that fills it altogether waits for itself.
                kind = BlockingSender
            if address != "stock" and rng.random() < 0.12:
                kind = GivingUpSender
            self.actors.append(kind(self, f"{WORDS[kind]}{number}", address))
        stock = any(isinstance(actor, Sender) and actor.address == "stock" for actor in self.actors)
        addresses = {actor.address for actor in self.actors if isinstance(actor, Sender)}
        queues = [("orders", 1), ("jobs", 2), ("news.mail", 1), ("stock", 1)]
        queues += [(queue, 1) for address, queue in MORE_QUEUES if address in addresses]
        queues += [(RETURNS, 2)] if RETURNS in addresses else []
        for queue, most in queues:
            count = int(stock) if queue == "stock" else rng.randrange(most + 1) if queue != RETURNS else rng.choice((1, 1, 2))
            for number in range(count):
                self.actors.append(self._receiver(rng.randrange(8), f"{queue}-receiver{number}", queue, count == 1))
        for number in range(rng.choice((0, 1, 1, 2))):
            self.actors.append(Subscriber(self, f"subscriber{number}", "news"))
        if rng.random() < 0.3:
            self.actors.append(TemporaryUser(self, "temporary"))
        if rng.random() < 0.3:
            self.actors.append(Manager(self, "manager"))
        if rng.random() < 0.4:
            self.actors.append(BranchWorker(self, "branches"))
        if rng.random() < 0.2:
            self.actors.append(FilterUser(self, "filters"))
        if rng.random() < 0.25:
            self.actors.append(Administrator(self, "administrator"))
        if rng.random() < 0.35:
            names = rng.choice((("first",), ("first", "first"), ("first", "second")))
            for number, name in enumerate(names):
                self.actors.append(ReaderUser(self, f"reader{number}", name, names.count(name) == 1))
            for number in range(rng.choice((1, 2))):
                kind = rng.choice(senders)
                self.actors.append(kind(self, f"{WORDS[kind]}-archive{number}", ARCHIVE))
        if rng.random() < 0.2:
            self.actors.append(ValueKeeper(self, "values"))
        if works_once(self.world.seed):
            self._people_once()
        self._deaths()

    def _people_once(self) -> None:
        """Clients with exactlyOnce, beside the others."""
        rng = self.world.generator("people with exactlyOnce")
        self.broker.plan = replace(self.broker.plan, once=True)
        # What was damaged may be ids.
        self.schedule.timed[:] = [fault for fault in self.schedule.timed if not isinstance(fault, faults.Damage)]
        self.actors += once.people(self, rng, ("orders", "jobs", "news"), (("orders", "shipped"), ("jobs", None), ("news.mail", "shipped")))

    def _deaths(self) -> None:
        """Some clients end in the middle of their work."""
        rng = self.world.generator("deaths")
        for actor in self.actors:
            if actor.mortal and rng.random() < 0.08:
                self.world.schedule(rng.uniform(0.5, 5.0), actor.die, rng.random() < 0.5)

    def _receiver(self, kind: int, name: str, queue: str, alone: bool) -> Receiver:
        if queue == FLEETING:
            return ForgettingReceiver(self, name, queue, alone)
        if kind == 7:
            return LooseReceiver(self, name, queue, alone)
        if kind > 3 or queue == RETURNS:
            return MixedReceiver(self, name, queue, alone, kind % 2 == 0)
        if kind == 3 and queue != "stock":
            return GivingUpReceiver(self, name, queue, alone)
        if kind in (0, 3):
            return AcknowledgingReceiver(self, name, queue, alone)
        return TransactedReceiver(self, name, queue, alone, "shipped" if kind == 1 and queue == "orders" else None)

    def _all_end(self, actors: Sequence[Actor]) -> bool:
        if self.world.run(PATIENCE, lambda: all(actor.finished for actor in actors)):
            return True
        hanging = [] if self.world.violations else [actor for actor in actors if not actor.finished]
        for actor in hanging:
            self.world.violation(f"{actor.name} does not end: {actor.doing}")
        return False

    def _broker_is_left(self) -> bool:
        """Wait until the broker knows that its clients are gone."""
        broker = self.broker
        # A client that was cut off before its first ping has the TTL that holds until then, counted from the check that saw it last.
        patience_ms = CONNECTION_TTL_MS + 3 * broker.server.configuration.connection_ttl_check_interval
        if self.world.run(patience_ms / 1000, lambda: broker.serves and not broker.server.connections):
            return True
        if self.world.violations:
            return False
        self.world.violation("the broker keeps connections whose clients are gone" if broker.serves else "the broker does not start again")
        return False


@implementer(ILogObserver)
class FailureObserver:
    """What production code reports as its own failure is one."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, event: LogEvent) -> None:
        if event["log_level"] >= LogLevel.warn:
            self._world.note(f"log: {formatEvent(event)}")
        failure = event.get("log_failure")
        if isinstance(failure, Failure) and not isinstance(failure.value, SimulatedCrash):
            self._world.violation(f"a failure is logged: {failure.getTraceback()}")


class Judged(Protocol):
    """A simulation of any kind."""

    world: World


def judged_run(simulation: Judged, work: Callable[[], object], result: Callable[[], Result]) -> Result:
    """Let ``simulation`` do its ``work`` under the judges that all kinds of runs have, and take it apart; ``result`` is asked before."""
    world = simulation.world
    observer = FailureObserver(world)
    globalLogPublisher.addObserver(observer)
    # Deferreds tell of a failure that nobody took when they are collected: that must not depend on what ran before.
    gc.disable()
    try:
        with limits.small(), machines.indexed(), balances.judged(), groups.judged():
            work()
    except SimulationError as error:
        world.violation(str(error))
    finally:
        found = result()
        world.end()
        take_apart(simulation)
        gc.enable()
        globalLogPublisher.removeObserver(observer)
    return found


def take_apart(simulation: object) -> None:
    """Collect all that a run has made, when nobody holds it any more: otherwise each pass would look at everything again."""
    vars(simulation).clear()
    while gc.collect():
        pass


def works_once(seed: int) -> bool:
    """Do clients with exactlyOnce work in the run of this seed?"""
    return random.Random(f"{seed}/exactly once").random() < 0.3


def simulate(seed: int, store_class: type[FileStore] = FileStore) -> Result:
    """Run one seed."""
    return Simulation(seed, store_class).run()
