"""The sources against the real Artemis, which has no readers: at least once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop.artemis import ArtemisBroker
from tests.spark.support import message_count, send_numbered
from tests.spark.test_batch import LARGE, read
from tests.spark.test_stream import available, into, stream, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_queue_of_artemis(spark: SparkSession, artemis: ArtemisBroker, tmp_path: Path) -> None:
    send_numbered(artemis.url, "plain", 60, body=lambda number: LARGE if number == 7 else f"text {number}")
    for _ in range(2):
        rows = (
            read(spark, artemis, "plain", selector="number < 50").selectExpr("text", "properties['number']::int n", "message_id").collect()
        )
        assert sorted(row.n for row in rows) == list(range(50))
        assert {row.n: row.text for row in rows}[7] == LARGE
    query = available(into(stream(spark, artemis.url, queue="plain", maxMessagesPerTrigger="25"), tmp_path))
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [25, 25, 10]
    assert message_count(artemis.url, "plain") == 0
    send_numbered(artemis.url, "plain", 40, first=60)
    available(into(stream(spark, artemis.url, queue="plain"), tmp_path))
    assert written(spark, tmp_path) == list(range(100))
    assert message_count(artemis.url, "plain") == 0
    with pytest.raises(Exception, match="has no readers, so a query can only begin with the oldest message"):
        read(spark, artemis, "plain", startingOffsets="latest").collect()
