"""Rounds of failures of an enhanced cluster under load: members die or stand still, or the server of their database is restarted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from mqbroker.storage.shared.brokers import BrokerRow, State
from tests.integration.ha.failures.databases import FailingPostgresql, make_database
from tests.integration.ha.failures.setups import Setup
from tests.integration.ha.failures.turns import ALONE_SECONDS, AWAY_SECONDS, LOOK_SECONDS, ONCE, SETTLE_SECONDS, STOPS, Turns
from tests.integration.ha.failures.verdict import SETTLED, SUSPECTED
from tests.integration.imq.enhanced import EnhancedProcesses
from tests.interop.processes import ProcessFailed

MEMBERS = 3
FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&useTopologyForLoadBalancing=false"
NOTICE = "clientFailureCheckPeriod=500&connectionTTL=1500"
NOTICED_SECONDS = (2.5, 4.0)
"""After this a member that is not there would have been taken over."""
EMPTY_SECONDS = 40.0
"""What nobody can decide any more is rolled back, and that takes a moment."""
TOLD = 4000
"""Characters."""


class EnhancedRounds(Turns):
    """Clients begin at any member, and follow their node to its taker.

    All have ``exactlyOnce``: what another one sends again after a failure may come to another member, which does not know its duplicate id.
    """

    groups = (ONCE,)

    def __init__(self, setup: Setup, folder: Path, rng: random.Random, progress: Callable[[str, int, int], None]) -> None:
        super().__init__(setup, folder, rng, progress)
        self._database = make_database(setup.database, folder)
        self._ends.callback(self._database.close)
        self._members: EnhancedProcesses

    def _begin(self) -> None:
        self._members = EnhancedProcesses(MEMBERS, self._database.url, self._database.database)
        self._ends.callback(self._members.close)

    def _url(self) -> str:
        places = ",".join(f"tcp://127.0.0.1:{self._members.port(number)}" for number in range(MEMBERS))
        return f"({places})?{FOLLOW}&{NOTICE}"

    # --- the failures

    def killed(self) -> None:
        """Any member, which comes back when it is taken over."""
        [victim] = self._any(1)
        self._kill(victim)
        self._taken_over(victim)
        self._wait(ALONE_SECONDS)
        self._members.restart(victim)

    def two_killed(self) -> None:
        """A member, and then the next one, perhaps while it takes over; they come back when both are taken over, in any order."""
        victims = self._any(2)
        for victim in victims:
            self._kill(victim)
            self._wait(ALONE_SECONDS)
        for victim in victims:
            self._taken_over(victim)
        for victim in self._shuffled(victims):
            self._members.restart(victim)

    def held_up(self) -> None:
        """A member stands still until it is taken over; then it goes on, and starts again by itself."""
        [victim] = self._any(1)
        self._hold_up(victim)
        self._goes_on_late(victim)

    def held_in_transaction(self) -> None:
        """The same in the middle of a transaction."""
        processes = {number: broker.pid for number, broker in self._members.running.items()}
        with self._postgresql().catch(processes) as victim:
            self._hold_up(victim)
        self._goes_on_late(victim)

    def server_restarted(self) -> None:
        """The server of the database is away for a moment, and nobody is taken over for that."""
        before = self._owners()
        server = self._postgresql()
        server.stop(self._rng.choice(STOPS))
        self._wait(AWAY_SECONDS)
        server.start()
        self._wait(NOTICED_SECONDS)
        self._settle()
        if self._owners() != before:
            raise ProcessFailed(f"a member was taken over while the server was away: {before}, then {self._owners()}\n{self._told()}")

    # --- steps of them

    def _any(self, count: int) -> list[int]:
        return self._shuffled(range(MEMBERS))[:count]

    def _kill(self, number: int) -> None:
        self._mark(SUSPECTED)
        self._members.kill(number)
        self._count("kill -9")

    def _hold_up(self, number: int) -> None:
        self._mark(SUSPECTED)
        self._members.running[number].hold_up()

    def _goes_on_late(self, number: int) -> None:
        self._taken_over(number)
        self._wait(ALONE_SECONDS)
        self._members.running[number].go_on()

    def _postgresql(self) -> FailingPostgresql:
        assert isinstance(self._database, FailingPostgresql)
        return self._database

    def _owners(self) -> dict[int, tuple[str, str]]:
        return {number: (row.owner, row.node_id) for number, row in self._members.rows().items()}

    def _taken_over(self, number: int) -> None:
        self._until(lambda rows: rows[number].state is State.FAILOVER_COMPLETE, f"b{number} is taken over")

    def _settle(self) -> int:
        """All serve clients."""
        self._until(lambda rows: {row.state for row in rows.values()} == {State.OPERATING}, "all serve clients")
        self._mark(SETTLED)
        return 0

    def _left(self) -> list[str]:
        deadline = time.monotonic() + EMPTY_SECONDS
        while (left := self._members.left()) != (0, 0):
            if time.monotonic() > deadline:
                return [f"{left[0]} messages and {left[1]} branches are left in the database"]
            time.sleep(LOOK_SECONDS)
        return []

    def _until(self, condition: Callable[[dict[int, BrokerRow]], bool], what: str) -> None:
        """Raises ProcessFailed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not condition(rows := self._members.rows()):
            ended = [number for number, broker in self._members.running.items() if broker.has_ended()]
            if ended or time.monotonic() > deadline:
                raise ProcessFailed(f"it is not so that {what}; ended by themselves: {ended}; {rows}\n{self._told()}")
            time.sleep(LOOK_SECONDS)

    def _told(self) -> str:
        told = [f"--- b{number}\n{broker.written[-TOLD:]}" for number, broker in self._members.running.items()]
        return "\n".join([*told, self._database.told()])
