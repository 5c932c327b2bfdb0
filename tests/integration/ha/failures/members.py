"""What rounds of failures of clusters have in common whose members are all active."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from tests.integration.ha.failures.turns import SETTLE_SECONDS, Turns
from tests.integration.ha.failures.verdict import SUSPECTED
from tests.integration.imq.members import Processes
from tests.integration.kill.rounds import LOOK_SECONDS
from tests.interop.processes import ProcessFailed

FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&useTopologyForLoadBalancing=false"
NOTICE = "clientFailureCheckPeriod=500&connectionTTL=1500"
EMPTY_SECONDS = 40.0
"""What nobody can decide any more is rolled back, and that takes a moment."""
TOLD = 4000
"""Characters."""
NOISE = re.compile(r"#debug|mqbroker\.audit")
"""In lines of a log that nobody needs who looks for a failure."""


class MemberTurns(Turns):
    _members: Processes

    def _any(self, count: int) -> list[int]:
        return self._shuffled(range(self._members.count))[:count]

    def _kill(self, number: int) -> None:
        self._mark(SUSPECTED)
        self._members.kill(number)
        self._count("kill -9")

    def _problems(self) -> list[str]:
        """What the members have left just now, and should not have, each as a sentence."""
        raise NotImplementedError

    def _left(self) -> list[str]:
        deadline = time.monotonic() + EMPTY_SECONDS
        while (problems := self._problems()) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        return problems

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        """Raises ProcessFailed."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not condition():
            ended = [number for number, broker in self._members.running.items() if broker.has_ended()]
            if ended or time.monotonic() > deadline:
                clients = "\n".join(process.tail() for each in self._clients for process in each.processes)
                raise ProcessFailed(f"it is not so that {what}; ended by themselves: {ended}\n{clients}\n{self._told()}")
            time.sleep(LOOK_SECONDS)

    def _told(self) -> str:
        told = []
        for number, broker in self._members.running.items():
            lines = [line for line in broker.written.splitlines(keepends=True) if not NOISE.search(line)]
            told.append(f"--- member {number}\n{''.join(lines)[-TOLD:]}")
        return "\n".join(told)
