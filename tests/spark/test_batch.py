"""``spark.read.format("mqbroker")`` against a real broker: columns, bodies, filters, offsets, a cluster, and what is wrong said clearly."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mqclient.core.message import ClientMessage
from mqclient.jms import ConnectionFactory
from mqspark.broker.broker import connect
from mqspark.jobs.deadletters import dead_letters
from mqspark.options import Options, Use
from tests.interop.artemis import ArtemisBroker
from tests.spark.support import (
    PASSWORD,
    POWERLESS_PASSWORD,
    POWERLESS_USER,
    USER,
    MqbrokerProcess,
    context,
    login,
    message_count,
    new_cluster,
    received_numbers,
    send_numbered,
    wait_for_members,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS = 60.0
"""Within which a user is told at the very latest what is wrong; on a machine without other work it is seconds."""
LARGE = "0123456789" * 30_000


def read(spark: SparkSession, broker: MqbrokerProcess | ArtemisBroker, queue: str, **options: str) -> DataFrame:
    return spark.read.format("mqbroker").options(**login(broker.url), queue=queue, **options).load()


def error_of(action: Callable[[], object]) -> str:
    begun = time.monotonic()
    with pytest.raises(Exception) as caught:
        action()
    assert time.monotonic() - begun < SECONDS
    return str(caught.value)


def send_raw(url: str, queue: str, message: ClientMessage) -> None:
    """Send what no JMS client sends to a queue that is there."""
    with connect(Options.parse(login(url), Use.JOB)) as broker:
        session = broker.session()

        async def send() -> None:
            producer = await session.create_producer(queue)
            await producer.send(message)

        broker.runtime.run(send())


def send_one_of_each(url: str, queue: str) -> None:
    with context(url) as session:
        target = session.create_queue(queue)
        producer = session.create_producer()
        text = session.create_text_message("größer 😀")
        text.correlation_id, text.group_id, text.reply_to = "order-1", "group", session.create_queue("answers")
        text.set_boolean_property("flag", True)
        text.set_byte_property("byte", -1)
        text.set_short_property("short", 300)
        text.set_int_property("int", 70_000)
        text.set_long_property("long", 2**40)
        text.set_float_property("float", 0.5)
        text.set_double_property("double", 0.1)
        text.set_string_property("string", "é" * 40)
        text.set_string_property("_AMQ_DUPL_ID", "once")
        producer.send(target, text)
        producer.send(target, session.create_bytes_message(b"\x00\x01"))
        message = session.create_map_message()
        message.set_string("colour", "red")
        message.set_char("char", "x")
        message.set_bytes("bytes", b"\xff")
        message.set_int("count", 3)
        producer.send(target, message)
        producer.send(target, session.create_stream_message())
        producer.send(target, session.create_message())
        producer.send(target, session.create_text_message(LARGE))
    with ConnectionFactory(f"{url}?compressLargeMessage=true").create_context(USER, PASSWORD) as session:
        session.create_producer().send(session.create_queue(queue), session.create_text_message(LARGE))
        session.create_producer().send(session.create_queue(queue), session.create_bytes_message(LARGE.encode()))


def test_every_type_of_message_and_value(spark: SparkSession, broker: MqbrokerProcess) -> None:
    send_one_of_each(broker.url, "batch.each")
    send_raw(broker.url, "batch.each", ClientMessage(type=99, body=b"what?"))
    frame = read(spark, broker, "batch.each")
    rows = frame.orderBy("message_id").collect()
    assert [row.type for row in rows] == ["text", "bytes", "map", "stream", "default", "text", "text", "bytes", "99"]
    first = rows[0]
    assert (first.text, first.correlation_id, first.group_id, first.duplicate_id) == ("größer 😀", "order-1", "group", "once")
    assert (first.address, first.queue, first.priority, first.durable, first.delivery_count) == ("batch.each", "batch.each", 4, True, 0)
    assert (first.reply_to, first.user_id[:3], first.expiration) == ("queue://answers", "ID:", None)
    assert abs((datetime.datetime.now() - first.timestamp).total_seconds()) < 120
    values = {key: value.toPython() for key, value in first.properties.items()}
    assert {key: values[key] for key in ("flag", "byte", "short", "int", "long", "float", "double", "string")} == {
        "flag": True,
        "byte": -1,
        "short": 300,
        "int": 70_000,
        "long": 2**40,
        "float": 0.5,
        "double": 0.1,
        "string": "é" * 40,
    }
    assert bytes(rows[1].body) == b"\x00\x01" and rows[1].text is None and rows[1].map_body is None
    assert {key: value.toPython() for key, value in rows[2].map_body.items()} == {
        "colour": "red",
        "char": "x",
        "bytes": b"\xff",
        "count": 3,
    }
    assert [row.text == LARGE for row in rows[5:7]] == [True, True]
    assert bytes(rows[7].body) == LARGE.encode()
    assert bytes(rows[8].body) == b"what?"
    found = frame.selectExpr("properties['double']::double * 10 d", "schema_of_variant(properties['flag']) f", "map_body['count']::int c")
    assert found.where("f = 'BOOLEAN'").collect()[0].d == 1.0
    assert message_count(broker.url, "batch.each") == 9
    assert "its type is 99, which is unknown" in error_of(lambda: read(spark, broker, "batch.each", mode="FAILFAST").collect())


def test_a_session_that_calls_times_without_zone_timestamps(spark: SparkSession, broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "batch.zone", 1)
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        frame = read(spark, broker, "batch.zone")
        assert dict(frame.dtypes)["timestamp"] == "timestamp"
        (row,) = frame.select("timestamp").collect()
        assert row.timestamp is not None
        assert dead_letters(spark, {**login(broker.url), "queue": "batch.zone"}).count() == 1
    finally:
        spark.conf.unset("spark.sql.timestampType")


def test_wanted_columns_and_formats_of_the_body(spark: SparkSession, broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "batch.json", 4, body=lambda number: json.dumps({"id": number, "price": number / 2}))
    send_numbered(broker.url, "batch.json", 1, first=4, body=lambda number: b'{"id":4}')
    send_numbered(broker.url, "batch.json", 1, first=5, body=lambda number: "no json")
    found = read(spark, broker, "batch.json", columns="message_id,body", bodyFormat="json", bodySchema="id bigint, price double")
    assert found.columns == ["message_id", "body"]
    bodies = [row.body and tuple(row.body) for row in found.orderBy("message_id").collect()]
    assert bodies == [(0, 0.0), (1, 0.5), (2, 1.0), (3, 1.5), (4, None), None]
    options = {**login(broker.url), "queue": "batch.json"}
    schema = "text string, body struct<id: int>, _corrupt_record string"
    typed = spark.read.format("mqbroker").schema(schema).options(**options, bodyFormat="json").load()
    assert typed.where("_corrupt_record is not null").collect()[0]._corrupt_record == "no json"
    assert typed.where("body.id > 2").count() == 2
    texts = read(spark, broker, "batch.json", columns="body", bodyFormat="text")
    assert '{"id":4}' in [row.body for row in texts.collect()]
    wrong = spark.read.format("mqbroker").schema("mesage_id bigint").options(**options).load()
    assert "there is no column mesage_id; did you mean message_id" in error_of(wrong.collect)


def test_filters_reach_the_broker(spark: SparkSession, broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "batch.filtered", 30, properties=lambda number: {"JMSXGroupID": f"g{number % 3}", "size": number})
    frame = read(spark, broker, "batch.filtered", selector="size >= 10")
    wanted = frame.where("group_id = 'g1' and priority >= 4 and timestamp > timestamp'2020-01-01' and body is not null")
    assert wanted.count() == 7
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        wanted = frame.where("group_id = 'g1' and priority >= 4 and timestamp > timestamp'2020-01-01' and body is not null")
        assert wanted.count() == 7
        plan: Any = wanted._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
        )
        (pushed,) = [line for line in plan.splitlines() if line.startswith("PushedFilters")]
        assert "EqualTo(group_id,g1)" in pushed and "GreaterThan(timestamp" in pushed and "body" not in pushed
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_no_plan_shows_a_password(spark: SparkSession, broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "batch.shown", 1)
    url = f"{broker.url}?password=in-url"
    frame = spark.read.format("mqbroker").options(**login(url)).option("queue", "batch.shown").load()
    for mode in ("simple", "extended", "formatted", "cost", "codegen"):
        shown: Any = frame._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)  # type: ignore[union-attr]
        )
        assert "Scan" in shown or mode == "codegen"
        assert PASSWORD not in shown and "in-url" not in shown, shown


def test_a_cluster_is_read_in_parallel_between_offsets(spark: SparkSession, tmp_path: Path) -> None:
    brokers = new_cluster(tmp_path)
    for each in brokers:
        each.start()
    try:
        for each in brokers:
            wait_for_members(each.url, 2)
        for number, each in enumerate(brokers):
            send_numbered(each.url, "batch.spread", 300, first=number * 300)
        frame = read(spark, brokers[0], "batch.spread", minPartitions="6", columns="message_id,node_id,queue,properties")
        assert frame.rdd.getNumPartitions() == 6
        numbers = frame.selectExpr("node_id", "message_id", "properties['number']::int number").collect()
        assert sorted(row.number for row in numbers) == list(range(600))
        ids = sorted((row.node_id, row.message_id) for row in numbers)
        starts = {"version": 1, "nodes": {node: {"batch.spread": 0} for node, _ in ids}}
        starts["nodes"][ids[0][0]] = {"batch.spread": ids[99][1]}  # type: ignore[index]
        ends = {"nodes": {ids[-1][0]: {"batch.spread": ids[399][1]}}}
        bounded = read(spark, brokers[1], "batch.spread", startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))
        assert bounded.count() == 200 + 100
    finally:
        for each in brokers:
            each.stop()


def test_what_is_wrong_is_said_within_seconds(spark: SparkSession, broker: MqbrokerProcess) -> None:
    send_numbered(broker.url, "batch.wrong", 1)
    send_numbered(broker.url, "batch.empty", 1)
    assert received_numbers(broker.url, "batch.empty", 1) == [0]

    def failing(**options: str) -> str:
        given = {**login(broker.url), "queue": "batch.wrong", **options}
        return error_of(lambda: spark.read.format("mqbroker").options(**given).load().count())

    assert "BrokerUnreachableError" in failing(url="tcp://127.0.0.1:1", connectTimeout="500")
    text = failing(password="terrible")
    assert "LoginError" in text and "terrible" not in text
    assert "PermissionDeniedError" in failing(user=POWERLESS_USER, password=POWERLESS_PASSWORD)
    assert "there is no queue batch.none on any node" in failing(queue="batch.none")
    assert "did you mean selector" in failing(selecter="a = 1")
    for queue in ("batch.wrong", "batch.empty"):
        text = failing(selector="a = = 1", queue=queue)
        assert "BadOptionError" in text and "the option selector" in text
    assert "did you mean string" in failing(bodyFormat="json", bodySchema="product strng")
    assert "bodyFormat=json needs the schema" in failing(bodyFormat="json")
    assert message_count(broker.url, "batch.wrong") == 1
