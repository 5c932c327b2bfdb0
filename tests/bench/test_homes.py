"""The table of home brokers.  The figures are not judged here."""

from __future__ import annotations

from tests.bench.homes_rows import FORWARDING, LOCAL, LOCAL_WAITING, OPENMQ, OPENMQ_SYNCED, REMOTE, homes_table
from tests.bench.report import render
from tests.bench.results import Results, Run

SETTINGS = {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}


def test_ratios_to_the_real_ones_and_to_the_other_cluster() -> None:
    runs = [Run("mqbroker", REMOTE, turn, {"per_second": rate}) for turn, rate in enumerate((8000, 10_000))]
    runs += [Run(OPENMQ, REMOTE, turn, {"per_second": 2000}) for turn in range(2)]
    runs += [Run(FORWARDING, REMOTE, turn, {"per_second": 20_000}) for turn in range(2)]
    [line] = homes_table(runs)[2:]
    assert "| 9,000 [8,000–10,000] | 2,000 [2,000–2,000] | 4.50 [4.00–5.00] reached | ≥ 4.0 |" in line
    assert "| 20,000 [20,000–20,000] | 0.45 [0.40–0.50] **not reached** | ≥ 0.8 |" in line


def test_where_each_answer_is_waited_for_both_forms_are_shown_without_a_target() -> None:
    runs = [Run("mqbroker", LOCAL_WAITING, 0, {"per_second": 3000}), Run(OPENMQ, LOCAL_WAITING, 0, {"per_second": 6000})]
    [line] = homes_table([*runs, Run(OPENMQ_SYNCED, LOCAL_WAITING, 0, {"per_second": 1000})])[2:]
    assert line.endswith("each answer waited for, msg/s | 3,000 | 6,000 | 0.50 |  | 1,000 | 3.00 |  |  |  |  |")


def test_the_page_has_the_table_when_something_was_measured() -> None:
    assert homes_table([Run("mqbroker", LOCAL, 0, error="it broke")]) == []
    text = render(Results("m", "c", SETTINGS, [Run("mqbroker", LOCAL, 0, {"per_second": 1.0})]))
    assert "### Home brokers" in text
    assert "Home brokers" not in render(Results("m", "c", SETTINGS, []))
