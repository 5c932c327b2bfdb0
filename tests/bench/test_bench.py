"""A tiny form of the benchmark: it runs, and its report is complete. The figures are not judged here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench import report
from tests.bench.__main__ import Plan, measure, render
from tests.bench.load_client import WORKLOADS, LoadFailed, LoadResult, parse_report
from tests.interop.maven import java_missing
from tests.interop.peers import peer_name


def sample(kind: str, time: int, *, warm_up: bool = False, count: int = 0) -> dict[str, object]:
    times = {"50": 1500, "99": 9000, "count": count}
    return {
        "sampleType": kind,
        "time": time,
        "warmup": warm_up,
        "result": "success",
        "totalReceived": count + 10,
        "totalTransferTime": times,
    }


def test_rate_counts_from_the_end_of_the_warm_up() -> None:
    found = parse_report([sample("interval", 1000, warm_up=True), sample("interval", 2000), sample("summary", 5000, count=8000)])
    assert found == LoadResult(messages=8000, total_messages=8010, per_second=2000.0, p50_ms=1.5, p99_ms=9.0)


def test_a_report_without_measurement_is_refused() -> None:
    with pytest.raises(LoadFailed, match="too short"):
        parse_report([sample("summary", 5000, count=8000)])
    with pytest.raises(LoadFailed, match="no successful summary"):
        parse_report([sample("interval", 1000, warm_up=True)])


def run(broker: str, rate: float) -> report.Run:
    return report.Run(broker, "w", LoadResult(1, 100, rate, 1.0, 2.0), cpu_seconds=2.0, resident_mib=10.0)


def test_ratio_is_taken_round_by_round() -> None:
    runs = [run("mqbroker", 50), run("artemis", 100), run("artemis", 50), run("mqbroker", 100)]
    line = next(line for line in report.workload_table(runs, ["mqbroker", "artemis"]) if "| mqbroker |" in line)
    assert "1.25 [0.50–2.00]" in line
    assert "| 50 [50–50] |" in line


def test_the_table_replaces_what_was_between_the_marks(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_into(document, "new")
    assert document.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="no marks"):
        report.write_into(document, "new")


def test_one_short_round(tmp_path: Path) -> None:
    missing = java_missing()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the benchmark needs Java 17 and Maven: {missing}")
        pytest.skip(f"benchmark not run: {missing}")
    plan = Plan([peer_name()], WORKLOADS[:1], rounds=1, seconds=2, warm_up_seconds=2)
    runs, starts = measure(plan, tmp_path)
    assert runs[0].load.messages > 0
    assert runs[0].cpu_seconds > 0
    assert "durable 1 KiB, 1 × 1" in render(plan, runs, starts, "quick")
