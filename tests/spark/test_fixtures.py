"""The broker and the session that the other tests stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.support import MqbrokerProcess, message_count, received_numbers, send_numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_messages_are_sent_counted_and_received(broker: MqbrokerProcess) -> None:
    assert message_count(broker.url, "fixtures") == 0
    send_numbered(broker.url, "fixtures", 12, first=5, properties=lambda number: {"even": number % 2 == 0})
    assert message_count(broker.url, "fixtures") == 12
    assert received_numbers(broker.url, "fixtures", 12) == list(range(5, 17))


def test_workers_of_spark_find_the_sources(spark: SparkSession) -> None:
    def where(number: int) -> str:
        import mqspark

        return str(mqspark.__file__)

    found = spark.sparkContext.parallelize([1, 2], 2).map(where).distinct().collect()
    import mqspark

    assert found == [mqspark.__file__]
