"""The streaming source against a cluster in memory and an engine that behaves as Spark's does, crashes included."""

from __future__ import annotations

import importlib.util
import json
import random
import threading
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.types import LongType, StructType

from mqclient.wire.message import CoreMessage
from mqclient.wire.packets import ReaderRange
from mqspark.errors import (
    BrokerUnreachableError,
    FencedError,
)
from mqspark.options import Options, Use
from mqspark.reading import questions, queues, reading
from mqspark.reading.stream_reader import StreamReader
from tests.unit.mqspark.fakes import FakeBroker, FakeCluster, FakeQueue

SCHEMA = StructType().add("message_id", LongType())


class CrashError(Exception):
    pass


class Engine:
    """What Spark does with a source: an offset log, a commit log, and the order of its calls.  ``crash`` names the step to fail at."""

    def __init__(self, case: StreamTestCase, **options: str) -> None:
        self.case = case
        self.options = options
        self.offsets: list[dict[str, Any]] = []
        self.committed = -1
        self.out: list[tuple[str, int]] = []
        self.reader: StreamReader | None = None
        self.start: dict[str, Any] | None = None
        self.uncommitted: dict[str, Any] | None = None

    def run(self) -> StreamReader:
        if self.reader is None:
            self.reader = self.case.reader(**self.options)
            self.start = self.uncommitted = None
        return self.reader

    def crash(self) -> None:
        self.reader = None

    def trigger(self, limit: ReadLimit | None = None, crash: str = "") -> bool:
        """One batch; False when there was nothing."""
        reader = self.run()
        if self.start is None:
            if self.committed >= 0:
                self.start = self.offsets[self.committed]
            else:
                self.start = self.json(reader.initialOffset())
        if len(self.offsets) - 1 > self.committed:
            end = self.offsets[-1]
        else:
            end = self.json(reader.latestOffset(self.start, limit or reader.getDefaultReadLimit()))
            if end == self.start:
                return False
            self.fail(crash, "before the offset log")
            self.offsets.append(end)
            if self.uncommitted is not None:
                reader.commit(self.uncommitted)
                self.uncommitted = None
        self.fail(crash, "after the offset log")
        partitions = reader.partitions(self.start, end)
        rows = []
        for partition in partitions:
            if crash == "task":
                list(reader.read(partition))
            for batch in reader.read(partition):
                rows += [(partition.node.node_id, row["message_id"]) for row in batch.to_pylist()]  # type: ignore[attr-defined]
        self.fail(crash, "before the sink")
        # The sink is idempotent: it has a batch once, whatever is repeated.
        self.out += rows
        self.committed = len(self.offsets) - 1
        self.start = self.uncommitted = end
        self.fail(crash, "after the commit log")
        return True

    def fail(self, crash: str, here: str) -> None:
        if crash and crash == here:
            self.crash()
            raise CrashError(here)

    @staticmethod
    def json(offset: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(json.dumps(offset))
        return found


class StreamTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.use(FakeCluster("a"))

    def use(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.patch(queues, "connect", cluster.connect)
        self.patch(queues, "in_thread", lambda function: function())
        self.patch(reading, "connect", cluster.connect)

    def reader(self, **options: str) -> StreamReader:
        given = {"url": "tcp://127.0.0.1:1", "queue": "q", **options}
        return StreamReader(Options.parse(given, Use.READ_STREAM), SCHEMA)

    def send(self, count: int, node: str = "a", size: int = 0) -> list[tuple[str, int]]:
        return [(node, self.cluster.nodes[node].send("q", CoreMessage(body=b"x" * size))) for _ in range(count)]

    def left(self, node: str = "a") -> list[int]:
        return list(self.cluster.nodes[node].queues["q"].messages)


class BatchesTests(StreamTestCase):
    def test_what_comes_is_read_once_and_settled_one_batch_later(self) -> None:
        sent = self.send(5)
        engine = Engine(self)
        self.assertTrue(engine.trigger())
        self.assertEqual(engine.out, sent)
        self.assertEqual(len(self.left()), 5)
        self.assertFalse(engine.trigger())
        self.assertEqual(self.left(), [])
        sent += self.send(2)
        self.assertTrue(engine.trigger())
        self.assertEqual(engine.out, sent)

    def test_a_query_that_ends_before_its_first_batch_leaves_no_reader(self) -> None:
        self.cluster.nodes["a"].queues["q"] = FakeQueue()
        engine = Engine(self)
        self.assertFalse(engine.trigger())
        self.assertEqual(self.cluster.nodes["a"].queues["q"].readers, {})
        self.send(1)
        with self.assertRaises(CrashError):
            engine.trigger(crash="before the offset log")
        self.assertEqual(self.cluster.nodes["a"].queues["q"].readers, {})

    def test_the_name_that_was_made_up_is_found_in_the_checkpoint(self) -> None:
        self.send(3)
        engine = Engine(self)
        engine.trigger()
        (name,) = self.cluster.nodes["a"].queues["q"].readers
        engine.crash()
        self.send(1)
        engine.trigger()
        self.assertEqual(list(self.cluster.nodes["a"].queues["q"].readers), [name])
        self.assertEqual(engine.offsets[-1]["reader"], name)

    def test_a_given_name_is_open_from_the_start(self) -> None:
        self.send(3)
        engine = Engine(self, readerName="warehouse")
        engine.run().initialOffset()
        self.assertEqual(list(self.cluster.nodes["a"].queues["q"].readers), ["warehouse"])

    def test_two_queues(self) -> None:
        sent = self.send(2)
        other = self.cluster.nodes["a"].send("p")
        engine = Engine(self, queue="q,p")
        engine.trigger()
        self.assertEqual(sorted(engine.out), sorted([*sent, ("a", other)]))

    def test_min_partitions(self) -> None:
        self.send(10)
        reader = self.reader(minPartitions="4")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        partitions = reader.partitions(start, end)
        self.assertEqual(len(partitions), 4)
        self.assertEqual(sum(batch.num_rows for each in partitions for batch in reader.read(each)), 10)

    def test_a_repeated_batch_has_the_tasks_that_it_had(self) -> None:
        """A sink knows repeated rows by their task: neither another option nor another cut of the broker may change what a task reads."""
        self.send(10)
        options = {"minPartitions": "4", "readerName": "r"}
        reader = self.reader(**options)
        start = Engine.json(reader.initialOffset())
        end = Engine.json(reader.latestOffset(start, ReadAllAvailable()))

        def ranges(reader: StreamReader) -> list[tuple[int, int]]:
            return [(each.after, each.until) for each in reader.partitions(start, end)]  # type: ignore[attr-defined]

        first = ranges(reader)
        self.assertEqual(len(first), 4)
        self.assertEqual(ranges(self.reader(**options | {"minPartitions": "3"})), first)
        survey = FakeBroker.survey

        def other(broker: FakeBroker, queue: str, after: int, **limits: int) -> ReaderRange:
            found = survey(broker, queue, after, **limits | {"parts": 1})
            return ReaderRange(found.after, found.until, found.messages, found.bytes, found.oldest, (2, 5, 9, found.until))

        self.patch(FakeBroker, "survey", other)
        self.assertEqual(ranges(self.reader(**options)), first)


class LimitTests(StreamTestCase):
    def batches(self, engine: Engine, limit: ReadLimit | None = None) -> list[int]:
        sizes = []
        before = len(engine.out)
        while engine.trigger(limit):
            sizes.append(len(engine.out) - before)
            before = len(engine.out)
        return sizes

    def test_rows_and_bytes(self) -> None:
        self.send(10, size=100)
        self.assertEqual(self.batches(Engine(self, maxMessagesPerTrigger="4")), [4, 4, 2])
        self.send(10, size=100)
        self.assertEqual(self.batches(Engine(self, maxBytesPerTrigger="500")), [3, 3, 3, 1])
        self.use(FakeCluster("a"))
        self.send(10, size=100)
        self.assertEqual(self.batches(Engine(self, maxMessagesPerTrigger="4", maxBytesPerTrigger="300")), [2] * 5)

    def test_the_engine_wins(self) -> None:
        self.send(10)
        engine = Engine(self, maxMessagesPerTrigger="4")
        self.assertEqual(self.batches(engine, ReadAllAvailable()), [10])
        self.send(3)
        self.assertEqual(self.batches(engine, ReadMinRows(4)), [])
        self.send(1)
        self.assertEqual(self.batches(engine, ReadMinRows(4)), [4])
        self.send(3)
        self.assertEqual(self.batches(engine, ReadMaxRows(1)), [1, 1, 1])
        self.send(2, size=100)
        self.assertEqual(self.batches(engine, ReadMaxBytes(1)), [1, 1])

    def test_a_limit_is_shared_by_the_nodes(self) -> None:
        self.use(FakeCluster("a", "b"))
        self.send(30, "a")
        self.send(10, "b")
        engine = Engine(self, maxMessagesPerTrigger="8")
        sizes = self.batches(engine)
        self.assertEqual((sum(sizes), max(sizes)), (40, 8))
        self.assertEqual(sum(node == "b" for node, _ in engine.out[:8]), 4)

    def test_available_now_ends_though_messages_keep_coming(self) -> None:
        sent = self.send(7)
        engine = Engine(self, maxMessagesPerTrigger="3")
        engine.run().prepareForTriggerAvailableNow()
        more = []
        for _ in range(3):
            self.assertTrue(engine.trigger())
            more += self.send(5)
        self.assertFalse(engine.trigger())
        self.assertEqual(engine.out, sent)
        engine.crash()
        engine.run().prepareForTriggerAvailableNow()
        while engine.trigger():
            pass
        self.assertEqual(engine.out, sent + more)


class SilentNodeTests(StreamTestCase):
    """A node that is away costs its share, not the stream: the other one is planned while nobody knows of the first."""

    def setUp(self) -> None:
        self.use(FakeCluster("a", "b"))
        self.threads: list[threading.Thread] = []
        self.patch(queues, "in_thread", self.start)
        self.patch(questions, "ANSWER_SECONDS", 0.01)
        self.addCleanup(self.speak)
        self.cluster.nodes["a"].queues["q"] = FakeQueue()
        self.cluster.nodes["b"].queues["q"] = FakeQueue()

    def start(self, function: Callable[[], None]) -> None:
        self.threads.append(threading.Thread(target=function, daemon=True))
        self.threads[-1].start()

    def silence(self) -> None:
        """Node b takes connections and questions, and says nothing."""
        self.cluster.nodes["b"].speaks = threading.Event()

    def speak(self) -> None:
        """It answers everything that it was asked."""
        if (event := self.cluster.nodes["b"].speaks) is not None:
            event.set()
        for thread in self.threads:
            thread.join()

    def answer_soon(self) -> threading.Timer:
        """It answers when the time of those that are not waited for is long over."""
        event = self.cluster.nodes["b"].speaks
        assert event is not None

        timer = threading.Timer(0.2, event.set)
        timer.start()
        return timer

    def begun(self, **options: str) -> tuple[Engine, list[tuple[str, int]]]:
        """A query that has everything behind it, committed and settled."""
        sent = self.send(2, "a") + self.send(2, "b")
        engine = Engine(self, readerName="r", **options)
        # Everybody is waited for in the first batch, whatever the machine does.
        with mock.patch.object(questions, "ANSWER_SECONDS", 20):
            self.assertTrue(engine.trigger())
            self.assertFalse(engine.trigger())
        self.assertEqual(sorted(engine.out), sorted(sent))
        return engine, sent

    def read_on(self, engine: Engine, sent: list[tuple[str, int]]) -> None:
        """All batches of node a while b is away, and b's messages when it is back."""
        waiting = self.send(2, "b")
        for _ in range(3):
            sent += self.send(2, "a")
            self.assertTrue(engine.trigger())
            self.assertEqual(sorted(engine.out), sorted(sent))
            self.assertFalse(engine.trigger())
        self.speak()
        self.cluster.nodes["b"].up = True
        with mock.patch.object(questions, "ANSWER_SECONDS", 20):
            # A node that was away is asked without waiting for it, and then as ever.
            engine.trigger()
            self.speak()
            engine.trigger()
        self.assertEqual(sorted(engine.out), sorted(sent + waiting))
        engine.trigger()
        self.assertEqual((self.left("a"), self.left("b")), ([], []))

    def test_a_node_that_falls_silent(self) -> None:
        for options in ({}, {"maxMessagesPerTrigger": "100"}):
            self.setUp()
            engine, sent = self.begun(**options)
            self.silence()
            self.read_on(engine, sent)

    def test_a_node_that_accepts_connections_and_is_silent(self) -> None:
        engine, sent = self.begun()
        self.cluster.nodes["b"].up = False
        self.assertFalse(engine.trigger())
        self.silence()
        self.cluster.nodes["b"].up = True
        self.read_on(engine, sent)

    def test_a_node_that_refuses_connections_while_it_is_tried_for_long(self) -> None:
        engine, sent = self.begun()
        self.silence()
        self.cluster.nodes["b"].up = False
        self.read_on(engine, sent)

    def test_a_silent_node_that_has_answered_is_waited_for_the_next_time(self) -> None:
        """Nobody is slow for ever: what always takes too long would never be read."""
        engine, sent = self.begun()
        self.silence()
        self.assertFalse(engine.trigger())
        self.speak()
        sent += self.send(1, "b")
        self.silence()
        timer = self.answer_soon()
        self.assertTrue(engine.trigger())
        timer.join()
        self.assertEqual(sorted(engine.out), sorted(sent))

    def test_a_run_that_ends_by_itself_waits_for_a_slow_node(self) -> None:
        sent = self.send(2, "a") + self.send(2, "b")
        engine = Engine(self, readerName="r")
        engine.run().prepareForTriggerAvailableNow()
        self.silence()
        timer = self.answer_soon()
        self.assertTrue(engine.trigger())
        timer.join()
        self.assertEqual(sorted(engine.out), sorted(sent))

    def test_a_reader_that_another_query_has_taken_is_told_though_late(self) -> None:
        engine, _ = self.begun()
        self.silence()
        self.send(1, "b")
        self.cluster.nodes["b"].queues["q"].readers["r"].epoch += 1
        self.assertFalse(engine.trigger())
        self.speak()
        with self.assertRaises(FencedError):
            engine.trigger()
            self.speak()
            engine.trigger()

    def test_the_log_says_once_that_a_node_is_away(self) -> None:
        engine, _ = self.begun()
        self.silence()
        with self.assertLogs("mqspark.reading.stream_reader", "WARNING") as logged:
            for _ in range(4):
                engine.trigger()
        self.assertEqual(len([line for line in logged.output if "node b keeps its position and its messages" in line]), 1)

    def test_a_query_that_is_stopped_waits_for_nobody(self) -> None:
        engine, _ = self.begun()
        self.silence()
        engine.trigger()
        engine.run().stop()


class ExactlyOnceTests(StreamTestCase):
    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 2**32))
    def test_whatever_crashes_every_message_comes_once(self, seed: int) -> None:
        rng = random.Random(seed)
        self.use(FakeCluster("a", "b"))
        options = {"maxMessagesPerTrigger": str(rng.randint(1, 6))} if rng.random() < 0.7 else {}
        if rng.random() < 0.5:
            options["readerName"] = "r"
        if rng.random() < 0.3:
            options["minPartitions"] = str(rng.randint(1, 5))
        self._queue("a")
        self._queue("b")
        engine = Engine(self, **options)
        sent = []
        steps = ("", "", "", "before the offset log", "after the offset log", "task", "before the sink", "after the commit log")
        for _ in range(rng.randint(1, 25)):
            choice = rng.random()
            if choice < 0.4:
                sent += self.send(rng.randint(1, 5), rng.choice("ab"))
            elif choice < 0.5:
                node = self.cluster.nodes["b"]
                node.up = not node.up
            else:
                try:
                    engine.trigger(crash=rng.choice(steps))
                except CrashError:
                    pass
                except BrokerUnreachableError:
                    engine.crash()
        self.cluster.nodes["b"].up = True
        engine.crash()
        while engine.trigger():
            pass
        self.assertEqual(sorted(engine.out), sorted(sent), f"seed {seed}")
        if sent:
            self.assertEqual((self.left("a"), self.left("b")), ([], []), f"seed {seed}")

    def _queue(self, node: str) -> None:
        self.cluster.nodes[node].queues.setdefault("q", FakeQueue())
