"""Rounds of failures of a pair under load, and their verdict.  The load comes from client processes that log outside the brokers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.integration.ha.database_pair import STORE
from tests.integration.ha.failures.databases import FailingPostgresql, make_database
from tests.integration.ha.failures.network import Network, both_ways
from tests.integration.ha.failures.setups import FILE_MANAGER, GIVE_WAY, MANAGER, SESSION_MS, ZOOKEEPER, Setup
from tests.integration.ha.failures.turns import (
    ALONE_SECONDS,
    AWAY_SECONDS,
    KILLED_STARTS,
    ONCE,
    PAGED,
    PLAIN,
    SETTLE_SECONDS,
    SILENCE_SECONDS,
    STOPS,
    Group,
    Turns,
)
from tests.integration.ha.failures.verdict import SETTLED, SUSPECTED
from tests.integration.kill.left import messages_left
from tests.integration.kill.rounds import Role, kill_while_starting
from tests.interop.ha.pairs import BACKUP, PRIMARY, REPLICATION, VOTER, Pair
from tests.interop.ha.zookeeper import Ensemble
from tests.interop.processes import ProcessFailed

LONG_SILENCE_SECONDS = (8.0, 12.0)
"""Longer than clients wait for an answer, too, which is five seconds."""
LEASE_MS = 5_000
"""On a busy machine the holder of a lease may renew it some seconds late."""
LOCK = Path("data", "journal", "serverlock.1")
ACTIVE, WAITING = "AMQ221007", "AMQ221109"
REPLICA = "the replica at"
IN_SYNC = "AMQ221024"


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


class Rounds(Turns):
    """The rounds of a pair."""

    groups = (PLAIN, PAGED, ONCE)

    def __init__(self, setup: Setup, folder: Path, rng: random.Random, progress: Callable[[str, int, int], None]) -> None:
        super().__init__(setup, folder, rng, progress)
        self._database = make_database(setup.database, folder) if setup.database else None
        if self._database is not None:
            self._ends.callback(self._database.close)
        self._ensemble = Ensemble(folder) if setup.manager == ZOOKEEPER else None
        if self._ensemble is not None:
            self._ends.callback(self._ensemble.kill)
        manager = self._manager_xml()
        options = {role: text.replace(MANAGER, manager) for role, text in setup.options.items()}
        store = "" if self._database is None else STORE.format(url=self._database.url.replace("&", "&amp;"), expiration=LEASE_MS)
        self._pair = Pair(setup.kind, "mqbroker", folder, options, setup.voters, proxied=True, store=store)
        self._ends.callback(self._pair.close)
        self._network = Network(self._pair.proxies, self._pair.process_ids)
        self._ends.callback(self._network.heal, lost=True)

    def _manager_xml(self) -> str:
        if self._ensemble is not None:
            return self._ensemble.manager_xml("rounds", SESSION_MS)
        locks = self._folder / "locks"
        locks.mkdir(parents=True)
        return FILE_MANAGER.format(locks)

    def _url(self, group: Group, role: Role) -> str:
        return self._pair.url

    def _told(self) -> str:
        return self._pair.told()

    def _begin(self) -> None:
        if self._ensemble is not None:
            self._ensemble.start()
        self._pair.start()

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
        """The active broker stands still for longer than its session, or its lease; woken up, it ends."""
        self._lose_lock(lambda: None)

    def held_in_transaction(self) -> None:
        """The same in the middle of a transaction."""
        postgresql = self._postgresql()
        active = self._settle()
        with postgresql.catch({active: self._pair.process(active).pid}):
            self._hold_up(active)
        self._goes_on_late(active)

    def server_restarted(self) -> None:
        """The server of the database is away for a moment; a broker whose lease has ended meanwhile ends, and is started again."""
        postgresql = self._postgresql()
        self._mark(SUSPECTED)
        postgresql.stop(self._rng.choice(STOPS))
        self._wait(AWAY_SECONDS)
        postgresql.start()
        self._settle(revived=True)

    def _lose_lock(self, forget: Callable[[], object]) -> None:
        active = self._settle()
        self._hold_up(active)
        forget()
        self._goes_on_late(active)

    def _goes_on_late(self, active: int) -> None:
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
        self._network.cut(both_ways([between, *((number, VOTER) for number in apart)]))
        self._wait(SILENCE_SECONDS)
        self._network.heal(lost=self._rng.random() < 0.5)

    def _unconsumed(self) -> dict[str, int]:
        return messages_left(self._pair.url)

    # --- steps of them

    def _postgresql(self) -> FailingPostgresql:
        assert isinstance(self._database, FailingPostgresql)
        return self._database

    def _settle(self, revived: bool = False) -> int:
        """Wait until one is active, and the other one may take over; returns the number of the active one.

        ``revived``: a broker may end meanwhile, and is started again.
        """
        found: list[int] = []

        def settled() -> bool:
            for number in range(len(self._pair.brokers)):
                if revived and self._pair.process(number).has_ended():
                    self._count("ended without the server")
                    self._pair[number].launch()
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


def other(number: int) -> int:
    return BACKUP if number == PRIMARY else PRIMARY
