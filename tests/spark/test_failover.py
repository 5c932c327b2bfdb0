"""A stream goes on with the backup of a pair when the primary is killed: one that shares the store, and one that has a copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.brokers import Broker
from tests.integration.ha.pair import BACKUP, PRIMARY, SharedPairCase
from tests.integration.ha.processes import ProcessesCase
from tests.integration.ha.replicated_pair import IN_SYNC, VOTER, ReplicatedPairCase
from tests.spark.support import message_count, send_numbered
from tests.spark.test_stream import into, stream, until, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUE = "stream.failover"


class Failover(ProcessesCase):
    primary: Broker
    backup: Broker
    spark: SparkSession
    path: Path

    @pytest.fixture(autouse=True)
    def with_spark(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark, self.path = spark, tmp_path

    def url(self, *names: str) -> str:
        return "({})?ha=true".format(",".join(f"tcp://127.0.0.1:{self.ports[name]}" for name in names))

    def check_that_a_stream_goes_on(self) -> None:
        send_numbered(self.url(PRIMARY), QUEUE, 100)
        frame = stream(self.spark, self.url(PRIMARY, BACKUP), queue=QUEUE)
        query = into(frame, self.path).trigger(processingTime="1 second").start()

        def is_read(count: int) -> bool:
            error = query.exception()
            assert error is None, error
            return sum(each.numInputRows for each in query.recentProgress) >= count

        until(lambda: is_read(100))
        self.primary.kill()
        self.backup.wait_for("AMQ221010")
        send_numbered(self.url(BACKUP), QUEUE, 100, first=100)
        until(lambda: is_read(200))
        # The backup settles also the batch that was read from the primary.
        until(lambda: message_count(self.url(BACKUP), QUEUE) == 0)
        query.stop()
        self.assertEqual(written(self.spark, self.path), [*range(200)])


class SharedStoreTests(Failover, SharedPairCase):
    def test_a_stream_goes_on_with_the_store(self) -> None:
        self.check_that_a_stream_goes_on()


class ReplicationTests(Failover, ReplicatedPairCase):
    def test_a_stream_goes_on_with_the_copy(self) -> None:
        self.start(VOTER)
        self.primary = self.start(PRIMARY)
        self.backup = self.start(BACKUP, IN_SYNC)
        self.check_that_a_stream_goes_on()
