"""The sink: how long its driver waits for a broker, and which nodes its tasks send to."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StringType, StructType

from mqspark.broker.nodes import Node
from mqspark.errors import BrokerUnreachableError
from mqspark.source import MqbrokerDataSource
from mqspark.writing import sink
from mqspark.writing.plans import Record

SCHEMA = StructType().add("text", StringType())


class Broker(SimpleNamespace):
    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class WaitingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.asked: list[bool] = []
        self.patch(sink, "nodes", self.nodes)
        self.patch(sink, "connect", lambda *_, **__: Broker())
        self.patch(sink, "resolve", lambda *_: None)
        self.checkpoint = Path(self.mktemp()) / "checkpoint"

    def nodes(self, options: Any, *, patient: bool = False) -> list[Node]:
        """A broker that takes longer to come back than a new query waits."""
        self.asked.append(patient)
        if not patient:
            raise BrokerUnreachableError("no broker can be reached")
        return [Node("a", (), alone=True)]

    def write(self, **options: str) -> None:
        given = CaseInsensitiveDict({"url": "tcp://127.0.0.1:1", "queue": "q", "exactlyOnce": "none", **options})
        source = MqbrokerDataSource(given)
        source.streamWriter(SCHEMA, False)

    def test_a_stream_that_has_begun_waits_as_long_as_a_query_that_runs(self) -> None:
        (self.checkpoint / "commits").mkdir(parents=True)
        (self.checkpoint / "commits" / "0").touch()
        for path in (str(self.checkpoint.absolute()), self.checkpoint.absolute().as_uri()):
            self.asked.clear()
            self.write(checkpointLocation=path)
            self.assertEqual(self.asked, [False, True])

    def test_a_new_one_fails_at_once(self) -> None:
        for options in ({}, {"checkpointLocation": str(self.checkpoint)}, {"checkpointLocation": "none://there"}):
            with self.assertRaises(BrokerUnreachableError):
                self.write(**options)
        (self.checkpoint / "commits").mkdir(parents=True)
        with self.assertRaises(BrokerUnreachableError):
            self.write(checkpointLocation=str(self.checkpoint))
        self.assertEqual(set(self.asked), {False})


class SilenceTests(SynchronousTestCase):
    """A task that waits for its rows sends nothing meanwhile."""

    def ttl(self, **options: str) -> object:
        settings: list[dict[str, object]] = []

        def connect(_: object, node: Node, **given: object) -> Broker:
            settings.append(given)
            return Broker(node_id=node.node_id)

        self.patch(sink, "nodes", lambda *_, **__: [Node("a", ())])
        self.patch(sink, "connect", connect)
        self.patch(sink, "resolve", lambda *_: None)
        self.patch(sink, "_Task", lambda *_: Broker(send=lambda _: None, end=lambda _: None, budget=Broker(sent={}, sizes={})))
        self.patch(sink, "TaskContext", Broker(get=lambda: Broker(partitionId=lambda: 0, attemptNumber=lambda: 0)))
        given = CaseInsensitiveDict({"url": "tcp://127.0.0.1:1", "address": "q", **options})
        writer = MqbrokerDataSource(given).writer(SCHEMA, False)
        writer.write(iter([pa.record_batch({"text": ["x"]})]))  # type: ignore[arg-type]
        return settings[-1].get("connection_ttl")

    def test_a_transaction_lasts_as_long_as_its_timeout_says(self) -> None:
        """A transaction ends with its connection, which a broker ends that hears nothing for the TTL."""
        self.assertEqual(self.ttl(exactlyOnce="transactions"), 3_600_000)
        self.assertEqual(self.ttl(exactlyOnce="transactions", transactionTimeout="100000"), 100_000)
        for ttl, expected in ((200_000, 200_000), (50_000, 100_000), (-1, -1)):
            url = f"tcp://127.0.0.1:1?connectionTTL={ttl}"
            self.assertEqual(self.ttl(exactlyOnce="transactions", transactionTimeout="100000", url=url), expected)

    def test_other_messages_are_sent_again_over_another_connection(self) -> None:
        for mode in ("duplicateIds", "none"):
            self.assertIs(self.ttl(exactlyOnce=mode), None)


class NodesTests(SynchronousTestCase):
    """Which node a task of a stream sends to."""

    def setUp(self) -> None:
        self.patch(sink, "nodes", lambda *_, **__: [Node(name, ()) for name in "abc"])
        self.patch(sink, "connect", lambda _, node, **__: Broker(node_id=node.node_id))
        self.patch(sink, "resolve", lambda *_: None)
        self.patch(sink, "_Task", lambda *_: Broker(send=lambda _: None, end=lambda _: None, budget=Broker(sent={}, sizes={})))

    def sent_to(self, batch: int, partition: int, **options: str) -> str | None:
        properties = {sink.QUERY_PROPERTY: "6fd8d0f6-0b3c-4e0f-a8d0-d8b1c4a3a7a1", sink.BATCH_PROPERTY: str(batch)}
        context = Broker(partitionId=lambda: partition, getLocalProperty=properties.get)
        self.patch(sink, "TaskContext", Broker(get=lambda: context))
        given = CaseInsensitiveDict({"url": "tcp://127.0.0.1:1", "address": "q", "exactlyOnce": "none", **options})
        written = MqbrokerDataSource(given).streamWriter(SCHEMA, False).write(iter([pa.record_batch({"text": ["x"]})]))  # type: ignore[arg-type]
        assert isinstance(written, sink.Written)
        return written.node_id

    def test_batches_of_one_task_use_every_node_in_turn(self) -> None:
        self.assertEqual([self.sent_to(batch, 0) for batch in range(5)], ["a", "b", "c", "a", "b"])

    def test_the_tasks_of_a_batch_use_different_nodes_and_each_the_same_when_it_is_repeated(self) -> None:
        for _ in range(2):
            self.assertEqual([self.sent_to(1, partition) for partition in range(4)], ["b", "c", "a", "b"])

    def test_the_nodes_of_the_plan_are_used_in_turn_whoever_else_is_there(self) -> None:
        record = Record(("a", "c"), confirmed=True)
        self.patch(sink, "NodePlans", lambda _: Broker(look=lambda _: record))
        self.assertEqual([self.sent_to(batch, 0, exactlyOnce="duplicateIds") for batch in range(3)], ["a", "c", "a"])
