"""``python -m tests.spark.failures.pipeline URL FOLDER``: the driver program whose parts fail.

Three queries read one queue, each with a reader of its own, and write what they read: to a queue with duplicate ids, to another with
transactions, and to Parquet.  A query that has failed is started again from its checkpoint, as an operator would.  The program leads a
process group of its own, so that it can be killed with its virtual machine; it ends when FOLDER/stop is there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.failures.points import FORMAT, MODES, FaultyDataSource
from tests.spark.support import QUICK_JAVA, login, new_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SOURCE = "pipe.in"
PARQUET = "parquet"
RUNNING = "the queries are running"
FAILED = "started again, since it has failed:"
MESSAGES_MAX = "1000"
"""In a batch, so that there are many of them."""


def out_queue(mode: str) -> str:
    return f"pipe.out.{mode}"


class Pipeline:
    """The three queries."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self._spark = spark
        self._connection = {**login(url), "faults": str(folder / "faults")}
        self._folder = folder
        self._queries: dict[str, StreamingQuery] = {}
        self._starts: dict[str, Callable[[], StreamingQuery]] = {mode: lambda m=mode: self._to_queue(m) for mode in MODES}  # type: ignore[misc]
        self._starts[PARQUET] = self._to_parquet

    def look(self) -> None:
        """Start what does not run."""
        for name, start in self._starts.items():
            query = self._queries.get(name)
            if query is not None and query.isActive:
                continue
            if query is not None:
                reason = str(query.exception()).partition("=== Streaming Query ===")[0]
                print(f"{name} {FAILED} {' '.join(reason.split())[-1000:]}", flush=True)
            self._queries[name] = start()

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()

    def _read(self, name: str) -> DataFrame:
        options = {
            "queue": SOURCE,
            "readerName": name,
            "columns": "text,properties",
            "maxMessagesPerTrigger": MESSAGES_MAX,
            "minPartitions": "2",
        }
        frame = self._spark.readStream.format(FORMAT).options(**self._connection, **options).load()
        return frame.selectExpr("text", "properties['producer']::string AS producer", "properties['number']::long AS number")

    def _checkpoint(self, name: str) -> str:
        return str(self._folder / "checkpoints" / name)

    def _to_queue(self, mode: str) -> StreamingQuery:
        options = {
            "queue": out_queue(mode),
            "exactlyOnce": mode,
            "unknownColumns": "properties",
            "checkpointLocation": self._checkpoint(mode),
        }
        return self._read(mode).writeStream.format(FORMAT).options(**self._connection, **options).start()

    def _to_parquet(self) -> StreamingQuery:
        options = {"path": str(self._folder / PARQUET), "checkpointLocation": self._checkpoint(PARQUET)}
        return self._read(PARQUET).writeStream.format("parquet").options(**options).start()


def main(arguments: Sequence[str]) -> None:
    os.setpgid(0, 0)
    url, folder = arguments[0], Path(arguments[1])
    spark = new_session(folder / "spark", spark__log__level="ERROR", spark__driver__extraJavaOptions=QUICK_JAVA)
    spark.dataSource.register(FaultyDataSource)
    pipeline = Pipeline(spark, url, folder)
    pipeline.look()
    print(RUNNING, flush=True)
    while not (folder / "stop").exists():
        pipeline.look()
        time.sleep(0.2)
    pipeline.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
