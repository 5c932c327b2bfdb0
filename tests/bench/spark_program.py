"""``python -m tests.bench.spark_program CORES URL FOLDER MESSAGES DEEP``: sink and source of Spark, and its own ``rate`` source.

Prints a line of JSON before each measurement (``{"begin": name}``) and after it (``{"end": name, "messages": …, "seconds": …}``), or
``{"error": name, "text": …}``.  Each has run before with few messages, so that classes are loaded and workers started.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mqspark.broker.broker import connect
from mqspark.options import Options, Use
from tests.bench.spark_rows import COLUMNS, MODES, SIZES, deep_name, rate_name, sink_name, source_name
from tests.spark.support import login, new_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

WARM_MESSAGES = 2_000
KEEPER = "keeper"
"""A reader that settles nothing: the messages stay for the next measurement."""
LARGER_SHARE = 40
"""Messages of the greater size, in percent of the others: all of them stay below the broker's ``global-max-size`` of 1 GiB."""
RATE_BATCHES = 4
RATE_SECONDS_MAX = 60.0
RATE_ROWS = 2_000_000
"""A second: more than Spark makes of them."""


class Measurements:
    def __init__(self, spark: SparkSession, cores: int, url: str, folder: Path) -> None:
        self._spark = spark
        self._cores = cores
        self._login = login(url)
        self._folder = folder
        self._count = 0
        self._readers: dict[str, list[str]] = {}
        """By queue."""

    def sink(self, queue: str, mode: str, size: int, messages: int) -> tuple[int, float]:
        """Durable messages with a body of ``size`` bytes."""
        rows = self._spark.range(0, messages, 1, self._cores).selectExpr(f"cast(repeat('x', {size}) AS binary) AS body")
        writer = rows.write.format("mqbroker").options(**self._login, queue=queue, exactlyOnce=mode).mode("append")
        begin = time.monotonic()
        writer.save()
        return messages, time.monotonic() - begin

    def keep(self, queue: str) -> None:
        self._readers.setdefault(queue, []).append(KEEPER)
        with connect(Options.parse({**self._login, "queue": queue}, Use.WRITE)) as broker:
            broker.open_reader(queue, KEEPER)

    def drop(self, queue: str) -> None:
        """What lies in memory would send the next messages to pages."""
        with connect(Options.parse({**self._login, "queue": queue}, Use.WRITE)) as broker:
            for reader in self._readers.pop(queue, ()):
                broker.remove_reader(queue, reader)
            broker.call(f"deleting queue {queue}", lambda session: session.delete_queue(queue))

    def source(self, queue: str, columns: str) -> tuple[int, float]:
        """A stream over all that is in the queue, with a reader of its own, which settles it."""
        self._count += 1
        reader = f"bench-{self._cores}-{self._count}"
        self._readers.setdefault(queue, []).append(reader)
        options = {**self._login, "queue": queue, "readerName": reader, "maxMessagesPerTrigger": "250000"}
        if columns:
            options["columns"] = columns
        frame = self._spark.readStream.format("mqbroker").options(**options).load()
        return self._streamed(frame)

    def _streamed(self, frame: DataFrame) -> tuple[int, float]:
        self._count += 1
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(self._folder / f"checkpoint-{self._count}"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return _total(_with_rows(query))

    def rate(self, size: int) -> tuple[int, float]:
        """Rows that Spark makes itself, with a body as large."""
        self._count += 1
        rows = self._spark.readStream.format("rate").option("rowsPerSecond", RATE_ROWS).option("numPartitions", self._cores).load()
        frame = rows.selectExpr("value", f"cast(repeat('x', {size}) AS binary) AS body")
        query = frame.writeStream.format("noop").option("checkpointLocation", str(self._folder / f"checkpoint-{self._count}")).start()
        deadline = time.monotonic() + RATE_SECONDS_MAX
        while len(batches := _with_rows(query)) < RATE_BATCHES and time.monotonic() < deadline:
            query.awaitTermination(0.2)
        query.stop()
        return _total(batches)


def _with_rows(query: StreamingQuery) -> list[StreamingQueryProgress]:
    return [each for each in query.recentProgress if each.numInputRows]


def _total(batches: Sequence[StreamingQueryProgress]) -> tuple[int, float]:
    """Rows, and the seconds that they took."""
    assert batches, "there was no batch"
    return sum(each.numInputRows for each in batches), sum(each.durationMs["triggerExecution"] for each in batches) / 1000


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def measured(name: str, measure: Callable[[], tuple[int, float]]) -> None:
    say(begin=name)
    try:
        messages, seconds = measure()
    except Exception as error:  # whatever Spark raises: the other measurements go on
        say(error=name, text=" ".join(str(error).split())[:1000])
        return
    say(end=name, messages=messages, seconds=seconds)


def main(arguments: Sequence[str]) -> None:
    cores, messages, deep = int(arguments[0]), int(arguments[3]), int(arguments[4])
    url, folder = arguments[1], Path(arguments[2])
    spark = new_session(folder, f"local[{cores}]", spark__log__level="ERROR")
    bench = Measurements(spark, cores, url, folder)
    for mode in MODES:
        bench.sink("bench.spark.warm", mode, 100, WARM_MESSAGES)
    for columns in COLUMNS.values():
        bench.keep("bench.spark.warm")
        bench.source("bench.spark.warm", columns)
    bench.rate(SIZES[0])
    if deep:
        # First: what others leave behind in the broker's memory would count.
        bench.sink("bench.spark.deep", "none", SIZES[0], deep)
        measured(deep_name(cores), partial(bench.source, "bench.spark.deep", COLUMNS["two"]))
        bench.drop("bench.spark.deep")
    for size, count in zip(SIZES, (messages, messages * LARGER_SHARE // 100), strict=True):
        queues = [f"bench.spark.{mode}.{size}" for mode in MODES]
        for mode, queue in zip(MODES, queues, strict=True):
            measured(sink_name(mode, size, cores), partial(bench.sink, queue, mode, size, count))
        bench.drop(queues[0])
        bench.keep(queues[1])
        for kind, columns in COLUMNS.items():
            measured(source_name(kind, size, cores), partial(bench.source, queues[1], columns))
        bench.drop(queues[1])
        measured(rate_name(size, cores), partial(bench.rate, size))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
