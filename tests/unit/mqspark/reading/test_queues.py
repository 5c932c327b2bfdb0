"""The queues of a query, on every node."""

from __future__ import annotations

import importlib.util
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.errors import (
    BrokerUnreachableError,
    MissingQueueError,
    ReaderRefusedError,
)
from tests.unit.mqspark.fakes import FakeCluster
from tests.unit.mqspark.reading.test_reading_failures import FailureCase
from tests.unit.mqspark.reading.test_stream_reader import Engine


class QueueTests(FailureCase):
    def test_a_queue_with_consumers_is_refused_at_once(self) -> None:
        self.send(1)
        self.cluster.nodes["a"].queues["q"].consumers = 2
        for options in ({}, {"readerName": "r"}):
            with self.assertRaisesRegex(ReaderRefusedError, "consumers"):
                Engine(self, **options).trigger()

    def test_a_missing_queue(self) -> None:
        self.cluster.nodes["a"].send("other")
        with self.assertRaisesRegex(MissingQueueError, "there is no queue q on any node"):
            Engine(self).trigger()

    def test_a_queue_of_a_node_that_is_away_is_not_missing(self) -> None:
        """A user who is told to create the queue makes a second one, on a node that is there."""
        self.use(FakeCluster("a", "b"))
        self.send(1, "b")
        self.cluster.nodes["b"].up = False
        with self.assertRaisesRegex(BrokerUnreachableError, "queue q is on no node that is there .a., and node b is away: no broker at b"):
            Engine(self).trigger()

    def test_a_run_that_ends_reads_the_other_queues_meanwhile(self) -> None:
        self.use(FakeCluster("a", "b"))
        sent = self.send(1, "a")
        sent += [("b", self.cluster.nodes["b"].send("p"))]
        engine = Engine(self, queue="q,p")
        engine.trigger()
        engine.crash()
        sent += self.send(1, "a")
        self.cluster.nodes["b"].up = False
        engine.run().prepareForTriggerAvailableNow()
        while engine.trigger():
            pass
        self.assertEqual(sorted(engine.out), sorted(sent))

    def test_a_queue_that_only_one_node_has_and_that_comes_to_the_other_later(self) -> None:
        self.use(FakeCluster("a", "b"))
        sent = self.send(2, "b")
        engine = Engine(self)
        engine.trigger()
        sent += self.send(3, "a")
        engine.trigger()
        engine.trigger()
        self.assertEqual(engine.out, sent)
        self.assertEqual((self.left("a"), self.left("b")), ([], []))
