"""Rows that need a network namespace."""

from __future__ import annotations

import pytest

from tests.bench import inside
from tests.bench.results import Run
from tests.interop.imq import namespace


def test_without_a_namespace_each_row_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[str]:
        raise namespace.NoNamespace("not allowed")

    monkeypatch.setattr(inside, "distribution", lambda: None)
    monkeypatch.setattr(inside, "classes", lambda generation: None)
    monkeypatch.setattr(namespace, "way_in", refused)
    runs: list[Run] = []
    inside.measure_inside("tests.bench.homes", ["one", "other"], "openmq", [], runs.append)
    error = "there is no network namespace: not allowed"
    assert [(run.broker, run.row, run.error) for run in runs] == [("openmq", "one", error), ("openmq", "other", error)]
