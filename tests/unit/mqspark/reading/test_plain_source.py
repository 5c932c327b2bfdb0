"""What takes the place of readers on a broker that has none: what is handed out, and that nothing else is consumed."""

from __future__ import annotations

import importlib.util
import unittest
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.messages.blocks import MadeBlock
from mqspark.options import Options, Use
from mqspark.reading import queues
from mqspark.reading.plain_source import PlainBroker
from tests.unit.mqspark.fakes import FakeBroker, FakeCluster

OPTIONS = Options.parse({"url": "tcp://127.0.0.1:1", "queue": "q"}, Use.READ_STREAM)


class Browsed(PlainBroker):
    """Browses and consumes a list of ids instead of a queue; each message has ten bytes."""

    def __init__(self) -> None:
        broker: Any = FakeCluster("a").connect(OPTIONS)
        super().__init__(broker, OPTIONS)
        self.ids: list[int] = []

    def _sizes(self, queue: str) -> list[tuple[int, int]]:
        return [(each, 10) for each in self.ids]

    def _take(self, queue: str, wanted: set[int]) -> None:
        self.ids = [each for each in self.ids if each not in wanted]


class PlainBrokerTests(SynchronousTestCase):
    def setUp(self) -> None:
        with self.assertLogs("mqspark.reading.plain_source", "WARNING"):
            self.broker = Browsed()

    def reserve(self, after: int, **limits: int) -> tuple[int, frozenset[int]]:
        found = self.broker.reserve("q", "r", 1, after, **limits)
        return found.until, self.broker.handed_out("q", after, found.until)

    def test_positions_count_and_each_message_is_handed_out_once(self) -> None:
        self.broker.ids = [5, 9, 7]
        self.assertEqual(self.broker.survey("q", -1).messages, 3)
        self.assertEqual(self.reserve(-1, max_messages=2), (2, frozenset({5, 9})))
        self.assertEqual(self.reserve(-1, until=2), (2, frozenset({5, 9})))
        self.broker.ids.append(11)
        self.assertEqual(self.reserve(2, max_bytes=25), (4, frozenset({7, 11})))
        self.assertEqual(self.reserve(4), (4, frozenset()))

    def test_what_was_handed_out_and_not_promised_is_handed_out_again(self) -> None:
        """The answer came too late for the batch, and the query asks again where it stands."""
        self.broker.ids = [5, 9, 7]
        self.assertEqual(self.reserve(-1, max_messages=1), (1, frozenset({5})))
        self.assertEqual(self.reserve(1), (3, frozenset({9, 7})))
        self.assertEqual(self.reserve(1), (3, frozenset({9, 7})))

    def test_a_message_that_appears_late_with_a_small_id_is_neither_lost_nor_consumed_unread(self) -> None:
        self.broker.ids = [5, 9]
        until, _ = self.reserve(-1)
        self.broker.ids.insert(0, 3)
        self.broker.settle("q", "r", 1, until)
        self.assertEqual(self.broker.ids, [3])
        self.assertEqual(self.reserve(until), (3, frozenset({3})))

    def test_after_a_restart_what_was_not_settled_comes_again(self) -> None:
        self.broker.ids = [5, 9, 12]
        state = self.broker.open_reader("q", "r", 40)
        self.assertEqual((state.settled, state.epoch), (40, 1))
        self.assertEqual(self.reserve(40, until=42), (42, frozenset({5, 9})))
        self.assertEqual(self.reserve(42), (43, frozenset({12})))
        self.broker.settle("q", "r", 1, 42)
        self.assertEqual(self.broker.ids, [12])

    def test_what_was_handed_out_is_consumed_over_another_connection(self) -> None:
        """The driver's connection ends between two batches when they are farther apart than its time to live."""
        ids = [5, 9]
        cluster = FakeCluster("a")
        cluster.has_readers = False
        self.patch(queues, "connect", cluster.connect)
        self.patch(PlainBroker, "_sizes", lambda *_: [(each, 10) for each in ids])
        self.patch(PlainBroker, "_take", lambda _, __, wanted: [ids.remove(each) for each in wanted])
        driver = queues.Cluster(OPTIONS)
        driver.look()
        with self.assertLogs("mqspark.reading.plain_source", "WARNING") as said:
            first = driver.broker("a")
            until = first.reserve("q", "r", 1, -1).until
            with mock.patch.object(FakeBroker, "alive", False):
                second = driver.broker("a")
            second.settle("q", "r", 1, until)
        self.assertIsNot(first, second)
        self.assertEqual((ids, second.reserve("q", "r", 1, until).messages), ([], 0))
        self.assertEqual(len(said.output), 1)

    def test_a_block(self) -> None:
        block = MadeBlock([1, 2], [0, 3], [b"abc", b""])
        self.assertEqual((block.count, bytes(block.sizes[:4]), bytes(block.messages), block.lost), (2, b"\0\0\0\3", b"abc", False))
