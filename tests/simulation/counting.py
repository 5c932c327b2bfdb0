"""How often a message was tried: what the delivery count of a receipt must be at least, and may be at most.

A delivery counts when it was in vain: acknowledged in a transaction that was rolled back, or with its consumer when the connection failed.
What a client gave back in order, untouched, does not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mqbroker.messaging.core import MessagingOptions
from tests.simulation.policies import RETURNS, Plan

if TYPE_CHECKING:
    from tests.simulation.model import Copy, Receipt

RECORDS = MessagingOptions().max_redelivery_records
"""As many changes of its delivery count are written for a message in one life of the broker: a restart may forget the others."""
Spot = tuple[str, "Copy"]
"""Where a copy is: its queue, or that of dead letters."""


class Counts:
    """``attempts``: after how many deliveries in vain the message of a queue goes to the dead letters, where only they lead there.

    ``counts_early``: the broker writes the count before each delivery, so that a restart makes each one that was open count.
    A *life* is the number of the start of the broker.
    """

    def __init__(self) -> None:
        self.attempts: dict[str, tuple[int, int]] = {}
        """By queue: the least and the most that were configured in the lives of the broker."""
        self.counts_early = False
        self._open: dict[str, Counter[str]] = defaultdict(Counter)
        """By queue: how many consumers each client has there."""
        self._failed: Counter[str] = Counter()
        """By queue: how many consumers have, or may have, ended with their connection."""
        self._perhaps: Counter[Spot] = Counter()
        self._surely: dict[Spot, list[tuple[float, int]]] = defaultdict(list)
        """When, and in which life, a delivery was in vain for sure."""
        self._durable: dict[int, float] = {}
        """By life: what was in vain before is on the disk."""

    def settings(self, plan: Plan) -> None:
        """The broker is started with these."""
        least, most = self.attempts.get(RETURNS, (plan.attempts, plan.attempts))
        self.attempts[RETURNS] = (min(least, plan.attempts), max(most, plan.attempts))
        self.counts_early |= plan.count_before_delivery

    # --- consumers

    def opened(self, queue: str, who: str) -> None:
        self._open[queue][who] += 1

    def closed(self, queue: str, who: str, cleanly: bool) -> None:
        """``cleanly``: the broker has said so."""
        if self._open[queue][who]:
            self._open[queue][who] -= 1
            self._failed[queue] += not cleanly

    def connection_failed(self, who: str) -> None:
        """The client's consumers will be there again, if it comes back."""
        for queue, holders in self._open.items():
            self._failed[queue] += holders[who]

    def left(self, who: str, cleanly: bool) -> None:
        for queue, holders in self._open.items():
            gone = holders.pop(who, 0)
            self._failed[queue] += 0 if cleanly else gone

    # --- deliveries

    def tried(self, place: str, copy: Copy) -> None:
        """This delivery may turn out to be in vain."""
        self._perhaps[place, copy] += 1

    def tried_something(self, queue: str) -> None:
        """A delivery of the queue was perhaps in vain, and nobody knows of which message."""
        self._failed[queue] += 1

    def in_vain(self, place: str, copies: Iterable[Copy], life: int, now: float) -> None:
        """The broker has said so of deliveries that were :meth:`tried`."""
        for copy in copies:
            self._surely[place, copy].append((now, life))

    def durable(self, life: int, asked: float) -> None:
        """The broker has said that something is durable for which it was asked at that time: so is all that it wrote before."""
        self._durable[life] = max(self._durable.get(life, 0.0), asked)

    # --- the judgement

    def problem(self, receipt: Receipt) -> str | None:
        """Is something wrong with the count of this receipt?"""
        count = receipt.delivery_count
        least, most = self._least(receipt), self._most(receipt, receipt.place)
        if not least <= count <= most:
            return f"{receipt.copy} came from {receipt.place} with delivery count {count}, and not {least} to {most}"
        queue = receipt.copy[0]
        limits = self.attempts.get(queue)
        if limits is None:
            return None
        late = self.counts_early and receipt.life > 1
        if receipt.place == queue and count > limits[1] and not late:
            return f"{receipt.copy} came {count} times, and is a dead letter after {limits[1]}"
        if receipt.place != queue and self._most(receipt, queue) <= limits[0]:
            return f"{receipt.copy} is a dead letter, although it can have been tried {self._most(receipt, queue) - 1} times only"
        return None

    def _least(self, receipt: Receipt) -> int:
        known: Counter[int] = Counter()
        for when, life in self._surely.get((receipt.place, receipt.copy), ()):
            known[life] += when < receipt.sent and (life == receipt.life or when <= self._durable.get(life, 0.0))
        return 1 + sum(count if life == receipt.life else min(count, RECORDS) for life, count in known.items())

    def _most(self, receipt: Receipt, place: str) -> int:
        others = sum(count for who, count in self._open[place].items() if who != receipt.who)
        restarts = receipt.life - 1 if self.counts_early else 0
        return 1 + self._perhaps[place, receipt.copy] + self._failed[place] + others + restarts
