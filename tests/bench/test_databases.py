"""The table of databases, and one tiny run of ours.  The figures are not judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import databases
from tests.bench.databases import ARTEMIS, FILES, LINES, PERSISTENT, QUICK, databases_table
from tests.bench.report import render
from tests.bench.results import Results, Run
from tests.interop.maven import java_missing
from tests.support.postgresql import refuse_without

SETTINGS = {"rounds": 0, "seconds": 0, "warm_load": 0, "warm_broker": 0}
ROW = "database-blocking-16"


def test_ratios_to_artemis_and_to_files() -> None:
    runs = [Run("mqbroker", ROW, turn, {"per_second": rate}) for turn, rate in enumerate((1000.0, 1200.0))]
    runs += [Run(ARTEMIS, ROW, turn, {"per_second": 500.0}) for turn in range(2)]
    runs += [Run(FILES, ROW, turn, {"per_second": 4000.0}) for turn in range(2)]
    [line] = databases_table(runs)[2:]
    assert line.endswith(
        "| 1,100 [1,000–1,200] | 500 [500–500] | 2.20 [2.00–2.40] reached | ≥ 2.0 | 4,000 [4,000–4,000] | 0.28 [0.25–0.30] |"
    )


def test_the_page_has_the_table_when_something_was_measured() -> None:
    assert databases_table([Run("mqbroker", ROW, 0, error="it broke")]) == []
    text = render(Results("m", "c", SETTINGS, [Run("mqbroker", ROW, 0, {"per_second": 1.0})]))
    assert "### A database" in text
    assert "### A database" not in render(Results("m", "c", SETTINGS, []))


def test_artemis_gets_the_database_and_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Made:
        def __init__(self, folder: Path, *, as_created: bool) -> None:
            for name in ("etc", "lib"):
                (folder / name).mkdir(parents=True)
            (folder / "etc" / "broker.xml").write_text(f"<core>{PERSISTENT}</core>")

    driver = tmp_path / "driver.jar"
    driver.write_text("")
    monkeypatch.setattr(databases, "ArtemisBroker", Made)
    monkeypatch.setattr(databases, "postgresql_driver", lambda: driver)
    databases.new_peer(ARTEMIS, tmp_path / "a", "jdbc:postgresql://h:1/d?user=tests")
    text = (tmp_path / "a" / "etc" / "broker.xml").read_text()
    assert "<jdbc-connection-url>jdbc:postgresql://h:1/d?user=tests</jdbc-connection-url><jdbc-driver-class-name>" in text
    assert (tmp_path / "a" / "lib" / "driver.jar").exists()


def test_one_short_round_of_ours(tmp_path: Path) -> None:
    refuse_without()
    if java_missing() is not None:
        pytest.skip(f"the load client needs Java: {java_missing()}")
    runs: list[Run] = []
    databases.measure(tmp_path, 1, QUICK, runs.append, ["mqbroker"])
    assert [run.row for run in runs] == [line.row for line in LINES]
    for run in runs:
        assert run.error == ""
        assert run.figures["per_second"] > 0
