"""The batch source against a cluster in memory: what it plans, and that it takes nothing."""

from __future__ import annotations

import importlib.util
import json
import pickle
import unittest

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThan, LessThan
from pyspark.sql.types import LongType, StringType, StructType

from mqspark.errors import BadOptionError, BrokerUnreachableError, DataLossError, MissingQueueError, SchemaError
from mqspark.options import Options, Use
from mqspark.reading import queues, reading
from mqspark.reading.batch_reader import BatchReader
from mqspark.reading.reading import RangePartition
from tests.unit.mqspark.fakes import FakeCluster, FakeQueue

SCHEMA = StructType().add("message_id", LongType()).add("node_id", StringType()).add("queue", StringType())


class BatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = FakeCluster("a", "b")
        self.patch(queues, "connect", self.cluster.connect)
        self.patch(queues, "in_thread", lambda function: function())
        self.patch(reading, "connect", self.cluster.connect)

    def reader(self, **options: str) -> BatchReader:
        given = {"url": "tcp://127.0.0.1:1", "queue": "q", **options}
        return BatchReader(Options.parse(given, Use.READ), SCHEMA)

    def send(self, node: str, count: int, queue: str = "q") -> list[tuple[str, int]]:
        return [(node, self.cluster.nodes[node].send(queue)) for _ in range(count)]

    def rows(self, reader: BatchReader) -> list[tuple[str, int]]:
        found = []
        for partition in reader.partitions():
            for batch in reader.read(pickle.loads(pickle.dumps(partition))):
                found += [(row["node_id"], row["message_id"]) for row in batch.to_pylist()]
        return found

    def test_every_node_is_read_and_again_and_nothing_is_taken(self) -> None:
        sent = self.send("a", 5) + self.send("b", 4)
        for _ in range(2):
            self.assertEqual(self.rows(self.reader()), sent)
        self.assertEqual(self.cluster.nodes["a"].queues["q"].readers, {})

    def test_min_partitions_are_shared_by_size(self) -> None:
        self.send("a", 30)
        self.send("b", 10)
        partitions = self.reader(minPartitions="8").partitions()
        self.assertEqual(len(partitions), 8)
        nodes = [partition.node.node_id for partition in partitions if isinstance(partition, RangePartition)]
        self.assertEqual((nodes.count("a"), nodes.count("b")), (6, 2))
        self.assertEqual(len(self.rows(self.reader(minPartitions="8"))), 40)
        self.assertEqual(len(self.reader(minPartitions="1000").partitions()), 40)

    def test_offsets(self) -> None:
        sent = self.send("a", 10)
        between = {
            "startingOffsets": json.dumps({"nodes": {"a": {"q": sent[1][1]}}}),
            "endingOffsets": json.dumps({"nodes": {"a": {"q": sent[6][1]}}}),
        }
        self.assertEqual(self.rows(self.reader(**between)), sent[2:7])
        self.assertEqual(self.rows(self.reader(startingOffsets="latest")), [])
        with self.assertRaisesRegex(BadOptionError, "startingOffsets.*is not a message id"):
            self.rows(self.reader(startingOffsets='{"nodes":{"a":{"q":"x"}}}'))

    def test_pushed_ids_and_nodes_narrow_what_is_planned(self) -> None:
        sent = self.send("a", 5)
        self.send("b", 5)
        reader = self.reader()
        filters = [GreaterThan(("message_id",), 2), LessThan(("message_id",), 5), EqualTo(("node_id",), "a"), EqualTo(("priority",), 4)]
        self.assertEqual(list(reader.pushFilters(filters)), [])
        partitions = reader.partitions()
        self.assertEqual([(each.node.node_id, each.selector) for each in partitions], [("a", "AMQPriority = 4")])  # type: ignore[attr-defined]
        self.assertEqual(self.rows(reader), sent[2:4])

    def test_spark_takes_the_source_when_it_pushes_nothing(self) -> None:
        """It refuses a reader whose method is not that of the base class."""
        self.assertIs(self.reader().pushFilters.__func__, DataSourceReader.pushFilters)

    def test_what_others_took_before_is_not_missing(self) -> None:
        sent = self.send("a", 5)
        queue = self.cluster.nodes["a"].queues["q"]
        for _, message_id in sent[:2]:
            del queue.messages[message_id]
        queue.taken = sent[1][1]
        self.assertEqual(self.rows(self.reader()), sent[2:])

    def test_what_others_take_meanwhile_is(self) -> None:
        sent = self.send("a", 5)
        reader = self.reader()
        (partition,) = reader.partitions()
        queue = self.cluster.nodes["a"].queues["q"]
        del queue.messages[sent[0][1]]
        queue.taken = sent[0][1]
        with self.assertRaisesRegex(DataLossError, "queue q on node a"):
            list(reader.read(partition))
        relaxed = self.reader(failOnDataLoss="false")
        self.assertEqual(sum(batch.num_rows for batch in relaxed.read(partition)), 4)

    def test_a_topic_gets_its_subscription(self) -> None:
        reader = self._topic()
        self.assertEqual(self.rows(reader), [])
        self.assertEqual(self.cluster.nodes["a"].queues, {"s": FakeQueue()})
        self.assertEqual(self.cluster.nodes["b"].queues, {"s": FakeQueue()})

    def _topic(self) -> BatchReader:
        given = {"url": "tcp://127.0.0.1:1", "topic": "news", "subscription": "s"}
        return BatchReader(Options.parse(given, Use.READ), SCHEMA)

    def test_errors(self) -> None:
        with self.assertRaisesRegex(MissingQueueError, "there is no queue q on any node"):
            self.reader().partitions()
        self.send("a", 1)
        with self.assertRaisesRegex(MissingQueueError, "there is no queue p on any node"):
            self.reader(queue="q,p").partitions()
        for node in self.cluster.nodes.values():
            node.up = False
        with self.assertRaises(BrokerUnreachableError):
            self.reader().partitions()
        with self.assertRaises(SchemaError):
            BatchReader(Options.parse({"url": "tcp://127.0.0.1:1", "queue": "q"}, Use.READ), StructType().add("x", LongType()))

    def test_a_selector_that_the_broker_does_not_understand_is_refused_though_the_queue_is_empty(self) -> None:
        self.cluster.nodes["b"].queues["q"] = FakeQueue()
        with self.assertRaisesRegex(BadOptionError, "the option selector"):
            self.reader(selector="nonsense =").partitions()

    def test_a_node_that_is_away_fails_the_query_unless_it_may_be_left_out(self) -> None:
        sent = self.send("a", 2)
        self.send("b", 2)
        self.cluster.nodes["b"].up = False
        with self.assertRaisesRegex(BrokerUnreachableError, "node b has messages that cannot be read now"):
            self.rows(self.reader())
        self.assertEqual(self.rows(self.reader(failOnDataLoss="false")), sent)
        # What it alone has is not missing.
        self.send("b", 1, "p")
        with self.assertRaisesRegex(BrokerUnreachableError, "node b has messages that cannot be read now"):
            self.rows(self.reader(queue="q,p"))
        self.assertEqual(self.rows(self.reader(queue="q,p", failOnDataLoss="false")), sent)
