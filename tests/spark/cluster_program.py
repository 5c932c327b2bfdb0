"""``python -m tests.spark.cluster_program MASTER URL FOLDER``: a batch and a stream on a cluster of Spark, whose executors are elsewhere.

Reads the queue ``workers.in`` as a batch into ``workers.batch``, then as a stream into ``workers.stream``, and prints how many executors
ran tasks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.spark.support import NUMBER, QUICK_JAVA, login, new_session

IN, BATCH, STREAM = "workers.in", "workers.batch", "workers.stream"
NUMBERS = f"properties['{NUMBER}']::long AS {NUMBER}"
EXECUTORS = "executors:"


def main(arguments: Sequence[str]) -> None:
    master, url, folder = arguments
    settings = {
        "spark__executor__memory": "512m",
        "spark__executor__cores": "1",
        "spark__cores__max": "2",
        "spark__scheduler__minRegisteredResourcesRatio": "1.0",
        "spark__scheduler__maxRegisteredResourcesWaitingTime": "200s",
        "spark__driver__extraJavaOptions": QUICK_JAVA,
        "spark__executor__extraJavaOptions": QUICK_JAVA,
        "spark__log__level": "ERROR",
    }
    spark = new_session(Path(folder), master, **settings)
    source = {**login(url), "queue": IN, "columns": "properties", "minPartitions": "4"}
    sink = {**login(url), "unknownColumns": "properties"}

    batch = spark.read.format("mqbroker").options(**source).load().selectExpr(NUMBERS)
    batch.write.format("mqbroker").options(**sink, queue=BATCH).mode("append").save()

    stream = spark.readStream.format("mqbroker").options(**source, maxMessagesPerTrigger="1000").load().selectExpr(NUMBERS)
    writer = stream.writeStream.format("mqbroker").options(**sink, queue=STREAM, exactlyOnce="transactions")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()

    def executor(_: object) -> str:
        return os.environ.get("SPARK_EXECUTOR_DIRS", "")

    places = spark.sparkContext.parallelize(range(8), 8).map(executor).distinct().collect()
    print(EXECUTORS, len(places), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
