"""The Java client's basic programs on brokers that keep their messages in a database."""

from __future__ import annotations

from pathlib import Path

from tests.interop.instance import Additions
from tests.interop.mqbroker_process import MqbrokerProcess
from tests.interop.test_late_store import basic_programs, failures_of
from tests.support.postgresql import common_server


def store(url: str) -> Additions:
    return Additions(core=f"<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url></database-store></store>")


def test_sqlite(java: None, tmp_path: Path) -> None:
    assert failures_of(MqbrokerProcess(tmp_path / "broker", store("jdbc:sqlite:data/mq.db")), basic_programs()) == {}


def test_postgresql(java: None, tmp_path: Path) -> None:
    url = f"jdbc:{common_server().database(timeout=20_000).name}?user=tests"
    assert failures_of(MqbrokerProcess(tmp_path / "broker", store(url)), basic_programs()) == {}
