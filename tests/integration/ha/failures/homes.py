"""Rounds of failures of home brokers under load: members die, stand still, or do not hear each other; nobody takes their place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from mqclient.jms import JMSException
from tests.integration.ha.failures.databases import SqliteFile
from tests.integration.ha.failures.home_processes import HomeProcesses, Kept
from tests.integration.ha.failures.home_worker import GONE, TOPIC
from tests.integration.ha.failures.members import FOLLOW, NOTICE, MemberTurns
from tests.integration.ha.failures.network import both_ways
from tests.integration.ha.failures.setups import Setup
from tests.integration.ha.failures.turns import (
    ALONE_SECONDS,
    KILLED_STARTS,
    ONCE,
    PAGED,
    SILENCE_SECONDS,
    Group,
)
from tests.integration.ha.failures.verdict import SETTLED, SUSPECTED, judge_batches
from tests.integration.kill.rounds import ROLES, START_SECONDS, Role
from tests.integration.kill.verdict import Event, read_logs
from tests.integration.kill.worker import WINDOW
from tests.interop.processes import ProcessFailed, serves

MODULE = "tests.integration.ha.failures.home_worker"
BATCHES = Group("", ROLES, MODULE, judge_batches)
DEFINED = Group("defined ", (Role("definer", 3, 200, only_sends=True),), MODULE, lambda events: [], comes_first=False)
"""The subscriptions of these clients are compared with those of the members in the end."""
MASTER = 0
ONWARD = {"transactor": 1, "xa": 2, "lagger": 1}
"""How many members further on the first client of a role has its member, so that it consumes what was sent elsewhere."""
PLACE = f"tcp://127.0.0.1:{{}}?useTopologyForLoadBalancing=false&{NOTICE}&{WINDOW}"


class HomeRounds(MemberTurns):
    """Each client has a member, and waits for it while that is away; those with ``exactlyOnce`` go on elsewhere while they hold no work."""

    groups = (BATCHES, PAGED, ONCE, DEFINED)

    def __init__(self, setup: Setup, folder: Path, rng: random.Random, progress: Callable[[str, int, int], None]) -> None:
        super().__init__(setup, folder, rng, progress)
        self._record = SqliteFile(folder).url if setup.database else str(MASTER)
        self._members: HomeProcesses

    def _begin(self) -> None:
        self._members = HomeProcesses(self._record)
        self._ends.callback(self._members.close)
        self._wait_until_whole()

    def _url(self, group: Group, role: Role) -> str:
        numbers = list(range(self._members.count))
        if group is ONCE:
            places = ",".join(f"tcp://127.0.0.1:{self._members.announced(number)}" for number in numbers)
            return f"({places})?{FOLLOW}&{NOTICE}&{WINDOW}"
        onward = ONWARD.get(role.name, 0)
        return " ".join(PLACE.format(self._members.port(number)) for number in numbers[onward:] + numbers[:onward])

    # --- the failures

    def killed(self) -> None:
        """Any member; a start of it perhaps, too."""
        [victim] = self._any(1)
        self._kill(victim)
        self._wait(ALONE_SECONDS)
        self._start(victim)

    def two_killed(self) -> None:
        """One after the other; they come back in any order."""
        victims = self._any(2)
        for victim in victims:
            self._kill(victim)
            self._wait(ALONE_SECONDS)
        for victim in self._shuffled(victims):
            self._start(victim)
            self._wait(ALONE_SECONDS)

    def master_killed(self) -> None:
        """Meanwhile what needs the record is refused."""
        self._kill(MASTER)
        self._refused(self._rng.randrange(MASTER + 1, self._members.count))
        self._wait(ALONE_SECONDS)
        self._start(MASTER)

    def held_up(self) -> None:
        """A member stands still until the others have lost it, and longer."""
        [victim] = self._any(1)
        self._mark(SUSPECTED)
        self._members.running[victim].hold_up()
        self._wait(SILENCE_SECONDS)
        self._noticed((other, victim) for other in self._members.running if other != victim)
        self._members.running[victim].go_on()

    def cut(self) -> None:
        """A member does not hear another one, or both of them; or it is not heard; or neither."""
        one, *others = self._any(self._rng.choice((2, 3)))
        there = [(one, other) for other in others]
        back = [(other, one) for other in others]
        ways = self._rng.choice((there, back, both_ways(there)))
        self._mark(SUSPECTED)
        self._members.network.cut(ways)
        self._wait(SILENCE_SECONDS)
        self._noticed(ways)
        self._members.network.heal(lost=self._rng.random() < 0.5)

    # --- steps of them

    def _kill(self, number: int) -> None:
        super()._kill(number)
        self._noticed((other, number) for other in self._members.running)

    def _start(self, number: int) -> None:
        if self._rng.random() < KILLED_STARTS:
            self._count("killed starts")
            self._members.launch(number)
            self._wait(START_SECONDS)
            self._kill(number)
        self._members.launch(number)

    def _refused(self, number: int) -> None:
        """Raises ProcessFailed when a member makes a subscription, or does not name the master that is away."""
        master = f"127.0.0.1:{self._members.announced(MASTER)}"
        with self._members.connected(number) as connection:
            try:
                connection.create_session().create_shared_durable_consumer(TOPIC, "refused")
            except JMSException as error:
                if master in str(error):
                    self._count("refused without the master")
                    return
                raise ProcessFailed(f"the refusal of a subscription does not name the master {master}: {error}") from error
        raise ProcessFailed(f"member {number} has made a subscription without the master\n{self._told()}")

    def _noticed(self, losses: Iterable[tuple[int, int]]) -> None:
        """Wait until the first of each two has lost its link to the second."""
        for observer, lost in losses:
            self._until(partial(self._has_lost, observer, lost), f"member {observer} has lost {lost}")

    def _has_lost(self, observer: int, lost: int) -> bool:
        return lost not in self._members.linked(observer)

    def _settle(self) -> int:
        """All are linked and serve clients, and no client holds a message that it was sent before.

        When a link is lost meanwhile this does not count as settled in the logs.
        """
        self._wait_until_whole()
        losses = self._members.losses()
        for each in self._clients:
            each.look()
        self._until(lambda: all(each.have_cleared() for each in self._clients), "the clients have worked off what they held")
        if self._members.losses() == losses:
            self._mark(SETTLED)
        return 0

    def _wait_until_whole(self) -> None:
        for number in range(self._members.count):
            self._until(partial(self._is_whole, number), f"member {number} is linked and serves clients")

    def _is_whole(self, number: int) -> bool:
        linked = self._members.linked(number)
        return len(linked) == self._members.count - 1 and serves(int(self._members.port(number)))

    def _further_marks(self) -> list[Event]:
        """A busy machine loses links without a failure, too."""
        return self._members.losses()

    def _unconsumed(self) -> dict[int, int]:
        return {number: kept.messages for number, kept in self._kept().items() if kept.messages}

    def _kept(self) -> dict[int, Kept]:
        return {number: self._members.kept(number) for number in self._members.running}

    def _problems(self) -> list[str]:
        made = self._subscriptions()
        found = self._kept()
        problems = []
        for number, kept in found.items():
            if kept.messages or kept.prepared or kept.undecided:
                problems.append(
                    f"member {number} has {kept.messages} messages, {kept.prepared} prepared, {kept.undecided} undecided branches"
                )
            if made != {name for name in kept.shared if name.startswith("d")}:
                problems.append(f"member {number} has the subscriptions {sorted(kept.shared)}, clients have {sorted(made)}")
        if len({kept.shared for kept in found.values()}) > 1:
            problems.append(f"the members have different queues: {[sorted(kept.shared) for kept in found.values()]}")
        return problems

    def _subscriptions(self) -> set[str]:
        """The subscriptions that clients have made, and not removed."""
        clients = self._clients[self.groups.index(DEFINED)]
        events = read_logs(sorted(clients.folder.glob("*.log")))
        made, gone = ({event.name for event in events if event.verb == verb} for verb in ("sent", GONE))
        return made - gone
