"""The reading of a task: messages that go while it reads."""

from __future__ import annotations

import importlib.util
import unittest
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.types import BinaryType, LongType, StructType

from mqclient.errors import IllegalStateError
from mqclient.wire.message import CoreMessage, body_end, encode_message
from mqspark.broker.failures import failure
from mqspark.broker.nodes import Node
from mqspark.errors import DataLossError, MqsparkError
from mqspark.messages.blocks import MadeBlock
from mqspark.options import Options, Use
from mqspark.reading import reading
from mqspark.reading.reading import RangePartition, read_range

SCHEMA = StructType().add("message_id", LongType()).add("body", BinaryType())
SIZE = 40 << 20
"""Bytes of a large body, as its message says: two of them make two batches."""


class Queue:
    """A queue of large messages that consumers empty meanwhile; a body is named by its id."""

    def __init__(self, ids: list[int], consumed: dict[int, list[int]], stays: bool = False) -> None:
        """``consumed``: what goes when the body of a message is asked for; ``stays``: only the body goes."""
        self.ids = ids
        self._consumed = consumed
        self._gone: set[int] = set()
        self._stays = stays

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def blocks(self, queue: str, after: int, until: int, *, selector: str | None) -> Iterator[Any]:
        ids = [each for each in self.ids if after < each <= until]
        data = encode_message(CoreMessage())
        headers = SIZE.to_bytes(8, "big") + data[body_end(data) :]
        if ids:
            yield MadeBlock(ids, [0] * len(ids), [headers] * len(ids), bytes([1] * len(ids)))

    def body(self, queue: str, message_id: int, offset: int, size: int) -> bytes:
        self._gone.update(self._consumed.get(message_id, ()))
        if message_id in self._gone:
            if not self._stays:
                self.ids = [each for each in self.ids if each not in self._gone]
            text = f"AMQ229908: queue {queue} has no large message {message_id}: it was settled or removed"
            raise failure(IllegalStateError(text), f"reading the body of message {message_id} of queue {queue}")
        return bytes([message_id]) * size


class LargeMessageTests(SynchronousTestCase):
    def read(self, queue: Queue, **options: str) -> list[int]:
        self.patch(reading, "connect", lambda *_, **__: queue)
        given = Options.parse({"url": "tcp://127.0.0.1:1", "queue": "q", **options}, Use.READ)
        found = []
        for batch in read_range(given, SCHEMA, RangePartition(Node("a", ()), "q", 0, 9, None)):
            for message_id, body in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self.assertEqual((body[:1], len(body)), (bytes([message_id]), SIZE))
                found.append(message_id)
        return found

    def test_one_that_is_consumed_before_its_body_is_read(self) -> None:
        """Each other message comes once, whether it is in a batch before, in the same one, or behind."""
        self.assertEqual(self.read(Queue([1, 2, 3], {2: [2]}), failOnDataLoss="false"), [1, 3])
        self.assertEqual(self.read(Queue([1, 2, 3, 4], {1: [1, 2], 4: [4]}), failOnDataLoss="false"), [3])

    def test_it_is_a_loss_of_data(self) -> None:
        with self.assertRaisesRegex(DataLossError, "has no large message 2.*failOnDataLoss=false continues"):
            self.read(Queue([1, 2], {2: [2]}))

    def test_a_body_that_stays_away_is_an_error(self) -> None:
        with self.assertRaisesRegex(MqsparkError, "has no large message 2"):
            self.read(Queue([1, 2], {2: [2]}, stays=True), failOnDataLoss="false")
