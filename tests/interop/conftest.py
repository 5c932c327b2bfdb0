"""Fixtures of the interop suite: Java and Maven or a visible skip, a broker, and one batch of Java scenarios per client generation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.cutting_proxy import CuttingProxy
from tests.interop.java_driver import Harness, ScenarioResult, run_scenarios
from tests.interop.maven import GENERATIONS, built, java_missing
from tests.interop.peers import Peer, kill_and_start, new_peer, peer_name, restart

Results = dict[str, ScenarioResult]


@pytest.fixture(scope="session")
def java() -> None:
    """Skips where Java or Maven is missing; with CI=true that is a failure."""
    missing = java_missing()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the Java interop suite needs Java 17 and Maven: {missing}")
        pytest.skip(f"Java interop suite not run: {missing}")


@pytest.fixture(scope="session")
def peer(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The broker under test, shared by the tests that keep to names of their own."""
    broker = new_peer(peer_name(), tmp_path_factory.mktemp("peer") / "broker", tls=True)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def run_generation(generation: str, folder: Path) -> Results:
    """All scenarios of one client generation against a broker of its own."""
    broker = new_peer(peer_name(), folder / "broker")
    broker.start()
    proxy = CuttingProxy(broker.port)
    try:
        return run_scenarios(generation, Harness(broker.url, proxy, lambda: restart(broker), lambda: kill_and_start(broker)), ["all"])
    finally:
        proxy.close()
        broker.stop()


@pytest.fixture(scope="session")
def batches(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Results]]]:
    """The batches of all generations, two at a time: most of their time is waiting."""
    built("java")
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run_generation, name, tmp_path_factory.mktemp(name)) for name in GENERATIONS}
