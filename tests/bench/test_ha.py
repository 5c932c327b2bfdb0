"""The table of pairs, and one tiny run with a pair of ours. The figures are not judged here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench import ha
from tests.bench.ha_rows import ALONE, BLOCKING, COPY, FLOW, KILL, KILL_ZOOKEEPER, LINES, MILLION, SILENT, STOP_ZOOKEEPER, ha_table
from tests.bench.load_program import LoadProgram
from tests.bench.report import render
from tests.bench.results import Results, Run
from tests.interop.ha.pairs import REPLICATION, Pair
from tests.interop.maven import java_missing

SETTINGS = {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}


def line_of(runs: list[Run], words: str) -> str:
    return next(line for line in ha_table(runs) if words in line)


def test_a_ratio_to_artemis_and_one_to_a_broker_alone() -> None:
    runs = [Run("mqbroker", FLOW[REPLICATION], turn, {"per_second": rate}) for turn, rate in enumerate((3000, 6000))]
    runs += [Run("artemis", FLOW[REPLICATION], turn, {"per_second": 3000}) for turn in range(2)]
    runs += [Run("mqbroker", ALONE[REPLICATION], turn, {"per_second": 10_000}) for turn in range(2)]
    line = line_of(runs, "replicated, durable")
    assert "| 4,500 [3,000–6,000] | 3,000 [3,000–3,000] | 1.50 [1.00–2.00] reached | ≥ 1.5 |" in line
    assert "| 10,000 [10,000–10,000] | 0.45 [0.30–0.60] **not reached** | ≥ 0.7 |" in line


def test_shorter_is_better_where_clients_wait() -> None:
    runs = [Run(name, MILLION, 0, {"gap_s": gap}) for name, gap in (("mqbroker", 3.0), ("artemis", 4.0))]
    assert "| 3.00 | 4.00 | 0.75 **not reached** | ≤ 0.7 |" in line_of(runs, "a million")


def test_a_limit_of_the_figure_itself() -> None:
    runs = [Run("mqbroker", SILENT, 0, {"gap_s": 4.5}), Run("mqbroker", COPY, 0, {"copy_s": 9.0, "more_ms": 250.0})]
    assert "| 4.50 |  |  | mqbroker ≤ 5 reached |" in line_of(runs, "silent death")
    assert "| 250 |  |  | mqbroker ≤ 200 **not reached** |" in line_of(runs, "longest send")


def test_the_page_has_the_table_when_something_was_measured() -> None:
    assert ha_table([]) == []
    text = render(Results("m", "c", SETTINGS, [Run("artemis", BLOCKING, 0, {"per_second": 5.0, "p99_ms": 2.0})]))
    assert "### High availability" in text
    assert "High availability" not in render(Results("m", "c", SETTINGS, []))


def test_every_row_has_a_line() -> None:
    shown = {line.row for line in LINES} | {line.alone for line in LINES}
    assert {BLOCKING, COPY, KILL_ZOOKEEPER, MILLION, SILENT, STOP_ZOOKEEPER, *ALONE.values(), *FLOW.values(), *KILL.values()} <= shown


def test_a_replicated_pair_is_measured_and_killed(tmp_path: Path) -> None:
    missing = java_missing()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the benchmark needs Java 17 and Maven: {missing}")
        pytest.skip(f"benchmark not run: {missing}")
    program = LoadProgram()
    try:
        with Pair(REPLICATION, "mqbroker", tmp_path / "pair", make=ha.created(tmp_path)) as pair:
            pair.start()
            flow = ha.flow(program, pair.brokers, 1, 1)
            killed = ha.take_over(program, pair)
    finally:
        program.stop()
    assert flow["active_us"] > 0
    assert flow["passive_us"] > 0
    assert 0 < killed["gap_s"] < ha.LIMIT_SECONDS
