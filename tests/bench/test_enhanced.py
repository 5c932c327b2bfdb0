"""The table of enhanced clusters.  The figures are not judged here."""

from __future__ import annotations

from tests.bench.enhanced_rows import KILL, LOCAL, MILLION, enhanced_table
from tests.bench.homes_rows import OPENMQ
from tests.bench.report import render
from tests.bench.results import Results, Run

SETTINGS = {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}


def test_ratios_to_the_real_ones() -> None:
    runs = [Run("mqbroker", LOCAL, 0, {"per_second": 8000}), Run(OPENMQ, LOCAL, 0, {"per_second": 1000})]
    runs += [Run("mqbroker", KILL, 0, {"gap_s": 6.0}), Run(OPENMQ, KILL, 0, {"gap_s": 10.0})]
    rows = enhanced_table(runs)[2:]
    assert [row.split("|", 2)[2] for row in rows] == [
        " 8,000 | 1,000 | 8.00 reached | ≥ 4.0 |",
        " 6.00 | 10.00 | 0.60 **not reached** | ≤ 0.5 |",
    ]


def test_the_takeover_of_many_messages_is_judged_by_itself() -> None:
    rows = enhanced_table([Run("mqbroker", MILLION, 0, {"first_s": 0.9, "growth_mib": 80.0})])[2:]
    assert [row.split("|", 2)[2] for row in rows] == [" 0.90 |  |  | mqbroker ≤ 2 reached |", " 80 |  |  | mqbroker ≤ 64 **not reached** |"]


def test_the_page_has_the_table_when_something_was_measured() -> None:
    assert enhanced_table([Run("mqbroker", LOCAL, 0, error="it broke")]) == []
    text = render(Results("m", "c", SETTINGS, [Run("mqbroker", LOCAL, 0, {"per_second": 1.0})]))
    assert "### Enhanced clusters" in text
    assert "Enhanced clusters" not in render(Results("m", "c", SETTINGS, []))
