"""The programs of the pages about Spark run as they stand, on one session; only places and logins are those of the test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.examples.code_blocks import NOT_RUN, SPARK_PAGES, blocks_of
from tests.spark.support import PASSWORD, ROOT, USER, MqbrokerProcess, context, message_count, new_broker, send_numbered
from tests.spark.test_jobs import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MqbrokerProcess]:
    """A broker of its own for each page: all pages have a queue ``orders``."""
    own = new_broker(tmp_path / "broker")
    own.start()
    try:
        yield own
    finally:
        own.stop()


class Page:
    """A page whose programs are run one after the other, in one namespace."""

    def __init__(self, name: str, spark: SparkSession, broker: MqbrokerProcess, folder: Path) -> None:
        self.name = name
        self.places = {
            "tcp://localhost:61616": f"{broker.url}?user={USER}&password={PASSWORD}",
            "/data/": f"{folder}/",
            "/run/secrets/broker": str(folder / "secret"),
            "/var/lib/mybroker/data": str(broker.folder / "data"),
            '"spark"': f'"{USER}"',
        }
        (folder / "secret").write_text(f"{PASSWORD}\n")
        self.names: dict[str, Any] = {"spark": spark, "url": self.places["tcp://localhost:61616"]}
        page = ROOT / name if "/" in name else ROOT / "docs" / name
        self._left = {block.first_line: block.text for block in blocks_of(page) if block.left_out}

    def text(self, beginning: str) -> str:
        """The block whose first line begins so, with the places of the test; each can be had once."""
        (found,) = (line for line in self._left if line.startswith(beginning))
        text = self._left.pop(found)
        for place, ours in self.places.items():
            text = text.replace(place, ours)
        return text

    def run(self, beginning: str) -> None:
        exec(compile(self.text(beginning), self.name, "exec"), self.names)

    def check_that_all_have_run(self) -> None:
        assert [line for line in self._left if NOT_RUN[self.name][line] == SPARK_PAGES] == []


def test_reading_streaming_writing(
    spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Page("spark.md", spark, broker, tmp_path)
    with context(broker.url) as jms:
        jms.create_producer().send("queue://orders", '{"product": "apples", "amount": 1.5}')
    page.run("import os")
    assert '|{"product": "appl...|' in capsys.readouterr().out
    page.run("from mqspark.settling")
    page.run("query = (")
    page.names["query"].processAllAvailable()
    page.names["query"].stop()
    page.names["settling"].close()
    assert spark.read.parquet(str(tmp_path / "orders")).collect()[0].asDict() == {"product": "apples", "amount": 1.5}
    offsets = json.loads((tmp_path / "orders-checkpoint" / "offsets" / "0").read_text().splitlines()[-1])
    assert set(json.loads(page.text('{"version"'))) <= set(offsets)
    settled = page.text("$ python -m mqspark settle").split()[4:]
    status, out, err = run(broker.url, tmp_path, *settled[: settled.index("--url")])
    assert status == 0, out + err
    page.names["frame"] = spark.createDataFrame([("apples", 1.5)], "product string, amount double")
    page.run("frame.selectExpr")
    assert message_count(broker.url, "totals") == 1
    spark.sql(page.text("CREATE TEMPORARY VIEW"))
    assert spark.sql("SELECT count(*) FROM orders").collect()[0][0] == message_count(broker.url, "orders")
    page.check_that_all_have_run()


def test_jobs_from_python(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("spark-jobs.md", spark, broker, tmp_path)
    send_numbered(broker.url, "orders", 5)
    page.run("from mqspark.jobs")
    assert re.match(r"\d+ ", capsys.readouterr().out)
    page.run("spark.read.parquet")
    page.check_that_all_have_run()


def test_the_journal(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("spark-journal.md", spark, broker, tmp_path)
    page.run("journal = ")
    assert "queue" in capsys.readouterr().out
    page.check_that_all_have_run()


def test_the_page_of_the_package(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    page = Page("clients/mqspark/README.md", spark, broker, tmp_path)
    send_numbered(broker.url, "orders", 5)
    page.run("orders = ")
    page.names["query"].processAllAvailable()
    page.names["query"].stop()
    assert message_count(broker.url, "totals") == 5
    page.check_that_all_have_run()
