"""Settling from Spark's logs and by the listener, against a cluster in memory."""

from __future__ import annotations

import importlib.util
import json
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark import settling
from mqspark.options import Options, Use
from mqspark.reading import queues
from mqspark.reading.offsets import Offset
from mqspark.settling import Settled, settle_checkpoint
from tests.unit.mqspark.fakes import FakeCluster, FakeReader

OPTIONS = {"url": "tcp://127.0.0.1:1"}


class SettlingTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = FakeCluster("a", "b")
        self.patch(queues, "connect", self.cluster.connect)
        self.folder = Path(self.mktemp())
        for _ in range(5):
            self.cluster.nodes["a"].send("q")
        self.queue = self.cluster.nodes["a"].queues["q"]
        self.queue.readers["r"] = FakeReader(2, 1, 5)

    def checkpoint(self, offsets: dict[int, list[object]], commits: list[int]) -> str:
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)
        for batch, lines in offsets.items():
            text = "\n".join(["v1", '{"batchWatermarkMs":0}', *(line if isinstance(line, str) else json.dumps(line) for line in lines)])
            (self.folder / "offsets" / str(batch)).write_text(text)
        for batch in commits:
            (self.folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
            (self.folder / "commits" / f".{batch}.crc").write_bytes(b"crc")
        return str(self.folder)

    def at(self, position: int, reader: str = "r", node: str = "a") -> dict[str, Any]:
        return Offset(reader, {node: {"q": position}}).as_json()

    def settle(self, path: str, dry_run: bool = False) -> list[Settled]:
        return settle_checkpoint(path, Options.parse(OPTIONS, Use.JOB), dry_run=dry_run)


class CheckpointTests(SettlingTestCase):
    def test_the_last_committed_batch_is_settled_and_not_the_one_behind_it(self) -> None:
        path = self.checkpoint({0: [self.at(2)], 1: [self.at(3)], 2: [self.at(5)]}, [0, 1])
        self.assertEqual(self.settle(path, dry_run=True), [Settled("r", "a", "q", 3, 3)])
        self.assertEqual((list(self.queue.messages), self.queue.readers["r"].epoch), ([1, 2, 3, 4, 5], 2))
        self.assertEqual(self.settle("file://" + str(self.folder.absolute())), [Settled("r", "a", "q", 3, 2)])
        self.assertEqual(list(self.queue.messages), [4, 5])
        self.assertEqual(self.settle(path), [Settled("r", "a", "q", 3, 0)])
        self.assertEqual(self.queue.readers["r"].epoch, 2)

    def test_who_may_not_manage_opens_the_reader(self) -> None:
        self.cluster.managed = False
        self.assertEqual(self.settle(self.checkpoint({0: [self.at(3)]}, [0])), [Settled("r", "a", "q", 3, 2)])
        self.assertEqual((list(self.queue.messages), self.queue.readers["r"].epoch), ([4, 5], 3))

    def test_a_reader_that_was_removed_is_not_made_again(self) -> None:
        del self.queue.readers["r"]
        path = self.checkpoint({0: [self.at(3)]}, [0])
        for managed in (True, False):
            self.cluster.managed = managed
            (outcome,) = self.settle(path)
            self.assertIn("has no reader r: it was removed", outcome.problem or "")
            self.assertEqual((len(self.queue.messages), self.queue.readers), (5, {}))

    def test_a_node_that_is_away_is_named(self) -> None:
        path = self.checkpoint({0: [{**self.at(2), "nodes": {"a": {"q": 2}, "gone": {"q": 7}}}]}, [0])
        first, second = self.settle(path)
        self.assertEqual((first.messages, first.problem), (1, None))
        self.assertIn("node gone is not in the topology", second.problem or "")


class ListenerTests(SettlingTestCase):
    def event(self, end: object, latest: object) -> Any:
        source = SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))
        return SimpleNamespace(progress=SimpleNamespace(sources=[SimpleNamespace(endOffset=None, latestOffset=None), source]))

    def told(self, *events: Any) -> None:
        listeners: list[Any] = []
        streams = SimpleNamespace(addListener=listeners.append, removeListener=listeners.remove)
        spark: Any = SimpleNamespace(streams=streams)
        listener = settling.install(spark, OPTIONS)
        self.assertEqual(listeners, [listener])
        for event in events:
            listener.onQueryProgress(event)
        listener.close()
        self.assertEqual(listeners, [])

    def test_a_batch_is_settled_when_it_is_told(self) -> None:
        end = self.at(3)
        self.told(self.event(end, {**end, "epochs": {"a": {"q": 2}}}))
        self.assertEqual((list(self.queue.messages), self.queue.readers["r"].epoch), ([4, 5], 2))

    def test_a_reader_that_another_has_opened_since_is_left_alone(self) -> None:
        end = self.at(3)
        self.told(self.event(end, {**end, "epochs": {"a": {"q": 1}}}), self.event("kafka", {"topic": 1}), self.event(end, None))
        self.assertEqual(len(self.queue.messages), 5)

    def test_a_broker_that_is_away_does_no_harm(self) -> None:
        for node in self.cluster.nodes.values():
            node.up = False
        end = self.at(3)
        self.told(self.event(end, {**end, "epochs": {"a": {"q": 2}}}))
        self.assertEqual(len(self.queue.messages), 5)

    def test_batches_do_not_pile_up_behind_a_node_that_is_away(self) -> None:
        """A node takes long to be missed: that is done for the batch at hand and for the newest one."""
        asked: list[str] = []
        all_told = threading.Event()
        connect = self.cluster.connect

        def slow(options: Options, node: Any = None, **more: Any) -> Any:
            if node is not None and node.node_id == "b":
                all_told.wait(20)
                asked.append(node.node_id)
            return connect(options, node, **more)

        self.patch(queues, "connect", slow)
        self.cluster.nodes["b"].up = False
        streams = SimpleNamespace(addListener=lambda _: None, removeListener=lambda _: None)
        spark: Any = SimpleNamespace(streams=streams)
        listener = settling.install(spark, OPTIONS)
        for position in (2, 3, 4, 5):
            end = Offset("r", {"a": {"q": position}, "b": {"q": position}}).as_json()
            listener.onQueryProgress(self.event(end, {**end, "epochs": {"a": {"q": 2}, "b": {"q": 1}}}))
        all_told.set()
        listener.close()
        self.assertEqual((list(self.queue.messages), asked), ([], ["b", "b"]))

    def test_what_was_not_foreseen_does_not_end_it(self) -> None:
        """Too many open files, for one."""
        end = self.at(3)
        tries = iter((OSError(24, "Too many open files"),))
        connect = self.cluster.connect

        def failing(*args: Any, **more: Any) -> Any:
            for error in tries:
                raise error
            return connect(*args, **more)

        self.patch(queues, "connect", failing)
        with self.assertLogs("mqspark.settling", "ERROR"):
            self.told(*[self.event(end, {**end, "epochs": {"a": {"q": 2}}})] * 2)
        self.assertEqual(list(self.queue.messages), [4, 5])
