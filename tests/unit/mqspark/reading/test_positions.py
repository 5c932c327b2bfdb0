"""Where a query begins."""

from __future__ import annotations

import importlib.util
import json
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from tests.unit.mqspark.fakes import FakeCluster, FakeQueue
from tests.unit.mqspark.reading.test_stream_reader import CrashError, Engine, StreamTestCase


class PositionTests(StreamTestCase):
    def test_latest_begins_behind_the_newest_also_when_the_first_batch_is_repeated(self) -> None:
        self.send(3)
        engine = Engine(self, startingOffsets="latest")
        self.assertFalse(engine.trigger())
        sent = self.send(2)
        with self.assertRaises(CrashError):
            engine.trigger(crash="after the offset log")
        sent_later = self.send(2)
        self.assertTrue(engine.trigger())
        self.assertEqual(engine.out, sent)
        engine.trigger()
        self.assertEqual(engine.out, sent + sent_later)

    def test_positions_of_the_option(self) -> None:
        sent = self.send(5)
        engine = Engine(self, startingOffsets=json.dumps({"nodes": {"a": {"q": sent[1][1]}}}))
        engine.trigger()
        self.assertEqual(engine.out, sent[2:])

    def test_positions_of_the_option_hold_for_a_node_that_was_away_at_the_beginning(self) -> None:
        for options in ({}, {"readerName": "r"}):
            self.use(FakeCluster("a", "b"))
            self.cluster.nodes["a"].queues["q"] = FakeQueue()
            self.send(2, "b")
            begins = json.dumps({"version": 1, "nodes": {"b": {"q": 2}}})
            self.cluster.nodes["b"].up = False
            engine = Engine(self, startingOffsets=begins, **options)
            sent = self.send(1, "a")
            engine.trigger()
            self.cluster.nodes["b"].up = True
            sent += self.send(1, "b")
            while engine.trigger():
                pass
            self.assertEqual(engine.out, sent)
