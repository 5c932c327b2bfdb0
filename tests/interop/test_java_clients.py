"""Unmodified Java clients of four generations: every scenario of tests/interop/java against the broker under test."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.interop.java_driver import ScenarioResult, scenario_names
from tests.interop.maven import GENERATIONS, HERE

SCENARIOS = (HERE / "java" / "scenarios.txt").read_text().split()


def test_the_list_names_every_scenario(java: None) -> None:
    assert scenario_names(GENERATIONS[0]) == SCENARIOS


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, generation: str, batches: dict[str, Future[dict[str, ScenarioResult]]]) -> None:
    results = batches[generation].result()
    assert scenario in results, f"the run ended before this scenario; it did {list(results)}"
    assert results[scenario].ok, results[scenario].error
