"""Rounds of failures of an enhanced cluster under load: members die or stand still, or the server of their database is restarted."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from mqbroker.storage.shared.brokers import State
from tests.integration.ha.failures.databases import FailingPostgresql, make_database
from tests.integration.ha.failures.members import FOLLOW, NOTICE, MemberTurns
from tests.integration.ha.failures.setups import Setup
from tests.integration.ha.failures.turns import ALONE_SECONDS, AWAY_SECONDS, ONCE, STOPS, Group
from tests.integration.ha.failures.verdict import SETTLED, SUSPECTED
from tests.integration.imq.enhanced import EnhancedProcesses
from tests.integration.kill.rounds import Role
from tests.interop.processes import ProcessFailed

MEMBERS = 3
NOTICED_SECONDS = (2.5, 4.0)
"""After this a member that is not there would have been taken over."""


class EnhancedRounds(MemberTurns):
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

    def _url(self, group: Group, role: Role) -> str:
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
        self._until(lambda: self._members.state(number) is State.FAILOVER_COMPLETE, f"b{number} is taken over")

    def _settle(self) -> int:
        """All serve clients."""
        self._until(lambda: {row.state for row in self._members.rows().values()} == {State.OPERATING}, "all serve clients")
        self._mark(SETTLED)
        return 0

    def _unconsumed(self) -> int:
        return self._members.left()[0]

    def _problems(self) -> list[str]:
        messages, branches = self._members.left()
        return [f"{messages} messages and {branches} branches are left in the database"] if messages or branches else []

    def _told(self) -> str:
        return "\n".join([super()._told(), str(self._members.rows()), self._database.told()])
