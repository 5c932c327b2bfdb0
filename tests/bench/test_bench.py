"""Parsing and reporting of the benchmark, and one tiny run of each load client. The figures are not judged here."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.packets.connection import TransportConfiguration
from tests.bench import amounts, clusters, plots, report, restart, runner, scaling
from tests.bench.__main__ import parsed, plan_of
from tests.bench.before import cost_table
from tests.bench.load_client import parse_report
from tests.bench.load_program import load_of
from tests.bench.results import Load, LoadFailed, Results, Run, load_results
from tests.bench.rows import FLOWS, TEN_MILLION, Perf, Program, Row, chosen
from tests.bench.runner import Plan, Runner
from tests.interop.maven import java_missing
from tests.interop.peers import peer_name

SETTINGS = {"rounds": 2, "seconds": 1, "warm_load": 1, "warm_broker": 0}
ROW = next(row for row in FLOWS if row.name == "durable-1KiB-1")
BLOCKING = next(row for row in FLOWS if row.beside_bare_loop)


def sample(kind: str, time: int, *, warm_up: bool = False, count: int = 0) -> dict[str, object]:
    return {
        "sampleType": kind,
        "time": time,
        "warmup": warm_up,
        "result": "success",
        "totalReceived": count + 10,
        "totalTransferTime": {"50": 1500, "99": 9000, "99.9": 12000, "count": count},
    }


def test_rate_counts_from_the_end_of_the_warm_up() -> None:
    found = parse_report([sample("interval", 1000, warm_up=True), sample("interval", 2000), sample("summary", 5000, count=8000)])
    assert found == Load(messages=8000, total_messages=8010, per_second=2000.0, p50_ms=1.5, p99_ms=9.0, p999_ms=12.0)


def test_a_report_without_measurement_is_refused() -> None:
    with pytest.raises(LoadFailed, match="too short"):
        parse_report([sample("summary", 5000, count=8000)])
    with pytest.raises(LoadFailed, match="no successful summary"):
        parse_report([sample("interval", 1000, warm_up=True)])
    with pytest.raises(LoadFailed, match="nothing was measured"):
        load_of({"messages": 0, "seconds": 2.0})


def run(broker: str, rate: float, turn: int = 0, row: str = ROW.name, **more: float) -> Run:
    usual = {"per_second": rate, "per_cpu_second": rate, "p50_ms": 1.0, "p99_ms": 2.0, "p999_ms": 3.0, "resident_mib": 10.0}
    return Run(broker, row, turn, {**usual, **more})


def rendered(*runs: Run) -> str:
    """What is printed: the document's part, then the figures behind it."""
    results = Results("a machine", "a command", SETTINGS, runs)
    return f"{report.render(results)}\n\n{report.absolute(results)}"


def line_of(text: str, *words: str) -> str:
    return next(line for line in text.splitlines() if all(word in line for word in words))


def test_cost_beside_an_earlier_state_is_taken_round_by_round() -> None:
    runs = [
        Run(broker, ROW.name, turn, {"per_cpu_second": rate})
        for broker, turn, rate in (("mqbroker", 0, 20_000), ("before", 0, 40_000), ("mqbroker", 1, 50_000), ("before", 1, 50_000))
    ]
    assert line_of(cost_table(runs), ROW.title) == f"| {ROW.title} | 22.5 | 35.0 | 1.500 [1.000–2.000] |"


def test_ratio_is_taken_round_by_round() -> None:
    text = rendered(run("mqbroker", 50), run("artemis", 100), run("artemis", 50, 1), run("mqbroker", 100, 1))
    line = line_of(text, ROW.title, "≥ 1.0")
    assert "| 1.25 [0.50–2.00] reached | ≥ 1.0 | 1.25 [0.50–2.00] **not reached** | ≥ 1.5 |" in line
    assert "| 1.00 [1.00–1.00] **not reached** |" in line.removesuffix(" ") + "|"
    assert "75 [50–100]" in line_of(text, ROW.title, "| mqbroker |")


def test_a_failed_round_is_told_and_left_out() -> None:
    text = rendered(run("mqbroker", 50), run("artemis", 50), run("artemis", 50, 1), Run("mqbroker", ROW.name, 1, error="it\nbroke"))
    assert "| 1.00 reached |" in line_of(text, ROW.title, "≥ 1.0")
    assert f"- {ROW.name}, mqbroker, round 2: it broke" in text


def test_one_broker_alone_has_figures_and_no_verdict() -> None:
    text = rendered(run("mqbroker", 50))
    assert "reached" not in text
    assert "| 50 | 50 | 1.00 | 2.00 | 3.00 | 10 |" in text


def test_the_compiled_form_has_lines_of_its_own_and_leaves_the_others_alone() -> None:
    starts = [
        Run(broker, "start", 0, {"start_s": seconds})
        for broker, seconds in (("mqbroker", 0.4), ("mqbroker-compiled", 1.0), ("artemis", 4.0))
    ]
    pure = [run("mqbroker", 50), run("artemis", 100), starts[0], starts[2]]
    text = rendered(*pure, run("mqbroker-compiled", 120), starts[1])
    alone = rendered(*pure)
    assert "compiled" not in alone
    assert {line for line in alone.splitlines() if line.startswith(f"| {ROW.title} |")} <= set(text.splitlines())
    assert "| 1.20 reached |" in line_of(text, f"{ROW.title}: compiled")
    assert "| 120 | 120 |" in line_of(text, ROW.title, "| mqbroker (compiled) |")
    assert "| 0.40 | 1.00 | 4.00 | 0.10 reached | 0.25 **not reached** | ≤ 0.2 |" in text


def test_the_compiled_form_is_measured_when_it_is_asked_for() -> None:
    usual = ["--rows", "start", "--from", "results.json"]
    assert plan_of(parsed(usual)).brokers == ["mqbroker", "artemis"]
    assert plan_of(parsed([*usual, "--compiled"])).brokers == ["mqbroker", "artemis", "mqbroker-compiled"]


def test_the_bare_loop_may_replace_the_ratio() -> None:
    runs = [run("mqbroker", 80, row=BLOCKING.name), run("artemis", 50, row=BLOCKING.name)]
    assert report.throughput(runs, BLOCKING).reached is False
    runs.append(run("disk", 100, row=BLOCKING.name))
    assert report.throughput(runs, BLOCKING).reached is True
    assert "has 80%" in rendered(*runs)


def test_amounts_have_their_own_targets() -> None:
    runs = [
        Run("mqbroker", "start", 0, {"start_s": 0.4, "resident_mib": 60}),
        Run("artemis", "start", 0, {"start_s": 4, "resident_mib": 200}),
    ]
    text = rendered(*runs)
    assert "| 0.40 | 4.00 | 0.10 reached | ≤ 0.2 |" in text
    assert "| 60 | 200 | 0.30 **not reached** | ≤ 0.25 |" in text
    paged = Run("mqbroker", TEN_MILLION, 0, {"put_per_second": 1.0, "drain_per_second": 1.0, "peak_mib": 301.0, "count": 1e7})
    assert "301 MiB, target below 300 MiB: **not reached**" in rendered(paged)


def test_results_can_be_read_again(tmp_path: Path) -> None:
    results = Results("a machine", "a command", SETTINGS, [run("mqbroker", 50), Run("artemis", ROW.name, 0, error="it broke")])
    results.save(tmp_path / "kept" / "results.json")
    assert load_results(tmp_path / "kept" / "results.json") == results


def test_pictures_are_well_formed_and_show_every_row() -> None:
    runs = [run("mqbroker", 50), run("artemis", 100), run("mqbroker", 80, row=BLOCKING.name), run("artemis", 50, row=BLOCKING.name)]
    made = plots.pictures(runs)
    assert list(made) == ["throughput.svg", "per-cpu-second.svg", "memory.svg"]
    for text in made.values():
        drawn = ElementTree.fromstring(text)
        assert len(drawn.findall("{*}rect")) == 2
    assert plots.pictures([run("mqbroker", 50)]) == {}


def test_a_long_label_begins_within_the_picture() -> None:
    label = "a row with a title that says in many words what is measured, and with how many producers and consumers"
    texts = ElementTree.fromstring(plots.bars("title", [plots.Bar(label, [1.0], 1.0, True)])).findall("{*}text")
    (ends_at,) = (float(text.get("x", "")) for text in texts if text.text == label)
    assert ends_at >= 6.5 * len(label)  # pixels; letters of 12px sans-serif are about 6 wide


def test_unknown_rows_are_named() -> None:
    assert [row.name for row in chosen("large, start")[0]] == ["large"]
    assert chosen("large, start")[1] == ["start"]
    with pytest.raises(ValueError, match="no row lage; there are: durable-100B-1"):
        chosen("lage")


def test_the_table_replaces_what_was_between_the_marks(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_into(document, "new")
    assert document.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="no marks"):
        report.write_into(document, "new")


def test_the_whole_plan_takes_little_more_than_half_an_hour() -> None:
    flows, wanted = chosen(None)
    assert Plan(["mqbroker", "artemis"], flows, wanted).estimate() <= 34 * 60


def test_the_bare_loop_measures_the_disk(tmp_path: Path) -> None:
    found = amounts.bare_loop(tmp_path, 0.05)
    assert found["per_second"] > 0
    assert list(tmp_path.iterdir()) == []


class FailingProgram:
    """A load program whose first workload fails."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(
        self, url: str, workload: str, options: Mapping[str, int], limit: float, on_event: Callable[[str, Mapping[str, Any]], None]
    ) -> dict[str, Any]:
        self.asked.append(workload)
        if len(self.asked) == 1:
            raise LoadFailed("no luck")
        on_event("measuring", {})
        on_event("measured", {})
        return {"messages": 10, "seconds": 1.0, "p50_ms": 1.0, "p99_ms": 1.0, "p999_ms": 1.0}

    def stop(self) -> None:
        """Nothing runs."""


def test_a_failing_row_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = FailingProgram()
    monkeypatch.setattr(runner, "LoadProgram", lambda: program)
    plain = [Row(name, name, True, Program(name)) for name in ("one", "two")]
    done = Runner(Plan(["mqbroker"], plain, [], rounds=1, seconds=1, warm_load=1, warm_broker=0), tmp_path, lambda: None)
    done.run()
    assert [(each.row, each.error) for each in done.runs] == [("one", "LoadFailed: no luck"), ("two", "")]
    assert done.runs[1].figures["per_second"] == 10.0


def test_one_short_round(tmp_path: Path) -> None:
    missing = java_missing()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the benchmark needs Java 17 and Maven: {missing}")
        pytest.skip(f"benchmark not run: {missing}")
    request_reply = next(row for row in FLOWS if row.name == "request-reply")
    sizes = amounts.Sizes(connections=4, queues=4, messages=200)
    plan = Plan([peer_name()], [ROW, request_reply], ["start", "idle", "queues", "million"], 1, 4, 4, 0, sizes)
    done = Runner(plan, tmp_path, lambda: None)
    done.run()
    assert [each.error for each in done.runs] == [""] * 6
    assert done.runs[3].figures["per_cpu_second"] > 0
    assert isinstance(ROW.load, Perf)
    text = report.render(Results("m", "c", SETTINGS, [replace(each, broker="mqbroker") for each in done.runs]))
    assert all(title in text for title in (ROW.title, request_reply.title, "restart with a million messages"))


def test_the_scaling_tables_have_a_line_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    scaling.main(["--sizes", "5,10", "--members", "1,2"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in printed if line.startswith("| ") and line[2].isdigit()] == ["5", "10", "5", "10", "1", "2"]


class Member:
    """A member of a cluster that says of others what it is told to say."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]

    def tell(self, *changes: tuple[str, bool]) -> None:
        connection = self.listener.accept()[0]
        for node, gone in changes:
            packet = wire.ClusterTopologyV4(gone, node, primary=TransportConfiguration("n", "f", {}))
            connection.sendall(frame(packet.TYPE, 0, wire.encode_packet(packet, clusters.TOPOLOGY_VERSION)))


def test_the_watch_waits_for_every_member() -> None:
    first, second = Member(), Member()
    with clusters.Watch() as watch:
        watch.add(first.port)
        watch.add(second.port)
        first.tell(("a", False), ("b", False), ("b", True), ("c", False))
        second.tell(("a", False))
        with pytest.raises(TimeoutError, match="2 members should name 2 nodes"):
            watch.wait(2, 2, seconds=0.2)
    with clusters.Watch() as watch:
        watch.add(first.port)
        first.tell(("a", False), ("b", False), ("b", True), ("c", False))
        watch.wait(1, 2)
    first.listener.close()
    second.listener.close()


def test_clusters_add_four_minutes_at_most() -> None:
    flows, wanted = chosen("cluster-2,cluster-3,membership")
    alone = Plan(["mqbroker", "artemis"], flows, wanted)
    nothing = Plan(["mqbroker", "artemis"], [], [])
    assert alone.estimate() - nothing.estimate() <= 4 * 60


def test_a_start_with_a_full_journal_is_measured(tmp_path: Path) -> None:
    figures = restart.main(["--messages", "300", "--queues", "2", "--rounds", "1", "--folder", str(tmp_path / "store")])
    assert [each["messages"] for each in figures] == [300]
    assert figures[0]["cpu_seconds"] > 0


def test_the_table_of_spark() -> None:
    def measured(name: str, rate: float, **more: float) -> Run:
        return Run("mqbroker", name, 0, {"messages": 1000, "per_second": rate, **more})

    text = rendered(
        measured("spark-source-all-100-2", 70_000, broker_us=3, worker_us=5, jvm_us=2, broker_mib=80, worker_mib=120, jvm_mib=600),
        measured("spark-source-two-100-2", 70_000),
        measured("spark-sink-transactions-1024-1", 9_000),
        measured("spark-client-send-100", 5_000),
        Run("mqbroker", "spark-rate-100-1", 0, error="it broke"),
    )
    assert "| 1,000 | 70,000 | ≥ 60,000 reached | 3.0 | 5.0 | 2.0 | 80 | 120 | 600 |" in line_of(
        text, "source, all columns, 100 B", "local[2]"
    )
    assert "≥ 150,000 **not reached**" in line_of(text, "source, body and id only, 100 B", "local[2]")
    assert "| local[1] | 1,000 | 9,000 |  |" in line_of(text, "sink, transactions, durable 1 KiB")
    assert "5,000" in line_of(text, "our client in Python sends, durable 100 B")
    assert "it broke" in line_of(text, "spark-rate-100-1")
