"""``spark.readStream.format("mqbroker")`` against a real broker: batches, settling, restarts, fencing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mqspark.options import Options, Use
from mqspark.settling import install, settle_checkpoint
from tests.spark.support import MqbrokerProcess, login, message_count, new_cluster, send_numbered, wait_for_members

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SECONDS = 240.0
"""Long enough for a machine on which everything else runs, too; nothing waits so long that goes well."""
TOLD_SECONDS = 60.0
"""Within which a user is told at the very latest what is wrong; on a machine without other work it is seconds."""


def stream(spark: SparkSession, url: str, **options: str) -> DataFrame:
    columns = {} if "columns" in options else {"columns": "message_id,node_id,properties"}
    return spark.readStream.format("mqbroker").options(**{**login(url), **columns, **options}).load()


def into(frame: DataFrame, folder: Path) -> DataStreamWriter:
    numbered = frame.selectExpr("properties['number']::long as number")
    writer = numbered.writeStream.format("parquet").option("path", str(folder / "out"))
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def available(writer: DataStreamWriter) -> StreamingQuery:
    """Run until everything that is there now is read."""
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(int(SECONDS))
    return query


def written(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row.number for row in spark.read.parquet(str(folder / "out")).collect())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_runs_that_read_what_is_there(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    send_numbered(broker.url, "stream.runs", 1000)
    query = available(into(stream(spark, broker.url, queue="stream.runs", maxMessagesPerTrigger="400"), tmp_path))
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [400, 400, 200]
    assert written(spark, tmp_path) == list(range(1000))
    send_numbered(broker.url, "stream.runs", 500, first=1000)
    available(into(stream(spark, broker.url, queue="stream.runs", maxBytesPerTrigger="64k"), tmp_path))
    assert written(spark, tmp_path) == list(range(1500))
    assert message_count(broker.url, "stream.runs") == 0


def test_a_query_that_is_stopped_and_the_two_ways_to_settle_its_last_batch(
    spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path
) -> None:
    send_numbered(broker.url, "stream.settled", 100)
    checkpoint = tmp_path / "checkpoint"
    writer = into(stream(spark, broker.url, queue="stream.settled"), tmp_path).trigger(processingTime="1 hour")
    query = writer.start()
    until(lambda: query.lastProgress is not None and query.lastProgress.numInputRows == 100)
    query.stop()
    assert message_count(broker.url, "stream.settled") == 100
    options = Options.parse(login(broker.url), Use.JOB)
    (planned,) = settle_checkpoint(str(checkpoint), options, dry_run=True)
    assert (planned.messages, planned.problem, message_count(broker.url, "stream.settled")) == (100, None, 100)
    (settled,) = settle_checkpoint(checkpoint.as_uri(), options, spark=spark)
    assert (settled.messages, settled.problem, message_count(broker.url, "stream.settled")) == (100, None, 0)

    send_numbered(broker.url, "stream.settled", 100, first=100)
    listener = install(spark, login(broker.url))
    try:
        query = writer.start()
        until(lambda: message_count(broker.url, "stream.settled") == 0)
        assert (checkpoint / "commits" / "1").exists()
        query.stop()
    finally:
        listener.close()
    assert written(spark, tmp_path) == list(range(200))


def test_a_batch_that_fails_is_read_again_as_it_was(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    send_numbered(broker.url, "stream.again", 50)
    seen: dict[int, list[int]] = {}

    def sink(frame: DataFrame, batch: int) -> None:
        numbers = sorted(row.number for row in frame.collect())
        if batch not in seen and batch == 0:
            seen[batch] = numbers
            raise RuntimeError("the sink is full")
        assert seen.get(batch, numbers) == numbers
        seen[batch] = numbers

    def run() -> StreamingQuery:
        frame = stream(spark, broker.url, queue="stream.again", startingOffsets="earliest", minPartitions="3")
        numbered = frame.selectExpr("properties['number']::long as number")
        writer = numbered.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return available(writer)

    with pytest.raises(Exception, match="the sink is full"):
        run()
    send_numbered(broker.url, "stream.again", 25, first=50)
    assert message_count(broker.url, "stream.again") == 75
    run()
    assert seen == {0: list(range(50)), 1: list(range(50, 75))}
    assert message_count(broker.url, "stream.again") == 0


def test_two_queries_with_one_reader(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    send_numbered(broker.url, "stream.two", 20)
    frames = [stream(spark, broker.url, queue="stream.two", readerName="one", maxMessagesPerTrigger="10") for _ in range(2)]
    first = into(frames[0], tmp_path / "first").trigger(processingTime="1 second").start()
    until(lambda: bool(first.recentProgress))
    available(into(frames[1], tmp_path / "second"))
    begun = time.monotonic()
    with pytest.raises(Exception, match=r"FencedError.*was opened by another one"):
        first.awaitTermination(int(SECONDS))
    assert time.monotonic() - begun < TOLD_SECONDS
    assert set(written(spark, tmp_path / "first")) | set(written(spark, tmp_path / "second")) == set(range(20))


def test_a_subscription_on_every_node_and_a_node_that_goes_and_returns(spark: SparkSession, tmp_path: Path) -> None:
    brokers = new_cluster(tmp_path)
    for each in brokers:
        each.start()
    try:
        wait_for_members(brokers[0].url, 2)
        frame = stream(spark, brokers[0].url, topic="stream.news", subscription="spark", selector="number >= 0")
        available(into(frame, tmp_path))
        for number, each in enumerate(brokers):
            send_numbered(each.url, "topic://stream.news", 100, first=number * 100)
        available(into(frame, tmp_path))
        assert written(spark, tmp_path) == list(range(200))
        assert [message_count(each.url, "spark") for each in brokers] == [0, 0]
        brokers[1].stop()
        wait_for_members(brokers[0].url, 1)
        send_numbered(brokers[0].url, "topic://stream.news", 50, first=200)
        available(into(frame, tmp_path))
        assert written(spark, tmp_path) == list(range(250))
        brokers[1].start()
        wait_for_members(brokers[0].url, 2)
        send_numbered(brokers[1].url, "topic://stream.news", 50, first=250)
        query = available(into(frame, tmp_path))
        assert written(spark, tmp_path) == list(range(300))
        assert [message_count(each.url, "spark") for each in brokers] == [0, 0]
        progress = query.lastProgress
        assert progress is not None
        report = json.loads(progress.sources[0].latestOffset)
        # The brokers share their messages again as soon as they have found each other.
        assert (report["notSettled"], sum(queues["spark"] for queues in report["messages"].values())) == (50, 50)
    finally:
        for each in brokers:
            each.stop()


def test_what_is_wrong_is_said_within_seconds_and_settles_nothing(spark: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    send_numbered(broker.url, "stream.wrong", 5)

    def failing(number: int, **options: str) -> str:
        given = {"queue": "stream.wrong", **options}
        frame = stream(spark, given.pop("url", broker.url), **given)
        begun = time.monotonic()
        with pytest.raises(Exception) as caught:
            available(into(frame, tmp_path / str(number)))
        assert time.monotonic() - begun < TOLD_SECONDS
        return str(caught.value)

    assert "there is no queue stream.none on any node" in failing(1, queue="stream.none")
    assert "BrokerUnreachableError" in failing(2, url="tcp://127.0.0.1:1", connectTimeout="500")
    assert "LoginError" in failing(3, password="terrible")
    assert "endingOffsets belongs to spark.read" in failing(4, endingOffsets="latest")
    assert message_count(broker.url, "stream.wrong") == 5
