"""The sink's driver: how long it waits for a broker."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StringType, StructType

from mqspark import sink
from mqspark.errors import BrokerUnreachableError
from mqspark.nodes import Node
from mqspark.source import MqbrokerDataSource

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
