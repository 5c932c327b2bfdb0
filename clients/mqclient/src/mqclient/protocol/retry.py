"""Attempts and rates: intervals, numbers of attempts, messages per second, and the choice of the next broker."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from mqclient.text import nearest_name

POLICY_PACKAGE = "org.apache.activemq.artemis.api.core.client.loadbalance."
OLD_POLICY_PACKAGES = ("org.apache.activemq.api.core.client.loadbalance.", "org.hornetq.api.core.client.loadbalance.")
POLICY_NAMES = ("RoundRobin", "Random", "RandomSticky", "FirstElement")
POLICY_SUFFIX = "ConnectionLoadBalancingPolicy"


class RetryPlan:
    """Counts attempts and gives the pause after each.

    ``interval_ms`` grows by ``multiplier`` up to ``max_interval_ms``; ``attempts`` -1: without end.
    """

    __slots__ = ("_first", "_interval", "attempts", "made", "max_interval_ms", "multiplier")

    def __init__(self, interval_ms: float, multiplier: float, max_interval_ms: float, attempts: int) -> None:
        self.multiplier = multiplier
        self.max_interval_ms = max_interval_ms
        self.attempts = attempts
        self.made = 0
        self._first = min(float(interval_ms), float(max_interval_ms))
        self._interval = self._first

    @property
    def exhausted(self) -> bool:
        return 0 <= self.attempts <= self.made

    def failed(self) -> float:
        """An attempt has failed: seconds to wait before the next."""
        self.made += 1
        pause = self._interval
        self._interval = min(pause * self.multiplier, float(self.max_interval_ms))
        return pause / 1000

    def restart(self) -> None:
        self.made = 0
        self._interval = self._first


class ConnectionPolicy(Protocol):
    """Picks a broker for each new connection; an application may bring a class of its own that has this method."""

    def select(self, count: int, /) -> int:
        """An index below ``count``, which is at least 1."""


def load_balancing_policy(name: str, random_below: Callable[[int], int]) -> ConnectionPolicy:
    """The policy of a locator; one object for all its connections, so that a rotation goes on.

    ``name`` is a short name (RoundRobin), the name of the Java class in any of its packages, or the import path of a class of the
    application's (``package.module.Class`` or ``package.module:Class``), which is called without arguments.  Raises ValueError for another
    name.
    """
    plain = name.strip()
    for package in (POLICY_PACKAGE, *OLD_POLICY_PACKAGES):
        plain = plain.removeprefix(package)
    kind = plain.removesuffix(POLICY_SUFFIX)
    if kind in POLICY_NAMES:
        return LoadBalancingPolicy(kind, random_below)
    module, _, class_name = plain.replace(":", ".").rpartition(".")
    if not module or plain != name.strip():
        near = nearest_name(kind, POLICY_NAMES)
        raise ValueError(
            f"connectionLoadBalancingPolicyClassName {name!r} is not known"
            + (f", is {near} meant?" if near else "")
            + f"; expected one of {', '.join(POLICY_NAMES)}, with or without {POLICY_PACKAGE} and {POLICY_SUFFIX}, or package.module.Class"
        )
    try:
        made: ConnectionPolicy = getattr(import_module(module), class_name)()
        made.select  # noqa: B018 - a class without it is refused now, not at the first connection
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"connectionLoadBalancingPolicyClassName {name!r} cannot be used: {error}") from error
    return made


class LoadBalancingPolicy:
    """One of the four policies of the manual.  ``random_below(n)`` gives a random integer below n."""

    __slots__ = ("_kind", "_last", "_random_below")

    def __init__(self, kind: str, random_below: Callable[[int], int]) -> None:
        self._kind = kind
        self._random_below = random_below
        self._last: int | None = None

    def select(self, count: int) -> int:
        """An index below ``count``."""
        if self._kind == "FirstElement":
            return 0
        if self._last is None or self._kind == "Random":
            self._last = self._random_below(count)
        elif self._kind == "RoundRobin":
            self._last = self._last + 1 if self._last + 1 < count else 0
        elif self._last >= count:
            self._last = self._random_below(count)
        return self._last


class RateLimiter:
    """At most ``rate`` permits in any second that starts with a permit."""

    __slots__ = ("_left", "_started", "rate")

    def __init__(self, rate: int) -> None:
        if rate <= 0:
            raise ValueError(f"a rate of {rate} per second has no meaning")
        self.rate = rate
        self._started = float("-inf")
        self._left = 0

    def delay(self, now: float) -> float:
        """Take a permit: 0, or the seconds to wait before asking again (nothing was taken then)."""
        if now >= self._started + 1:
            self._started = now
            self._left = self.rate
        if self._left:
            self._left -= 1
            return 0.0
        return self._started + 1 - now
