"""Rows of the tables of a data folder."""

from __future__ import annotations

import importlib.util
import unittest
import uuid
from typing import Any
from unittest import mock

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.types import LongType, StructType, TimestampType

from mqclient.storageformat.records import MessageRecord
from mqclient.storageformat.surviving import Survivor, index_of
from mqspark.journal.journal import SharePartition, _message_values
from mqspark.journal.journal_folder import LocalFiles
from mqspark.journal.journal_reading import Found
from mqspark.journal.journal_rows import Rows
from mqspark.messages import blocks
from tests.unit.mqspark.journal.test_journal import TableCase


class RowTests(TableCase):
    def test_all_columns_say_where_a_message_is(self) -> None:
        self.put()
        rows = self.rows("messages", includePrepared="true")
        self.assertEqual({bool(row["paged"]) for row in rows}, {True, False})
        node_id = str(uuid.UUID(bytes=index_of(LocalFiles(), self.folders()).node_id))
        for row in rows:
            self.assertEqual(row["paged"], row["file"].endswith(".page"))
            self.assertIn(f"{row['sequence']:08d}", row["file"])
            self.assertGreater(row["offset"], 0)
            self.assertEqual(row["node_id"], node_id)
        (prepared,) = [row for row in rows if row["xid"] is not None]
        self.assertTrue(prepared["xid"].startswith("7:"))

    def test_records_are_all_that_counts_and_messages_have_their_columns(self) -> None:
        self.put(compress_pages=True)
        rows = self.rows("records")
        kinds = {row["record"] for row in rows}
        self.assertLessEqual({"message", "acknowledge", "branch", "branch_ends", "page", "binding", "schedule", "page_position"}, kinds)
        self.assertEqual({row["journal"] for row in rows}, {"messages", "bindings", "page"})
        for row in rows:
            self.assertEqual(row["record"] == "message", row["detail"] is None)
            self.assertEqual(row["record"] == "message", row["type"] is not None)
        plain = [row for row in rows if row["record"] == "message" and row["body"] == bytes([5]) * 400]
        self.assertEqual([(row["queues"], row["address"], row["moved"]) for row in plain], [(["q"], "a", False)])
        acknowledged = {row["message_id"] for row in rows if row["record"] == "acknowledge"}
        self.assertFalse(acknowledged & {row["message_id"] for row in self.rows() if not row["paged"]} - {1})
        # Large bodies are in files of their own.
        self.assertTrue(any(row["record"] == "message" and row["body"] is None for row in rows))
        places = [(row["file"], row["position"]) for row in rows]
        self.assertEqual(len(places), len(set(places)))

    def test_large_messages_of_many_bytes_beside_others(self) -> None:
        """The bodies are not read, but where they would make several batches, the messages around them have their columns all the same."""
        self.put()
        expected = self.rows("records")
        with mock.patch.object(blocks, "BATCH_BODIES_BYTES", 1):
            self.assertEqual(self.rows("records"), expected)

    def test_only_wanted_columns(self) -> None:
        self.put()
        self.assertEqual({tuple(row) for row in self.rows("messages", "queue", "message_id")}, {("message_id", "queue")})
        self.assertEqual({tuple(row) for row in self.rows("messages", "file")}, {("file",)})

    def test_a_message_that_is_never_due_has_the_latest_time_that_can_be_shown(self) -> None:
        """A message of that kind would else make the whole folder unreadable."""
        record = MessageRecord(7, 0, (1,), b"", "a", None, 0, False)
        partition: Any = SharePartition(None, "", {}, {})  # type: ignore[arg-type]
        rows = Rows(StructType().add("scheduled", TimestampType()).add("queue_id", LongType()), "", False)
        for scheduled in (2**63 - 1, 5, 0):
            rows.add(_message_values(Found(Survivor(0, record, 1), "f", 1), partition, 1, scheduled, False))
        (batch,) = rows.batches()
        self.assertEqual(batch.column(0).cast("int64").to_pylist(), [253_402_300_799_999_000, 5000, None])
