"""The sink: rows become messages, once each, whatever fails."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from mqspark.broker.broker import connect
from mqspark.jobs.transactions import end_transactions
from mqspark.messages.rows import RowEncoder, RowSettings
from mqspark.options import Options, Use
from mqspark.transactions.branches import BranchTask, NodeBranches
from mqspark.transactions.decisions import Batch, Branch, new_xid
from mqspark.writing.sending import Sender
from tests.spark.failing_sink import DRIVER_POINTS, TASK_POINTS, TRANSACTION_POINTS, FailingDataSource
from tests.spark.support import (
    POWERLESS_PASSWORD,
    POWERLESS_USER,
    MqbrokerProcess,
    all_numbers,
    context,
    login,
    message_count,
    new_broker,
    new_cluster,
    received_numbers,
    wait_for_members,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

MODES = ("duplicateIds", "transactions")
ROWS = 50
"""In each file of a stream."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(FailingDataSource)
    return spark


def write(rows: DataFrame, url: str, **options: object) -> None:
    writer = rows.write.format("mqbroker").options(**login(url)).mode("append")
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("id AS number", "concat('text of ', id) AS text")


def messages(url: str, destination: str, count: int) -> list[Any]:
    """Take messages off a queue."""
    with context(url) as opened:
        consumer = opened.create_consumer(opened.create_queue(destination))
        return [consumer.receive(20_000) for _ in range(count)]


def sink_options(url: str) -> Options:
    return Options.parse({**login(url), "queue": "x"}, Use.WRITE)


def in_doubt(url: str) -> int:
    """How many branches of the sink are prepared and not decided."""
    with connect(sink_options(url)) as broker:
        return len(NodeBranches(broker).in_doubt())


class Files:
    """A stream of files with numbers: two files, two tasks, ``2 * ROWS`` rows a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder / "in"
        self._folder.mkdir()
        self._count = 0

    def add(self, batches: int) -> int:
        """More input; the number of rows that there are now."""
        for _ in range(2 * batches):
            lines = "\n".join(str(number) for number in range(self._count * ROWS, (self._count + 1) * ROWS))
            (self._folder / f"{self._count:04}.csv").write_text(lines)
            self._count += 1
        return self._count * ROWS

    def stream(self) -> DataFrame:
        found = self._spark.readStream.schema("number BIGINT").option("maxFilesPerTrigger", 2).csv(str(self._folder))
        return found.selectExpr("number", "concat('text of ', number) AS text")


def start(rows: DataFrame, url: str, checkpoint: Path, kind: str = "mqbroker", **options: object) -> StreamingQuery:
    writer = rows.writeStream.format(kind).options(**login(url)).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    for name, value in {"unknownColumns": "properties", **options}.items():
        writer = writer.option(name, str(value))
    return writer.start()


# --- what a row becomes


def test_rows_become_messages(session: SparkSession, broker: MqbrokerProcess) -> None:
    rows = session.createDataFrame(
        [("a", 7, False, "c", "g", {"x": "y"}, 1.5), (None, 4, True, None, None, {}, None)],
        "text string, priority int, durable boolean, correlation_id string, group_id string, properties map<string,string>, price double",
    ).coalesce(1)
    write(rows, broker.url, queue="sink.columns", unknownColumns="properties", timeToLive=3_600_000)
    first, second = messages(broker.url, "sink.columns", 2)
    assert (first.text, first.priority, first.correlation_id, first.delivery_mode) == ("a", 7, "c", 1)
    assert dict(first.properties) | {"_AMQ_DUPL_ID": ""} == {"JMSXGroupID": "g", "x": "y", "price": 1.5, "_AMQ_DUPL_ID": ""}
    assert first.expiration - first.timestamp == 3_600_000
    assert (second.text, second.delivery_mode, second.correlation_id) == (None, 2, None)
    ids = [message.properties["_AMQ_DUPL_ID"] for message in (first, second)]
    assert [text.rpartition("/")[2] for text in ids] == ["0", "1"]
    assert len({text.rpartition("/")[0] for text in ids}) == 1


def test_rows_that_name_their_addresses(session: SparkSession, broker: MqbrokerProcess) -> None:
    rows = numbers(session, 30).selectExpr("concat('sink.by.', number % 3) AS address", "number")
    write(rows, broker.url, unknownColumns="properties")
    for each in range(3):
        assert sorted(received_numbers(broker.url, f"sink.by.{each}", 10)) == list(range(each, 30, 3))


def test_a_topic(session: SparkSession, broker: MqbrokerProcess) -> None:
    with context(broker.url) as opened:
        first, second = (opened.create_consumer(opened.create_topic("sink.topic")) for _ in range(2))
        write(numbers(session, 10).select("text"), broker.url, topic="sink.topic")
        for consumer in (first, second):
            assert sorted(consumer.receive(20_000).text for _ in range(10)) == sorted(f"text of {number}" for number in range(10))


@pytest.mark.parametrize("mode", MODES)
def test_large_bodies(session: SparkSession, broker: MqbrokerProcess, mode: str) -> None:
    rows = session.range(0, 6, 1, 1).selectExpr("cast(repeat(id, 1 + 150000 * (id % 2)) AS binary) AS body")
    write(rows, broker.url, queue="sink.large", exactlyOnce=mode)
    assert [message.body_length for message in messages(broker.url, "sink.large", 6)] == [1, 150_001] * 3


def test_without_exactly_once_nothing_is_added(session: SparkSession, broker: MqbrokerProcess) -> None:
    write(numbers(session, 1, 1).select("text"), broker.url, queue="sink.plain", exactlyOnce="none")
    (message,) = messages(broker.url, "sink.plain", 1)
    assert dict(message.properties) == {}


# --- once


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_goes_on(session: SparkSession, broker: MqbrokerProcess, tmp_path: Path, mode: str) -> None:
    files = Files(session, tmp_path)
    for batches in (2, 1):
        count = files.add(batches)
        start(files.stream(), broker.url, tmp_path / "checkpoint", queue=f"sink.on.{mode}", exactlyOnce=mode).awaitTermination()
    assert sorted(all_numbers(broker.url, f"sink.on.{mode}", count)) == list(range(count))
    assert in_doubt(broker.url) == 0


@pytest.mark.parametrize("mode", MODES)
def test_tasks_that_fail(session: SparkSession, broker: MqbrokerProcess, tmp_path: Path, mode: str) -> None:
    """Wherever a task fails or its process dies, it is done again, and each row is there once."""
    files = Files(session, tmp_path)
    count = files.add(len(TASK_POINTS))
    queue = f"sink.tasks.{mode}"
    chosen = {"queue": queue, "exactlyOnce": mode, "failAt": "tasks", "failFolder": tmp_path}
    start(files.stream(), broker.url, tmp_path / "checkpoint", "mqbroker-failing", **chosen).awaitTermination()
    assert [point for point in TASK_POINTS if (tmp_path / point).exists()] == list(TASK_POINTS)
    assert sorted(all_numbers(broker.url, queue, count)) == list(range(count))
    assert in_doubt(broker.url) == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_that_fails(session: SparkSession, broker: MqbrokerProcess, tmp_path: Path, mode: str) -> None:
    """The query ends before, within or after the commit of a batch; started again, it writes what is missing."""
    points = TRANSACTION_POINTS if mode == "transactions" else DRIVER_POINTS
    files = Files(session, tmp_path)
    count = files.add(len(points))
    queue = f"sink.driver.{mode}"
    chosen = {"queue": queue, "exactlyOnce": mode, "failAt": "driver", "failFolder": tmp_path}
    for point in points:
        query = start(files.stream(), broker.url, tmp_path / "checkpoint", "mqbroker-failing", **chosen)
        with pytest.raises(Exception, match=f"PlannedFailure: {point}"):
            query.awaitTermination()
    start(files.stream(), broker.url, tmp_path / "checkpoint", "mqbroker-failing", **chosen).awaitTermination()
    assert sorted(all_numbers(broker.url, queue, count)) == list(range(count))
    assert in_doubt(broker.url) == 0


@pytest.fixture
def mortal_broker() -> Iterator[MqbrokerProcess]:
    with tempfile.TemporaryDirectory(prefix="mqbroker-sink-") as folder:
        own = new_broker(Path(folder))
        own.start()
        try:
            yield own
        finally:
            own.stop()


def test_a_broker_that_is_killed(session: SparkSession, mortal_broker: MqbrokerProcess) -> None:
    """Tasks find the broker again and send again what was not confirmed."""
    count = 16_000
    rows = session.range(0, count, 1, 2).selectExpr("id AS number", "repeat('x', 2000) AS text")
    found = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            time.sleep(0.02)
            if message_count(mortal_broker.url, "sink.killed") >= 500:
                found.append(message_count(mortal_broker.url, "sink.killed"))
        mortal_broker.kill()
        mortal_broker.start()

    killing = threading.Thread(target=kill)
    killing.start()
    write(rows, mortal_broker.url, queue="sink.killed", unknownColumns="properties")
    killing.join()
    assert found
    assert found[0] < count
    assert sorted(all_numbers(mortal_broker.url, "sink.killed", count)) == list(range(count))


def test_a_broker_that_is_away_before_a_later_batch(session: SparkSession, mortal_broker: MqbrokerProcess, tmp_path: Path) -> None:
    """A query that has begun waits for it longer than a new one would."""
    files = Files(session, tmp_path)
    files.add(1)
    start(files.stream(), mortal_broker.url, tmp_path / "checkpoint", queue="sink.away").awaitTermination()
    mortal_broker.kill()
    count = files.add(1)
    # A new query would wait so long, the first one needs the usual time: a busy machine may not answer within half a second.
    query = start(files.stream(), mortal_broker.url, tmp_path / "checkpoint", queue="sink.away", connectTimeout=500)
    assert not query.awaitTermination(3)
    mortal_broker.start()
    query.awaitTermination()
    assert sorted(all_numbers(mortal_broker.url, "sink.away", count)) == list(range(count))


@pytest.mark.parametrize("mode", MODES)
def test_a_cluster(session: SparkSession, cluster: list[MqbrokerProcess], mode: str) -> None:
    """Tasks take the nodes in turn, and what fails is done again on the same one."""
    url, queue = cluster[0].url, f"sink.cluster.{mode}"
    wait_for_members(url, 2)
    write(numbers(session, 40, 4), url, queue=queue, exactlyOnce=mode, unknownColumns="properties")
    found = [sorted(all_numbers(each.url, queue, 20)) for each in cluster]
    halves = [[*range(10), *range(20, 30)], [*range(10, 20), *range(30, 40)]]
    assert sorted(found) == halves
    assert [in_doubt(each.url) for each in cluster] == [0, 0]


def test_a_driver_that_fails_with_a_cluster(session: SparkSession, cluster: list[MqbrokerProcess], tmp_path: Path) -> None:
    """Branches on two nodes follow one decision."""
    files = Files(session, tmp_path)
    count = files.add(len(TRANSACTION_POINTS))
    queue = "sink.cluster.driver"
    chosen = {"queue": queue, "exactlyOnce": "transactions", "failAt": "driver", "failFolder": tmp_path}
    for point in TRANSACTION_POINTS:
        with pytest.raises(Exception, match=f"PlannedFailure: {point}"):
            start(files.stream(), cluster[0].url, tmp_path / "checkpoint", "mqbroker-failing", **chosen).awaitTermination()
    start(files.stream(), cluster[0].url, tmp_path / "checkpoint", "mqbroker-failing", **chosen).awaitTermination()
    found = [number for each in cluster for number in all_numbers(each.url, queue)]
    assert sorted(found) == list(range(count))
    assert [in_doubt(each.url) for each in cluster] == [0, 0]


@pytest.fixture
def mortal_cluster() -> Iterator[list[MqbrokerProcess]]:
    with tempfile.TemporaryDirectory(prefix="mqbroker-sink-") as folder:
        own = new_cluster(Path(folder))
        try:
            for each in own:
                each.start()
            wait_for_members(own[0].url, 2)
            yield own
        finally:
            for each in own:
                each.stop()


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_that_is_repeated_while_a_node_is_away(
    session: SparkSession, mortal_cluster: list[MqbrokerProcess], tmp_path: Path, mode: str
) -> None:
    """Its rows wait for the node that they went to at first; what comes later goes there, too."""
    staying, leaving = mortal_cluster
    files = Files(session, tmp_path)
    count = files.add(1)
    queue = f"sink.away.{mode}"
    chosen = {"queue": queue, "exactlyOnce": mode}
    sent = ROWS if mode == "duplicateIds" else 0

    def run(**options: object) -> None:
        start(files.stream(), staying.url, tmp_path / "checkpoint", "mqbroker-failing", **chosen, **options).awaitTermination()

    failing = {"failAt": "driver", "failFolder": tmp_path}
    with pytest.raises(Exception, match="PlannedFailure: before the commit"):
        run(**failing)
    assert [message_count(each.url, queue) for each in mortal_cluster] == [sent, sent]
    leaving.stop()
    wait_for_members(staying.url, 1)
    with pytest.raises(Exception, match="which is away"):
        # Only here: a node that is there may need longer to answer on a busy machine.
        run(**failing, reconnectTimeout=3000)
    assert message_count(staying.url, queue) == sent
    leaving.start()
    wait_for_members(staying.url, 2)
    count = files.add(1)
    with pytest.raises(Exception, match="PlannedFailure: after the commit"):
        run(**failing)
    run(**failing)
    found = [all_numbers(each.url, queue, 2 * ROWS) for each in mortal_cluster]
    assert [len(numbers) for numbers in found] == [2 * ROWS, 2 * ROWS]
    assert sorted(number for numbers in found for number in numbers) == list(range(count))


def test_a_write_job_whose_driver_dies_after_the_decision(session: SparkSession, broker: MqbrokerProcess) -> None:
    """The next batch of anybody commits what was decided, and the job transactions ends the rest."""
    options = sink_options(broker.url)

    def leave(queue: str, decided: int) -> str:
        """A job of two tasks, of which it has decided for so many."""
        batch = Batch(str(uuid.uuid4()), 0, job=True)
        with connect(options) as opened:
            opened.create_queue(queue)
            nodes_of = NodeBranches(opened)
            left = []
            for partition in range(2):
                task = BranchTask(opened, new_xid(batch, opened.node_id, partition, 0, os.urandom(8)), 60)
                rows = pa.record_batch({"number": [partition]})
                settings = RowSettings(address=queue, routing_type=1, extra_properties=True)
                sender = Sender(opened.runtime, lambda task=task: task.session, in_transaction=True)
                sender.send(RowEncoder(rows.schema, settings).encode(rows, 0, 0).messages, queue)
                sender.flush()
                assert task.prepare()
                left.append(Branch(opened.node_id, task.xid))
            if decided:
                nodes_of.decide(batch, left[:decided], int(time.time() * 1000))
        return batch.query

    leave("sink.decided", 2)
    write(numbers(session, 1, 1), broker.url, queue="sink.healing", exactlyOnce="transactions", unknownColumns="properties")
    assert sorted(all_numbers(broker.url, "sink.decided", 2)) == [0, 1]
    leave("sink.half", 1)
    undecided = leave("sink.undecided", 0)
    assert {doubt.outcome for doubt in end_transactions(options)} == {"committed", "rolled back", "undecided"}
    assert all_numbers(broker.url, "sink.half", 1) == [0]
    assert [doubt.query for doubt in end_transactions(options, [undecided])] == [undecided] * 2
    assert (received_numbers(broker.url, "sink.undecided", 1, 100), end_transactions(options)) == ([], [])


def test_times_of_a_session_in_a_zone_with_summer_time(session: SparkSession, broker: MqbrokerProcess) -> None:
    """The hour that the zone has twice is sent as any other."""
    begin = 1_729_989_000_000  # 2024-10-27T00:30Z: half past two in Berlin, as an hour later
    before = str(session.conf.get("spark.sql.session.timeZone"))
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = session.range(0, 2, 1, 1).selectExpr("'x' AS text", f"timestamp_millis({begin} + id * 3600000) AS timestamp")
        write(rows, broker.url, queue="sink.zone")
    finally:
        session.conf.set("spark.sql.session.timeZone", before)
    assert [message.timestamp for message in messages(broker.url, "sink.zone", 2)] == [begin, begin + 3_600_000]


def test_what_was_read_can_be_written(session: SparkSession, broker: MqbrokerProcess) -> None:
    """Every column of the source is one of the sink, with the types of its values."""
    with context(broker.url) as opened:
        producer = opened.create_producer()
        message = opened.create_map_message()
        message.set_int("count", 3)
        message.set_string("name", "n")
        message.set_double_property("price", 1.5)
        message.correlation_id = "c"
        for body, producer.priority in ((message, 8), ("text", 1)):
            producer.send(opened.create_queue("sink.read"), body)
    write(
        session.read.format("mqbroker").options(**login(broker.url)).option("queue", "sink.read").load(), broker.url, queue="sink.written"
    )
    first, second = messages(broker.url, "sink.written", 2)
    assert (first.get_int("count"), first.get_string("name"), first.properties["price"]) == (3, "n", 1.5)
    assert (first.correlation_id, first.priority, second.text, second.priority) == ("c", 8, "text", 1)


# --- bad input


def refused(rows: DataFrame, options: dict[str, object], *words: str, seconds: float = 300.0) -> None:
    """The write fails soon, and says why."""
    began = time.monotonic()
    with pytest.raises(Exception) as caught:
        write(rows, str(options.pop("url")), **options)
    assert time.monotonic() - began < seconds
    text = str(caught.value)
    assert all(word in text for word in words), text


def test_bad_input(session: SparkSession, broker: MqbrokerProcess, tmp_path: Path) -> None:
    rows = numbers(session, 10).select("text")
    url, queue = broker.url, {"queue": "sink.bad"}
    refused(rows, {"url": "tcp://127.0.0.1:1", "connectTimeout": 500, **queue}, "BrokerUnreachableError", "127.0.0.1:1")
    refused(rows, {"url": url, "password": "wrong", **queue}, "LoginError")
    refused(rows, {"url": url, "user": POWERLESS_USER, "password": POWERLESS_PASSWORD, **queue}, "PermissionDeniedError")
    refused(rows, {"url": url, "queue": "strict.missing"}, "MissingQueueError", "strict.missing", "does not exist")
    refused(rows, {"url": url, "topic": "strict.missing"}, "MissingQueueError")
    refused(rows, {"url": url, "address": "missing"}, "MissingQueueError")
    refused(rows.selectExpr("text", "'strict.missing' AS address"), {"url": url}, "MissingQueueError", "strict.missing")
    refused(rows, {"url": url}, "SchemaError", "nothing says where messages go")
    refused(rows.selectExpr("text AS txt"), {"url": url, **queue}, "SchemaError", "did you mean text?")
    refused(rows.selectExpr("1 AS text"), {"url": url, **queue}, "SchemaError", "the column text has the type int32, expected a string")
    refused(rows.selectExpr("text", "42 AS priority"), {"url": url, **queue}, "SchemaError", "priority holds 42")
    refused(rows, {"url": url, "queue": "tiny.cache"}, "DuplicateCacheError", "keeps 10 duplicate ids", "id-cache-size")
    refused(numbers(session, 3000, 1).select("text"), {"url": url, "queue": "small.cache"}, "DuplicateCacheError", "more than 2000 rows")
    refused(
        numbers(session, 3000, 4).select("text"), {"url": url, "queue": "small.spread"}, "DuplicateCacheError", "keeps 2000 duplicate ids"
    )
    assert message_count(url, "small.spread") == 2000
    refused(rows, {"url": url, "nodes": "nobody", **queue}, "the option nodes: nobody is not in the cluster")
    with pytest.raises(Exception, match="a queue cannot be overwritten"):
        rows.write.format("mqbroker").options(**login(url), **queue).mode("overwrite").save()
    assert message_count(url, "sink.bad") == 0
