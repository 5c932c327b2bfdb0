"""Orders from a queue, totals into another queue and into Parquet: ``python examples/spark/orders.py``.

The program starts a broker of its own and ends by itself, in about a minute.
It needs mqbroker, mqclient and mqspark installed, and Java 17 or later for Spark.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from mqclient.jms import AcknowledgeMode, ConnectionFactory
from mqspark.settling import install

CONFIG = Path(__file__).resolve().parents[2] / "config" / "spark" / "broker.xml"
ORDERS = 20_000
OPENING = 1_767_340_800  # s since the epoch: 2026-01-02 08:00 UTC
ORDERS_PER_MINUTE = 100
BODY = "number bigint, product string, amount double, at bigint"
PRODUCTS = ("apples", "bread", "cheese")
START_SECONDS = 60.0


def main(folder: Path) -> None:
    with broker(folder / "broker") as url, spark_session() as spark:
        settling = install(spark, {"url": url})
        print(f"A broker listens on {url}; {ORDERS} orders are sent to the queue 'orders' while two queries read it.")
        shop = threading.Thread(target=send_orders, args=(url,))
        shop.start()
        queries = [into_queue(totals(spark, url, "to-queue"), url, folder), into_parquet(totals(spark, url, "to-parquet"), folder)]
        shop.join()
        for query in queries:
            query.processAllAvailable()
            query.stop()
        settling.close()
        print(f"\nOrders that wait in the queue 'orders' now, when both queries have committed them: {waiting(url)}")
        print("\nTotals that were sent to the queue 'totals':")
        print_queue(url)
        print("\nThe same from Parquet, by product:")
        spark.read.parquet(str(folder / "parquet")).groupBy("product").agg(
            sql.sum("orders").alias("orders"), sql.round(sql.sum("amount"), 2).alias("amount")
        ).orderBy("product").show()


def totals(spark: SparkSession, url: str, reader: str) -> DataFrame:
    """Orders and amount of each product in every half hour."""
    orders = (
        spark.readStream.format("mqbroker")
        .option("url", url)
        .option("queue", "orders")
        .option("readerName", reader)
        .option("columns", "body")
        .option("bodyFormat", "json")
        .option("bodySchema", BODY)
        .option("maxMessagesPerTrigger", 10_000)
        .load()
        .select("body.*")
        .withColumn("at", sql.timestamp_seconds("at"))
    )
    return (
        orders.withWatermark("at", "10 minutes")
        .groupBy(sql.window("at", "30 minutes"), "product")
        .agg(sql.count("*").alias("orders"), sql.round(sql.sum("amount"), 2).alias("amount"))
        .select(sql.col("window.start").alias("half_hour"), "product", "orders", "amount")
    )


def into_queue(frame: DataFrame, url: str, folder: Path) -> StreamingQuery:
    """One text message for each row.

    A task that is repeated has the same totals, but perhaps in another order: an id made of what they are the totals of keeps the broker
    from taking one twice.
    """
    text = sql.to_json(sql.struct("half_hour", "product", "orders", "amount"))
    messages = frame.select(text.alias("text"), sql.concat_ws("/", "half_hour", "product").alias("duplicate_id"))
    return (
        messages.writeStream.format("mqbroker")
        .option("url", url)
        .option("queue", "totals")
        .option("checkpointLocation", str(folder / "checkpoint-queue"))
        .trigger(processingTime="1 second")
        .start()
    )


def into_parquet(frame: DataFrame, folder: Path) -> StreamingQuery:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "parquet"))
        .option("checkpointLocation", str(folder / "checkpoint-parquet"))
        .trigger(processingTime="1 second")
        .start()
    )


def send_orders(url: str) -> None:
    """A day in a shop, in some seconds; the last order comes the next day, so that every half hour before is complete."""
    choose = random.Random(2026)
    with ConnectionFactory(url).create_context(session_mode=AcknowledgeMode.SESSION_TRANSACTED) as shop:
        queue, producer = shop.create_queue("orders"), shop.create_producer()
        for number in range(ORDERS):
            at = OPENING + number * 60 // ORDERS_PER_MINUTE
            order = {"number": number, "product": choose.choice(PRODUCTS), "amount": choose.randint(1, 2000) / 100, "at": at}
            producer.send(queue, json.dumps(order))
            if number % 1000 == 999:
                shop.commit()
        producer.send(queue, json.dumps({"number": ORDERS, "product": "closing", "amount": 0.0, "at": OPENING + 86_400}))
        shop.commit()


def print_queue(url: str) -> None:
    with ConnectionFactory(url).create_context() as context:
        consumer = context.create_consumer(context.create_queue("totals"))
        received = []
        while (text := consumer.receive_body(timeout=1000)) is not None:
            received.append(json.loads(text))
    for row in sorted(received, key=lambda row: (row["half_hour"], row["product"])):
        print(f"{row['half_hour'][:16]}  {row['product']:<8} {row['orders']:>5} orders {row['amount']:>10.2f}")


def waiting(url: str) -> int:
    with ConnectionFactory(url).create_context() as context:
        return sum(1 for _ in context.create_browser(context.create_queue("orders")))


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """An mqbroker on a port that the system chooses; gives its URL."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
    command += ["mqbroker", "--config", str(CONFIG), "--data", str(folder)]
    log = folder / "broker.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | {"BROKER_PORT": "0"}, stdout=output, stderr=output)
    try:
        yield listening_url(log, process)
    finally:
        process.terminate()
        process.wait()


def listening_url(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"listening on (tcp://127\.0\.0\.1:\d+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f"the broker did not start:\n{log.read_text()[-2000:]}")


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Spark in this process, with two tasks at a time; its workers run the same Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("orders")
    for name, value in (
        ("spark.ui.enabled", "false"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.shuffle.partitions", "1"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.log.level", "ERROR"),
    ):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SystemExit("Spark needs Java 17 or later: install it, or set JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="orders-") as temporary:
        main(Path(temporary))
