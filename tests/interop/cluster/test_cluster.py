"""The cluster scenarios: all with mqbrokers, some with real Artemis members, one with a replicated pair of them.

They are played two at a time, with clients of one JVM; each test waits for its own.  Every mixture: ``make interop-cluster``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.interop.cluster.play import PAIRED, SCENARIOS, Result, play
from tests.interop.puppet import Puppet

OURS = ("mqbroker", "mqbroker")
MIXED = (
    ("consumer-elsewhere", ("mqbroker", "artemis")),
    ("moving", ("artemis", "mqbroker")),
    ("topics", ("mqbroker", "artemis")),
    ("chain", ("mqbroker", "artemis")),
    ("cut-links", ("artemis", "mqbroker")),
    ("replicated-pair", OURS),
)
PLAYED = (*((name, OURS) for name, scenario in SCENARIOS.items() if scenario.not_for != "mqbroker"), *MIXED)
assert {name for name, _ in MIXED} <= {*SCENARIOS, *PAIRED}


def _identity(scenario: tuple[str, tuple[str, ...]]) -> str:
    name, kinds = scenario
    return f"{name}-{'-'.join(kinds)}"


Played = dict[tuple[str, tuple[str, ...]], Future[Result]]


@pytest.fixture(scope="module")
def played(java: None, request: pytest.FixtureRequest) -> Iterator[Played]:
    """The scenarios of the wanted tests, begun."""
    names = [item.name for item in request.session.items if item.path == request.path]
    wanted = [scenario for scenario in PLAYED if any(f"[{_identity(scenario)}]" in name for name in names)]
    with Puppet() as clients, ThreadPoolExecutor(2) as pool:
        futures: Played = {(name, kinds): pool.submit(play, name, kinds, clients) for name, kinds in wanted}
        yield futures
        for future in futures.values():
            future.cancel()


@pytest.mark.parametrize("scenario", PLAYED, ids=_identity)
def test_cluster(scenario: tuple[str, tuple[str, ...]], played: Played) -> None:
    result = played[scenario].result()
    assert result.reason is None, result.reason
