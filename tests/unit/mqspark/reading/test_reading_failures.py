"""What a stream says when something fails."""

from __future__ import annotations

import contextlib
import importlib.util
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructType

from mqspark.broker.nodes import Node
from mqspark.errors import (
    BadOptionError,
    BrokerUnreachableError,
    DataLossError,
    FencedError,
    MqsparkError,
    SchemaError,
)
from mqspark.options import Options, Use
from mqspark.reading import queues
from mqspark.reading.stream_reader import StreamReader
from tests.unit.mqspark.fakes import FakeBroker, FakeCluster, FakeQueue
from tests.unit.mqspark.reading.test_stream_reader import CrashError, Engine, StreamTestCase


class FailureCase(StreamTestCase):
    @contextlib.contextmanager
    def lost(self, node_id: str, question: str, queue: str = "") -> Iterator[None]:
        """The node goes away when it is asked this (about that queue)."""
        usual = getattr(FakeBroker, question)

        def ask(broker: FakeBroker, *args: Any, **more: Any) -> Any:
            if broker.node_id == node_id and (not queue or queue in args):
                self.cluster.nodes[node_id].up = False
            return usual(broker, *args, **more)

        with mock.patch.object(FakeBroker, question, ask):
            yield


class FailureTests(FailureCase):
    def test_two_queries_with_one_name(self) -> None:
        sent = self.send(4)
        first = Engine(self, readerName="r", maxMessagesPerTrigger="2")
        first.trigger()
        second = Engine(self, readerName="r")
        second.run().initialOffset()
        with self.assertRaisesRegex(FencedError, "opened by another one: epoch 2, yours is 1"):
            first.trigger()
        self.assertEqual(len(self.left()), 4)
        second.start = None
        second.trigger()
        self.assertEqual(second.out, sent)

    def test_another_name_than_the_checkpoint_has(self) -> None:
        self.send(1)
        engine = Engine(self, readerName="r")
        engine.trigger()
        engine.crash()
        engine.options = {"readerName": "s"}
        with self.assertRaisesRegex(BadOptionError, "was written by reader r"):
            engine.trigger()

    def test_a_selector_that_the_broker_does_not_understand(self) -> None:
        self.cluster.nodes["a"].queues["q"] = FakeQueue()
        with self.assertRaisesRegex(BadOptionError, "the option selector"):
            Engine(self, selector="nonsense =").trigger()

    def test_nobody_there(self) -> None:
        self.cluster.nodes["a"].up = False
        with self.assertRaises(BrokerUnreachableError):
            Engine(self).trigger()

    def test_a_node_that_goes_keeps_its_position_and_is_read_on_when_it_is_back(self) -> None:
        self.use(FakeCluster("a", "b"))
        sent = self.send(2, "a") + self.send(2, "b")
        engine = Engine(self)
        engine.trigger()
        self.cluster.nodes["b"].up = False
        sent += self.send(2, "a") + self.send(2, "b")
        engine.trigger()
        self.assertEqual(sorted(engine.out), sorted(sent[:6]))
        self.cluster.nodes["b"].in_topology = False
        engine.crash()
        self.assertFalse(engine.trigger())
        self.cluster.nodes["b"].up = self.cluster.nodes["b"].in_topology = True
        engine.trigger()
        engine.trigger()
        self.assertEqual(sorted(engine.out), sorted(sent))
        self.assertEqual((self.left("a"), self.left("b")), ([], []))

    def test_a_node_that_goes_while_a_batch_is_planned(self) -> None:
        """Nothing of it was promised yet: the others are read on, whatever it was asked last."""
        for limit in (None, ReadMaxRows(3)):
            for question in ("survey", "reserve", "settle"):
                self.use(FakeCluster("a", "b"))
                sent = self.send(2, "a") + self.send(2, "b")
                engine = Engine(self, readerName="r")
                engine.trigger()
                sent += self.send(2, "a") + self.send(2, "b")
                with self.lost("b", question):
                    engine.trigger(limit)
                self.assertEqual(sorted(engine.out), sorted(sent[:6]), question)
                self.cluster.nodes["b"].up = True
                while engine.trigger():
                    pass
                self.assertEqual(sorted(engine.out), sorted(sent), question)

    def test_a_node_that_goes_between_two_of_its_queues(self) -> None:
        self.use(FakeCluster("a", "b"))
        engine = Engine(self, queue="q,p")
        sent = self.send(1, "a") + self.send(1, "b")
        self.cluster.nodes["b"].queues["p"] = FakeQueue()
        engine.trigger()
        sent += self.send(1, "a") + self.send(1, "b")
        with self.lost("b", "queue_query", "p"):
            engine.trigger()
        self.assertEqual(sorted(engine.out), sorted(sent[:3]))

    def test_all_nodes_go_and_one_comes_back(self) -> None:
        """A query that runs waits for any of them as long as it would for the only one."""
        for failures, waits in ((8, True), (100, False)):
            self.use(FakeCluster("a", "b"))
            sent = self.send(2, "a")
            engine = Engine(self, queue="q,p", connectTimeout="1000", reconnectTimeout="8000")
            self.cluster.nodes["b"].queues["p"] = FakeQueue()
            engine.trigger()
            sent += self.send(2, "a")
            for node in self.cluster.nodes.values():
                node.up = False
            connect, left = self.cluster.connect, iter(range(failures))

            def late(*args: Any, connect: Any = connect, left: Iterator[int] = left, **more: Any) -> FakeBroker:
                if next(left, None) is None:
                    self.cluster.nodes["a"].up = True
                broker: FakeBroker = connect(*args, **more)
                return broker

            self.patch(queues, "connect", late)
            if waits:
                engine.trigger()
                self.assertEqual(engine.out, sent)
            else:
                self.assertRaises(BrokerUnreachableError, engine.trigger)
                self.assertGreater(next(left), 8)

    def test_a_new_query_does_not_wait_for_any(self) -> None:
        self.use(FakeCluster("a", "b"))
        self.send(2, "a")
        asked: list[object] = []

        def refused(_: object, node: Node | None = None, **__: object) -> FakeBroker:
            asked.append(node)
            if node is None:
                return FakeBroker(self.cluster, self.cluster.nodes["a"])
            raise BrokerUnreachableError("the host is not known here")

        self.patch(queues, "connect", refused)
        self.assertRaises(BrokerUnreachableError, Engine(self).trigger)
        self.assertEqual(len(asked), 3)

    def test_the_only_node_goes_while_a_batch_is_planned(self) -> None:
        self.send(2, "a")
        engine = Engine(self, readerName="r")
        with self.lost("a", "reserve"), self.assertRaises(BrokerUnreachableError):
            engine.trigger()

    def test_a_range_that_was_written_down_waits_for_its_node(self) -> None:
        self.use(FakeCluster("a", "b"))
        sent = self.send(2, "a") + self.send(2, "b")
        engine = Engine(self)
        with self.assertRaises(CrashError):
            engine.trigger(crash="after the offset log")
        self.cluster.nodes["b"].up = False
        with self.assertRaises(BrokerUnreachableError):
            engine.trigger()
        self.assertEqual(engine.out, [])
        self.cluster.nodes["b"].up = True
        engine.crash()
        engine.trigger()
        self.assertEqual(sorted(engine.out), sorted(sent))

    def test_a_first_batch_that_is_repeated_begins_with_the_newest_messages_of_its_first_run(self) -> None:
        """Also in a queue that it takes nothing from: what came there meanwhile is for the next batch."""
        engine = Engine(self, queue="q,p", startingOffsets="latest")
        self.send(1)
        self.cluster.nodes["a"].send("p")
        engine.start = engine.json(engine.run().initialOffset())
        sent = self.send(2)
        with self.assertRaises(CrashError):
            engine.trigger(crash="after the offset log")
        sent += [("a", self.cluster.nodes["a"].send("p"))]
        while engine.trigger():
            pass
        self.assertEqual(engine.out, sent)

    def test_a_queue_that_the_query_does_not_read_any_more(self) -> None:
        """Its position stays in the checkpoint, but it gets no reader again: it may be deleted, or have consumers now."""
        for deleted in (True, False):
            self.use(FakeCluster("a"))
            sent = self.send(1)
            sent += [("a", self.cluster.nodes["a"].send("p"))]
            engine = Engine(self, queue="q,p")
            engine.trigger()
            engine.trigger()
            engine.crash()
            engine.options = {"queue": "q"}
            queues = self.cluster.nodes["a"].queues
            queues["p"].readers.clear()
            queues["p"].consumers = 1
            if deleted:
                del queues["p"]
            sent += self.send(1)
            engine.trigger()
            self.assertEqual(sorted(engine.out), sent)
            self.assertFalse(not deleted and queues["p"].readers)

    def test_messages_that_are_gone(self) -> None:
        for fail in ("true", "false"):
            self.use(FakeCluster("a"))
            sent = self.send(4)
            engine = Engine(self, readerName="r", failOnDataLoss=fail)
            with self.assertRaises(CrashError):
                engine.trigger(crash="after the offset log")
            queue = self.cluster.nodes["a"].queues["q"]
            for _, message_id in sent[:2]:
                del queue.messages[message_id]
            queue.taken = queue.readers["r"].settled = sent[1][1]
            if fail == "true":
                with self.assertRaisesRegex(DataLossError, "failOnDataLoss=false continues"):
                    engine.trigger()
                self.assertEqual(engine.out, [])
            else:
                engine.trigger()
                self.assertEqual(engine.out, sent[2:])

    def test_a_schema_that_does_not_match_fails_before_anything_is_asked(self) -> None:
        self.cluster.nodes["a"].up = False
        options = Options.parse({"url": "tcp://127.0.0.1:1", "queue": "q"}, Use.READ_STREAM)
        with self.assertRaises(SchemaError):
            StreamReader(options, StructType().add("wrong", LongType()))

    def test_an_offset_of_something_else(self) -> None:
        for offset in ({}, {"nodes": 1}, {"nodes": {}, "version": 2}, {"nodes": {"a": {"q": "1"}}}, {"nodes": {"a": {"q": -2}}}):
            with self.assertRaisesRegex(MqsparkError, "the offset .* cannot be read"):
                self.reader().latestOffset(offset, ReadAllAvailable())

    def test_a_broker_without_readers_is_said_once_and_has_no_positions_to_begin_at(self) -> None:
        self.send(1)
        self.cluster.has_readers = False
        with self.assertLogs("mqspark.reading.plain_source", "WARNING") as said:
            self.reader().prepareForTriggerAvailableNow()
        self.assertEqual(len(said.output), 1)
        self.assertIn("messages are read at least once, not exactly once", said.output[0])
        with self.assertRaisesRegex(BadOptionError, "has no readers, so a query can only begin with the oldest message"):
            self.reader(startingOffsets="latest").initialOffset()

    def test_what_is_reported(self) -> None:
        self.send(3)
        engine = Engine(self, readerName="r")
        engine.trigger()
        report = engine.run().reportLatestOffset()
        assert report is not None
        self.assertEqual((report["messages"], report["notSettled"]), ({"a": {"q": 3}}, 3))
        engine.trigger()
        report = engine.run().reportLatestOffset()
        assert report is not None
        self.assertEqual((report["messages"], report["notSettled"]), ({"a": {"q": 0}}, 0))
