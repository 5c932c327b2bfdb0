"""The table of ``exactlyOnce``, and one tiny run with a broker of ours. The figures are not judged here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bench import once
from tests.bench.once import LINES, QUICK, WITH, WITHOUT, Sizes, Watch, once_table
from tests.bench.report import render
from tests.bench.results import Results, Run

SETTINGS = {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}


def test_a_ratio_of_the_same_round() -> None:
    runs = [Run("mqbroker", "once-blocking", turn, {WITH: rate, WITHOUT: 1000.0}) for turn, rate in enumerate((700.0, 850.0, 900.0))] + [
        Run("artemis", "once-blocking", 0, {WITH: 600.0, WITHOUT: 1000.0})
    ]
    [line] = once_table(runs)[2:]
    assert "| 850 [700–900] | 1,000 [1,000–1,000] | 0.85 [0.70–0.90] reached | ≥ 0.8 | 600 | 1,000 | 0.60 |" in line


def test_a_target_that_is_missed_says_so() -> None:
    [line] = once_table([Run("mqbroker", "once-transacted", 0, {WITH: 80.0, WITHOUT: 100.0})])[2:]
    assert "0.80 **not reached** | ≥ 0.9 |" in line


def test_the_page_has_the_table_when_something_was_measured() -> None:
    assert once_table([Run("mqbroker", "once-blocking", 0, error="it broke")]) == []
    text = render(Results("m", "c", SETTINGS, [Run("mqbroker", "once-handler", 0, {WITH: 1.0, WITHOUT: 1.0})]))
    assert "### Exactly once" in text
    assert "Exactly once" not in render(Results("m", "c", SETTINGS, []))


def test_the_measured_time_begins_after_the_first_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(once, "time", SimpleNamespace(monotonic=lambda: now))
    watch = Watch(Sizes(seconds=2.0, warm=1.0))
    for moment, messages in ((105.0, 1), (105.5, 7), (107.0, 3), (108.0, 5), (109.0, 9)):
        now = moment
        watch.confirmed(messages)
    assert (watch.over, watch.rate) == (True, 4.0)


def test_one_short_round_of_ours(tmp_path: Path) -> None:
    runs: list[Run] = []
    once.measure(tmp_path, 1, QUICK, runs.append, ["mqbroker"])
    assert [run.row for run in runs] == [line.row for line in LINES]
    for run in runs:
        assert run.error == ""
        assert min(run.figures[WITH], run.figures[WITHOUT]) > 0
