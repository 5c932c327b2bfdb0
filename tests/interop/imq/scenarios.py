"""The scenarios of each kind of cluster, and how one is played."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.interop.imq import enhanced_scenarios, master_scenarios, peer_scenarios
from tests.interop.imq.clusters import Cluster
from tests.interop.imq.stage import Seen, Stage
from tests.interop.puppet import Puppet

Scenario = Callable[[Stage], None]
MASTER, PEERS, ENHANCED = "master", "peers", "enhanced"
"""The kinds of clusters."""


def _named(scenarios: Iterable[Scenario]) -> Mapping[str, Scenario]:
    return {each.__name__.replace("_", "-"): each for each in scenarios}


SCENARIOS: Mapping[str, Mapping[str, Scenario]] = {
    MASTER: _named(master_scenarios.SCENARIOS),
    PEERS: _named(peer_scenarios.SCENARIOS),
    ENHANCED: _named(enhanced_scenarios.SCENARIOS),
}


@dataclass(frozen=True)
class Played:
    """What was seen, and the reason where a promise was broken."""

    seen: Mapping[str, Seen]
    reason: str | None = None


def play(scenario: Scenario, cluster: Cluster, java: Puppet) -> Played:
    """Play one scenario with brokers that are linked."""
    with java.apart() as clients:
        stage = Stage(cluster, clients)
        try:
            stage.mend()
            scenario(stage)
        except Exception as error:
            return Played(stage.seen, f"{type(error).__name__}: {error}")
        return Played(stage.seen)


def chosen(wanted: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Scenarios by kind of cluster.  Raises ValueError for an unknown name.

    What is wanted is a kind, or ``KIND/SCENARIO``; without anything it is all.
    """
    found: dict[str, list[str]] = {}
    for text in wanted or SCENARIOS:
        kind, _, name = text.partition("/")
        if kind not in SCENARIOS or (name and name not in SCENARIOS[kind]):
            known = "; ".join(f"{each}/ {', '.join(names)}" for each, names in SCENARIOS.items())
            raise ValueError(f"no scenario {text}; there are: {known}")
        names = found.setdefault(kind, [])
        names += [each for each in SCENARIOS[kind] if name in ("", each) and each not in names]
    return found
