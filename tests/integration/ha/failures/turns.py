"""What rounds of failures under load have in common: the clients, which log outside the brokers, their marks, counts and verdict."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.integration.ha.failures.setups import Setup
from tests.integration.ha.failures.verdict import judge_once, judge_pair
from tests.integration.kill.deliveries import judge_paged
from tests.integration.kill.rounds import LOOK_SECONDS, PAGED_MODULE, PAGED_ROLES, ROLES, Clients, Outcome, Role, let_all_end
from tests.integration.kill.verdict import Event, judge
from tests.interop.processes import ProcessFailed

LOAD_SECONDS = (0.3, 1.5)
"""Between brokers that have settled and the next failure."""
ALONE_SECONDS = (0.0, 1.0)
"""Between the death of one broker and the next event."""
SILENCE_SECONDS = (3.0, 7.0)
"""A silence that is meant to be noticed, which takes two seconds."""
KILLED_STARTS = 0.3
"""Share of the starts that are killed as well."""
AWAY_SECONDS = (0.0, 3.0)
"""Between the stop of a server of a database and its start."""
SETTLE_SECONDS = 180.0
"""On a busy machine a broker takes half a minute to start, and as long to copy what the other one has."""
STOPS = ("fast", "immediate")
"""How a server of PostgreSQL is stopped: in order, or as in a crash."""

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """Clients with logs of their own; ``name`` begins their counts."""

    name: str
    roles: Sequence[Role]
    module: str
    judge: Callable[[list[Event]], list[str]]
    comes_first: bool = True
    """Is the first failure to wait until a message has made its way to the end?"""


PLAIN = Group("", ROLES, "tests.integration.kill.worker", judge)
PAGED = Group("paged ", PAGED_ROLES, PAGED_MODULE, judge_paged, comes_first=False)
ONCE_ROLES = (Role("producer", 2, 15, only_sends=True), Role("transactor", 2), Role("consumer", 1))
ONCE = Group("once ", ONCE_ROLES, "tests.integration.ha.failures.once_worker", judge_once)


class Turns:
    """The rounds of one set-up; ``progress`` hears of each."""

    groups: Sequence[Group]

    def __init__(self, setup: Setup, folder: Path, rng: random.Random, progress: Callable[[str, int, int], None]) -> None:
        self.setup = setup
        self._folder = folder
        self._rng = rng
        self._progress = progress
        self._clients: list[Clients] = []
        self._counts: dict[str, int] = {}
        self._ends = contextlib.ExitStack()
        """Ends whatever runs, also after a failure."""

    def run(self, rounds: int) -> Outcome:
        """Raises ProcessFailed when a client or broker does something else than it should, or the brokers do not settle."""
        try:
            self._begin()
            for group in self.groups:
                folder = self._folder / f"{group.name}logs".replace(" ", "-")
                self._clients.append(Clients(partial(self._url, group), folder, group.roles, group.module))
            for group, clients in zip(self.groups, self._clients, strict=True):
                if group.comes_first:
                    clients.wait_for_load()
            self._settle()
            for number in range(rounds):
                self._wait(LOAD_SECONDS)
                failure = self.setup.failures[number % len(self.setup.failures)]
                getattr(self, failure)()
                self._settle()
                self._count(failure)
                self._goes_on(failure)
                self._progress(self.setup.name, number + 1, rounds)
            problems = self._finish()
            self._settle()
            return Outcome([*problems, *self._left()], self._counts)
        finally:
            for each in self._clients:
                each.kill()
            self._ends.close()

    def _goes_on(self, failure: str) -> None:
        """Wait until each producer sends again; raises ProcessFailed."""
        before = [clients.sent() for clients in self._clients]
        deadline = time.monotonic() + SETTLE_SECONDS
        while standing := [
            group.name + name for group, each, sent in zip(self.groups, self._clients, before, strict=True) for name in each.standing(sent)
        ]:
            for each in self._clients:
                each.check()
            if time.monotonic() > deadline:
                told = "\n".join(each.told() for each in self._clients)
                raise ProcessFailed(f"after {failure} these producers do not go on: {', '.join(standing)}\n{told}\n{self._told()}")
            time.sleep(LOOK_SECONDS)

    def _told(self) -> str:
        """The last lines that each broker wrote."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Start the brokers."""
        raise NotImplementedError

    def _url(self, group: Group, role: Role) -> str:
        """Where clients connect to; as many URLs as there are places that they take in turn."""
        raise NotImplementedError

    def _settle(self) -> int:
        """Wait until the brokers have got over the failure, and say so in the logs; may return the number of the active one."""
        raise NotImplementedError

    def _unconsumed(self) -> object:
        """The messages that clients have not consumed yet, if any; raises JMSException."""
        raise NotImplementedError

    def _left(self) -> list[str]:
        """What the brokers have left, and should not have, each as a sentence."""
        return []

    def _finish(self) -> list[str]:
        let_all_end(self._clients, self._unconsumed)
        problems: list[str] = []
        for group, clients in zip(self.groups, self._clients, strict=True):
            found = clients.finish(partial(self._judge, group))
            problems += found.problems
            for verb, count in found.counts.items():
                self._counts[group.name + verb] = count
        return problems

    def _judge(self, group: Group, events: list[Event]) -> list[str]:
        return judge_pair(group.judge, sorted([*events, *self._further_marks()]))

    def _further_marks(self) -> list[Event]:
        """Marks that no log of the clients has."""
        return []

    def _wait(self, seconds: tuple[float, float]) -> None:
        time.sleep(self._rng.uniform(*seconds))

    def _shuffled(self, values: Sequence[T]) -> list[T]:
        return self._rng.sample(values, len(values))

    def _mark(self, verb: str) -> None:
        for each in self._clients:
            with (each.folder / "rounds.log").open("a") as log:
                log.write(f"{time.monotonic_ns()} {verb} brokers\n")

    def _count(self, what: str) -> None:
        self._counts[what] = self._counts.get(what, 0) + 1
