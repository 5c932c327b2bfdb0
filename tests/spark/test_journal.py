"""The data source ``mqbroker-journal`` on the folders of real brokers: killed ones, and ones that work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mqclient.jms import BytesMessage
from tests.spark.support import (
    NUMBER,
    Additions,
    MqbrokerProcess,
    context,
    login,
    message_count,
    new_broker,
    paged,
    received_numbers,
    send_numbered,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_FILES = Additions(
    name="journal",
    core="<journal-file-size>500K</journal-file-size><journal-compact-min-files>3</journal-compact-min-files>"
    "<journal-compact-percentage>60</journal-compact-percentage>",
    address_settings=paged("deep.#", max_size_bytes=1 << 17, page_size_bytes=1 << 17),
)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[MqbrokerProcess]:
    """A broker whose segments and pages are small, so that they come and go."""
    broker = new_broker(tmp_path, SMALL_FILES)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def journal(spark: SparkSession, broker: MqbrokerProcess, table: str = "messages") -> DataFrame:
    return spark.read.format("mqbroker-journal").option("table", table).load(str(broker.folder))


def numbers(frame: DataFrame, queue: str) -> list[int]:
    """The numbers of the messages of a queue, in the order of their ids."""
    rows = frame.where(frame.queue == queue).selectExpr("message_id", f"variant_get(properties['{NUMBER}'], '$', 'bigint') number")
    return [row.number for row in rows.orderBy("message_id").collect()]


def test_the_folder_of_a_killed_broker_has_what_it_recovers(spark: SparkSession, own: MqbrokerProcess) -> None:
    send_numbered(own.url, "orders", 3_000, body=lambda number: "x" * (number % 300))
    send_numbered(own.url, "deep.orders", 2_000, body=lambda number: "y" * 100)
    with context(own.url) as session:
        large = session.create_bytes_message(b"z" * 500_000)
        large.set_long_property(NUMBER, 3_000)
        session.create_producer().send(session.create_queue("orders"), large)
    assert received_numbers(own.url, "orders", 700) == list(range(700))
    assert received_numbers(own.url, "deep.orders", 300) == list(range(300))
    own.kill()
    frame = journal(spark, own)
    left = {queue: numbers(frame, queue) for queue in ("orders", "deep.orders")}
    # The last acknowledgements may not have reached the disk: then these messages come again.
    assert left["orders"] == list(range(left["orders"][0], 3_001))
    assert left["deep.orders"] == list(range(left["deep.orders"][0], 2_000))
    assert left["orders"][0] <= 700
    assert left["deep.orders"][0] <= 300
    paged_now = {row.paged: row["count"] for row in frame.where("queue = 'deep.orders'").groupBy("paged").count().collect()}
    assert paged_now[True] > 1_000
    assert [row.size for row in frame.where("queue = 'orders'").selectExpr("max(length(body)) size").collect()] == [500_000]
    counts = {row.queue: row["count"] for row in frame.groupBy("queue").count().collect()}
    assert journal(spark, own, "damage").count() == 0
    assert journal(spark, own, "records").where("record = 'message'").count() >= 5_001 - 1_000
    own.start()
    assert {queue: message_count(own.url, queue) for queue in counts} == counts
    assert received_numbers(own.url, "deep.orders", len(left["deep.orders"])) == left["deep.orders"]
    with context(own.url) as session:
        browsed = list(session.create_browser(session.create_queue("orders")))
        assert [message.get_long_property(NUMBER) for message in browsed] == left["orders"]
        assert isinstance(browsed[-1], BytesMessage)


def test_the_rows_are_those_of_the_other_source(spark: SparkSession, own: MqbrokerProcess) -> None:
    send_numbered(own.url, "same", 300, properties=lambda number: {"colour": "red" if number % 2 else None, "weight": number / 7})
    send_numbered(own.url, "deep.same", 1_000, body=lambda number: "y" * 100)
    columns = "message_id, address, queue, node_id, type, timestamp, priority, durable, user_id, delivery_count, body, text, " + (
        "to_json(properties) properties"
    )
    queues = spark.read.format("mqbroker").options(**login(own.url)).option("queue", "same,deep.same").load()
    live = queues.selectExpr(*columns.split(", "))
    stored = journal(spark, own).where("queue in ('same', 'deep.same')").selectExpr(*columns.split(", "))
    assert live.count() == 1_300
    assert live.exceptAll(stored).count() == 0
    assert stored.exceptAll(live).count() == 0


def test_a_broker_under_load_is_read_without_errors(spark: SparkSession, own: MqbrokerProcess) -> None:
    """Segments and pages come and go while they are read; then what is read is what is left."""
    send_numbered(own.url, "steady", 500)
    stop = threading.Event()
    failures: list[BaseException] = []
    rounds: list[int] = []
    loaded = {queue: threading.Event() for queue in ("busy", "deep.busy")}

    def work(queue: str) -> None:
        try:
            for number in range(0, 60_000, 500):
                if stop.is_set():
                    return
                send_numbered(own.url, queue, 500, first=number, body=lambda each: "x" * 200)
                rounds.append(len(received_numbers(own.url, queue, 400)))
                loaded[queue].set()
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(queue,)) for queue in loaded]
    for worker in workers:
        worker.start()
    try:
        # From here on each of them always has messages left, besides what comes and goes.
        assert all(each.wait(60) for each in loaded.values()), failures
        for _ in range(3):
            assert numbers(journal(spark, own), "steady") == list(range(500))
            assert journal(spark, own, "records").where("record = 'message'").count() > 500
    finally:
        stop.set()
        for worker in workers:
            worker.join(60)
    assert not failures
    # What the broker has counted last is on the disk before this is confirmed.
    send_numbered(own.url, "steady", 1, first=500)
    frame = journal(spark, own)
    for queue in loaded:
        assert len(numbers(frame, queue)) == message_count(own.url, queue)


def test_what_is_wrong_is_one_sentence(spark: SparkSession, own: MqbrokerProcess, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    def error(frame_of: DataFrame | None = None, **options: str) -> str:
        with pytest.raises(PySparkException) as caught:
            (frame_of or spark.read.format("mqbroker-journal").options(**options).load()).count()
        return str(caught.value)

    assert "there is no folder" in error(path=str(tmp_path / "nowhere"))
    assert "did you mean table?" in error(path=str(own.folder), tabel="records")
    # Each transaction is a frame of the journal, and is lost as a whole.
    for first_number in range(0, 2_000, 500):
        send_numbered(own.url, "cut", 500, first=first_number, body=lambda number: "x" * 300)
    own.kill()
    text = ("x" * 100).encode("utf-16-le")
    closed = sorted((own.folder / "data" / "journal").glob("*.mqj"))[:-1]
    first = next(path for path in closed if text in path.read_bytes())
    data = bytearray(first.read_bytes())
    data[data.index(text)] ^= 1
    first.write_bytes(data)
    message = error(journal(spark, own))
    assert f"{first} is damaged at offset" in message
    assert "onDamage=skip" in message
    skipping = spark.read.format("mqbroker-journal").option("onDamage", "skip").load(str(own.folder))
    assert skipping.where("queue = 'cut'").count() == 1_500
    assert [row.file for row in journal(spark, own, "damage").collect()] == [str(first)]
