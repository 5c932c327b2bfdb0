"""The place that the network checks of a group ask, how it falls silent, and what a broker may not do then."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from mqbroker.ha.network_check.monitor import NetworkCheck
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.ha.group import Group
    from tests.simulation.ha.node import HaNode

PLACE = "router"
PERIOD, SECONDS = 0.5, 0.3
"""Of a check, and for an answer."""
NOTICED_SECONDS = 3.0
"""So long after its place fell silent a broker may be active still, or become so."""
LOOKED_AT_EVERY = 20
"""Events after which is looked again whether a broker is active that may not be."""
FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Isolated:
    """The place does not answer a broker (-1: none of them); ``alone``: nothing gets to and from other brokers either."""

    at: float
    seconds: float
    broker: int
    alone: bool


def draw(rng: random.Random, first: float, last: float, longest: float) -> list[Isolated]:
    return [
        Isolated(rng.uniform(first, last), rng.uniform(0.2, longest), rng.randrange(-1, 2), rng.random() < 0.5)
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]


class Router:
    """Answers whoever reaches it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.generator(PLACE)
        self._silent: dict[str, tuple[float, float]] = {}
        """By host: since when, and until when, it gets no answer."""

    def fall_silent(self, host: str, seconds: float) -> None:
        now = self._world.now
        since, until = self._silent.get(host, (now, now))
        self._silent[host] = (since if until > now else now), max(until, now + seconds)

    def silent_since(self, host: str) -> float:
        """Since when a host gets no answer; infinity: it gets some."""
        since, until = self._silent.get(host, (FOREVER, 0.0))
        return since if until > self._world.now else FOREVER

    def heal(self) -> None:
        self._silent.clear()

    def check_of(self, process: Process, host: str) -> NetworkCheck:
        def ask(place: str) -> Deferred[None]:
            answer: Deferred[None] = Deferred()
            if self.silent_since(host) == FOREVER:
                process.call_later(self._rng.expovariate(1000), answer.callback, None)
            return answer

        return NetworkCheck(process, ask, (PLACE,), PERIOD, SECONDS)


def begin(fault: Isolated, group: Group) -> None:
    router = group.router
    assert router is not None
    for node in group.nodes if fault.broker < 0 else [group.nodes[fault.broker]]:
        router.fall_silent(node.name, fault.seconds)
        for other in group.machines if fault.alone else ():
            if other is not node:
                group.fabric.block(node.name, other.name, fault.seconds)
                group.fabric.block(other.name, node.name, fault.seconds)


def problems(router: Router, nodes: list[HaNode], now: float) -> Iterator[str]:
    """Brokers that are active although the network check has no answer."""
    for node in nodes:
        # Who stands still, or waits for its disk, notices when it goes on.
        since = max(router.silent_since(node.name), node.stands_still_until, node.slow_until)
        if node.serves and not node.process.stopping and now - since > NOTICED_SECONDS:
            yield f"{node.name} is active, and its network check has had no answer for {now - since:.1f} s"
