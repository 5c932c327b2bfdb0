"""Rounds of failures of a pair under load, and their verdict.  The load comes from client processes that log outside the brokers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.integration.ha.failures.network import Network
from tests.integration.ha.failures.verdict import SETTLED, SUSPECTED, judge_once, judge_pair
from tests.integration.kill.deliveries import judge_paged
from tests.integration.kill.rounds import PAGED_MODULE, PAGED_ROLES, Clients, Outcome, Role, kill_while_starting
from tests.integration.kill.verdict import judge
from tests.interop.ha.pairs import BACKUP, PRIMARY, REPLICATION, SHARED_STORE, Pair
from tests.interop.ha.zookeeper import Ensemble
from tests.interop.processes import ProcessFailed

LOAD_SECONDS = (0.3, 1.5)
"""Between a pair that has settled and the next failure."""
ALONE_SECONDS = (0.0, 1.0)
"""Between the death of one broker and the next event."""
SILENCE_SECONDS = (3.0, 7.0)
"""A silence that is meant to be noticed, which takes two seconds."""
LONG_SILENCE_SECONDS = (8.0, 12.0)
"""Longer than clients wait for an answer, too, which is five seconds."""
KILLED_STARTS = 0.3
"""Share of the starts that are killed as well."""
SETTLE_SECONDS = 180.0
"""On a busy machine a broker takes half a minute to start, and as long to copy what the other one has."""
LOCK = Path("data", "journal", "serverlock.1")
ACTIVE, WAITING = "AMQ221007", "AMQ221109"
REPLICA = "the replica at"
IN_SYNC = "AMQ221024"
RETRY = "<retry-replication-wait>200</retry-replication-wait>"
GIVE_WAY = "<allow-failback>true</allow-failback>"
VOTER = 2
MANAGER = "{manager}"
"""In options: the element of the lock manager."""
FILE, ZOOKEEPER = "file", "zookeeper"
"""Lock managers."""
FILE_MANAGER = """<manager>
<class-name>org.apache.activemq.artemis.lockmanager.file.FileBasedLockManager</class-name>
<properties><property key="locks-folder" value="{}"/></properties>
</manager>"""
SESSION_MS = 3000
"""Of a broker at ZooKeeper: it has lost its lock when it stands still for longer."""
ONCE_ROLES = (Role("producer", 2, 15, only_sends=True), Role("transactor", 2), Role("consumer", 1))
ONCE_MODULE = "tests.integration.ha.failures.once_worker"

T = TypeVar("T")


@dataclass(frozen=True)
class Setup:
    """A pair, and the kinds of failures that it meets in turn; methods of :class:`Rounds`."""

    name: str
    kind: str
    failures: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    voters: int = 0
    manager: str = ""
    keeps_lock: bool = False
    """Does an active broker that stands still keep others from taking over?"""


SETUPS = (
    Setup("shared store", SHARED_STORE, ("killed", "lock_lost", "both_killed", "held_up", "held_up_for_long"), keeps_lock=True),
    Setup(
        "pair alone",
        REPLICATION,
        ("held_up_for_long", "both_killed", "killed", "passive_held_up", "held_up"),
        {"primary": RETRY, "backup": RETRY},
    ),
    Setup(
        "pair with a voter",
        REPLICATION,
        ("cut", "killed", "both_killed", "held_up_for_long", "passive_held_up", "held_up"),
        {"primary": RETRY, "backup": RETRY + GIVE_WAY},
        voters=1,
    ),
    Setup(
        "pair with a lock manager",
        REPLICATION,
        ("killed", "held_up_for_long", "both_killed", "cut", "passive_held_up"),
        {"primary": MANAGER + RETRY, "backup": MANAGER + RETRY},
        manager=FILE,
        keeps_lock=True,
    ),
)
WITH_ZOOKEEPER = Setup(
    "pair with ZooKeeper",
    REPLICATION,
    ("killed", "session_lost", "leader_killed", "both_killed", "passive_held_up", "cut"),
    {"primary": MANAGER + RETRY, "backup": MANAGER + RETRY + GIVE_WAY},
    manager=ZOOKEEPER,
)
"""Three servers of ZooKeeper in Java take too long to start for the test suite."""


def shares(rounds: int, setups: Sequence[Setup] = SETUPS) -> list[tuple[Setup, int]]:
    """The rounds of each set-up, of so many in all."""
    each, more = divmod(rounds, len(setups))
    counts = [(setup, each + (number >= len(setups) - more)) for number, setup in enumerate(setups)]
    return [(setup, count) for setup, count in counts if count]


def replica_in_sync(output: Sequence[str]) -> bool:
    """Has the active broker that has written this a replica in sync?"""
    found = False
    for line in output:
        if ACTIVE in line:
            found = False
        elif REPLICA in line:
            found = IN_SYNC in line
    return found


def waits(output: Sequence[str]) -> bool:
    """Does the broker that has written this wait as the backup that is next?"""
    found = False
    for line in output:
        if ACTIVE in line or WAITING in line:
            found = WAITING in line
    return found


class Rounds:
    """The rounds of one set-up; ``progress`` hears of each."""

    def __init__(self, setup: Setup, folder: Path, rng: random.Random, progress: Callable[[str, int, int], None]) -> None:
        self.setup = setup
        self._rng = rng
        self._progress = progress
        self._folder = folder
        self._ensemble = Ensemble(folder) if setup.manager == ZOOKEEPER else None
        manager = self._manager_xml()
        options = {role: text.replace(MANAGER, manager) for role, text in setup.options.items()}
        self._pair = Pair(setup.kind, "mqbroker", folder, options, setup.voters, proxied=True)
        self._network = Network(self._pair)
        self._clients: list[Clients] = []
        self._counts: dict[str, int] = {}

    def _manager_xml(self) -> str:
        if self._ensemble is not None:
            return self._ensemble.manager_xml("rounds", SESSION_MS)
        locks = self._folder / "locks"
        locks.mkdir(parents=True)
        return FILE_MANAGER.format(locks)

    def run(self, rounds: int) -> Outcome:
        """Raises ProcessFailed when a client or broker does something else than it should, or the pair does not settle."""
        setup, url = self.setup, self._pair.url
        with self._pair:
            try:
                if self._ensemble is not None:
                    self._ensemble.start()
                self._pair.start()
                self._clients.append(Clients(lambda role: url, self._folder / "logs"))
                self._clients.append(Clients(lambda role: url, self._folder / "paged-logs", PAGED_ROLES, PAGED_MODULE))
                self._clients.append(Clients(lambda role: url, self._folder / "once-logs", ONCE_ROLES, ONCE_MODULE))
                for each in (self._clients[0], self._clients[2]):
                    each.wait_for_load()
                self._settle()
                for number in range(rounds):
                    self._wait(LOAD_SECONDS)
                    failure = setup.failures[number % len(setup.failures)]
                    getattr(self, failure)()
                    self._settle()
                    self._count(failure)
                    for each in self._clients:
                        each.check()
                    self._progress(setup.name, number + 1, rounds)
                return self._finish()
            finally:
                self._network.heal(lost=True)
                for each in self._clients:
                    each.kill()
                if self._ensemble is not None:
                    self._ensemble.kill()

    def _finish(self) -> Outcome:
        for each in self._clients:
            each.ask_to_stop()
        judges = {"": judge, "paged ": judge_paged, "once ": judge_once}
        problems: list[str] = []
        for (group, verdict), clients in zip(judges.items(), self._clients, strict=True):
            found = clients.finish(lambda events, verdict=verdict: judge_pair(verdict, events))  # type: ignore[misc]
            problems += found.problems
            for verb, count in found.counts.items():
                self._counts[group + verb] = count
        self._settle()
        return Outcome(problems, self._counts)

    # --- the failures

    def killed(self) -> None:
        """The active broker; a later start of it perhaps, too."""
        active = self._settle()
        self._kill(active)
        self._pair.wait_until_active(other(active), SETTLE_SECONDS)
        self._wait(ALONE_SECONDS)
        self._start(active)

    def both_killed(self) -> None:
        """One after the other; the second one perhaps while it takes over.  They come back in any order."""
        first = self._settle()
        for number in (first, other(first)):
            self._kill(number)
            self._wait(ALONE_SECONDS)
        for number in self._shuffled((PRIMARY, BACKUP)):
            self._pair[number].launch()
            self._wait(ALONE_SECONDS)

    def held_up(self) -> None:
        """The active broker stands still, until the replica has taken its place; if it keeps a lock, nobody does."""
        self._stand_still(SILENCE_SECONDS)

    def held_up_for_long(self) -> None:
        """As before, and clients give up waiting for answers as well."""
        self._stand_still(LONG_SILENCE_SECONDS)

    def _stand_still(self, seconds: tuple[float, float]) -> None:
        active = self._settle()
        self._hold_up(active)
        self._wait(seconds)
        if not self.setup.keeps_lock:
            self._pair.wait_until_active(other(active), SETTLE_SECONDS)
        self._pair.process(active).go_on()

    def lock_lost(self) -> None:
        """The active broker stands still, and its lock is forgotten, as NFS does it; woken up, it ends."""
        self._lose_lock((self._pair[PRIMARY].folder / LOCK).unlink)

    def session_lost(self) -> None:
        """The active broker stands still for longer than its session; woken up, it ends."""
        self._lose_lock(lambda: None)

    def _lose_lock(self, forget: Callable[[], object]) -> None:
        active = self._settle()
        self._hold_up(active)
        forget()
        self._pair.wait_until_active(other(active), SETTLE_SECONDS)
        self._wait(ALONE_SECONDS)
        process = self._pair.process(active)
        process.go_on()
        process.wait(SETTLE_SECONDS)
        self._start(active)

    def leader_killed(self) -> None:
        """Of the servers that have the lock; neither broker minds."""
        assert self._ensemble is not None
        active = self._settle()
        self._ensemble.kill_leader()
        self._wait(SILENCE_SECONDS)
        self._ensemble.start()
        if self._settle() != active:
            raise ProcessFailed(f"broker {active} is not active any more, although most servers of ZooKeeper were there")

    def passive_held_up(self) -> None:
        """The replica stands still, and the active broker goes on without it."""
        passive = other(self._settle())
        self._hold_up(passive)
        self._wait(SILENCE_SECONDS)
        self._pair.process(passive).go_on()

    def cut(self) -> None:
        """The active broker, the passive one or all are alone, or only the two do not hear each other."""
        active = self._settle()
        between = (active, other(active))
        apart = [number for number in between if self._rng.random() < 0.5]
        self._mark(SUSPECTED)
        self._network.cut([between, *((number, VOTER) for number in apart)])
        self._wait(SILENCE_SECONDS)
        self._network.heal(lost=self._rng.random() < 0.5)

    # --- steps of them

    def _settle(self) -> int:
        """Wait until one is active, and the other one may take over; returns the number of the active one."""
        found: list[int] = []

        def settled() -> bool:
            for number in range(len(self._pair.brokers)):
                self._pair.process(number).raise_if_dead()
            found[:] = self._pair.active()
            return len(found) == 1 and self._is_ready(found[0])

        self._pair.wait_until(settled, "one broker is active, and the other one may take over", SETTLE_SECONDS)
        self._mark(SETTLED)
        return found[0]

    def _is_ready(self, active: int) -> bool:
        if self.setup.kind == REPLICATION:
            in_sync = replica_in_sync(self._pair.process(active).output())
            # With failback the primary is active soon.
            return in_sync and (active == PRIMARY or GIVE_WAY not in self.setup.options["backup"])
        return active == PRIMARY and waits(self._pair.process(BACKUP).output())

    def _kill(self, number: int) -> None:
        self._pair[number].kill()
        self._count("kill -9")

    def _start(self, number: int) -> None:
        if self._rng.random() < KILLED_STARTS:
            self._count("killed starts")
            kill_while_starting(self._pair[number], self._rng)
        self._pair[number].launch()

    def _hold_up(self, number: int) -> None:
        self._mark(SUSPECTED)
        self._pair.process(number).hold_up()

    def _wait(self, seconds: tuple[float, float]) -> None:
        time.sleep(self._rng.uniform(*seconds))

    def _shuffled(self, values: Sequence[T]) -> list[T]:
        return self._rng.sample(values, len(values))

    def _mark(self, verb: str) -> None:
        for each in self._clients:
            with (each.folder / "rounds.log").open("a") as log:
                log.write(f"{time.monotonic_ns()} {verb} pair\n")

    def _count(self, what: str) -> None:
        self._counts[what] = self._counts.get(what, 0) + 1


def other(number: int) -> int:
    return BACKUP if number == PRIMARY else PRIMARY
