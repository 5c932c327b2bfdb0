"""Plays scenarios: brokers of the wanted kinds, clients of a JVM that all scenarios share, and a table of what came out."""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.cluster import further, pair, scenarios
from tests.interop.cluster.nodes import Nodes, brokers_of
from tests.interop.cluster.scenarios import Scenario
from tests.interop.puppet import Puppet

SCENARIOS: dict[str, Scenario] = {**scenarios.SCENARIOS, **further.SCENARIOS}
"""Those that are played with brokers of every kind."""
PAIRED: dict[str, Scenario] = pair.SCENARIOS
"""Those with a replicated pair of real Artemis brokers before those of the mixture."""


@dataclass(frozen=True)
class Result:
    """How a scenario went; ``reason`` is None when it holds."""

    name: str
    kinds: tuple[str, ...]
    seconds: float
    reason: str | None

    @property
    def line(self) -> str:
        return f"{'ok  ' if self.reason is None else 'FAIL'} {self.seconds:6.1f} s  {self.name} {','.join(self.kinds)}"


def play(name: str, kinds: Sequence[str], java: Puppet) -> Result:
    """Play one scenario with brokers of these kinds in turn."""
    began = time.monotonic()
    paired = PAIRED.get(name)
    scenario = paired or SCENARIOS[name]
    count = scenario.brokers
    brokers = (*("artemis",) * 2, *brokers_of(kinds, count - 2)) if paired else brokers_of(kinds, count)
    reason = None
    try:
        with tempfile.TemporaryDirectory() as folder, Nodes(brokers, Path(folder), scenario.shape) as nodes, java.apart() as clients:
            try:
                scenario.play(nodes, clients)
            except Exception:
                reason = f"{traceback.format_exc()}\n{nodes.told()}"
    except Exception:  # before it began, or when all was over
        reason = reason or traceback.format_exc()
    return Result(name, tuple(kinds), time.monotonic() - began, reason)
