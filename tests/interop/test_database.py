"""The Java client's basic programs on brokers that keep their messages in a database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.instance import Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.test_late_store import basic_programs, failures_of
from tests.support.postgresql import common_server

Failures = dict[str, str]


def on_sqlite(folder: Path) -> Failures:
    return failures_on("jdbc:sqlite:data/mq.db", folder)


def on_postgresql(folder: Path) -> Failures:
    return failures_on(f"jdbc:{common_server().database(timeout=20_000).name}?user=tests", folder)


def failures_on(url: str, folder: Path) -> Failures:
    store = f"<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url></database-store></store>"
    return failures_of(MqbrokerProcess(folder / "broker", Additions(core=store)), basic_programs())


@pytest.fixture(scope="module")
def runs(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Future[Failures]]]:
    """Both run side by side: most of their time is waiting."""
    with ThreadPoolExecutor(2) as pool:
        yield [pool.submit(run, tmp_path_factory.mktemp(run.__name__)) for run in (on_sqlite, on_postgresql)]


def test_sqlite(runs: list[Future[Failures]]) -> None:
    assert runs[0].result() == {}


def test_postgresql(runs: list[Future[Failures]]) -> None:
    assert runs[1].result() == {}
