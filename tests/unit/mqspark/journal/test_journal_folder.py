"""Data folders that are damaged, and options that do not fit them."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from unittest import mock

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.files.recover import salvage
from mqclient.storageformat.files import folder_name
from mqspark.errors import JournalError
from mqspark.journal import journal_folder
from tests.unit.mqspark.journal.test_journal import JournalTest
from tests.unit.storage.support import LARGE


class DamageTests(JournalTest):
    def setUp(self) -> None:
        super().setUp()
        quick = mock.patch.object(journal_folder, "WAIT_SECONDS", 0.0)
        quick.start()
        self.addCleanup(quick.stop)

    def check(self, path: Path, offset: int, tables: tuple[str, ...] = ("messages", "records")) -> None:
        """Every table names the place, or leaves out what the broker's recovery leaves out."""
        for table in tables:
            with self.assertRaises(JournalError) as caught:
                self.rows(table)
            self.assertIn(f"{path} is damaged at offset {offset}", str(caught.exception))
            self.assertIn("onDamage=skip", str(caught.exception))
        saved = salvage(LocalFileSystem(), self.settings())
        with self.assertLogs("mqspark.journal.journal_reading", "WARNING"):
            found = {row["message_id"] for row in self.rows(onDamage="skip")}
        self.assertEqual(found, {message.message_id for message, _ in saved.recovered.messages})
        damage = {(row["file"], row["offset"]): row for row in self.rows("damage")}
        self.assertIn((str(path), offset), damage)

    def test_a_damaged_frame_of_a_segment(self) -> None:
        self.put()
        path = self.segment(2)
        self.check(path, self.flip(path, 1))

    def test_a_damaged_frame_of_the_last_segment_that_was_durable(self) -> None:
        self.put()
        path = self.segment(-1)
        offset = self.flip(path, 0)
        self.check(path, offset)

    def test_a_damaged_page(self) -> None:
        for compress in (False, True):
            self.put(compress_pages=compress)
            path = next((self.folder / "paging" / folder_name("paged")).glob("*.page"))
            self.check(path, self.flip(path, 0))
            self.empty()

    def test_a_missing_page(self) -> None:
        self.put()
        next((self.folder / "paging" / folder_name("paged")).glob("*.page")).unlink()
        with self.assertRaisesRegex(JournalError, "this page is needed and cannot be read"):
            self.rows()
        self.assertTrue(self.rows(onDamage="skip"))

    def test_a_missing_segment(self) -> None:
        self.put()
        self.segment(1).unlink()
        for table in ("messages", "records", "transactions", "bindings"):
            with self.assertRaisesRegex(JournalError, "this segment is missing"):
                self.rows(table)
        self.assertIn("missing", self.rows("damage")[0]["reason"])

    def test_a_body_is_missing_or_cut_off(self) -> None:
        self.put()
        (body,) = (self.folder / Path(LARGE).name).iterdir()
        whole = len(self.rows())
        content = body.read_bytes()
        body.write_bytes(content[:-1])
        with self.assertRaisesRegex(JournalError, "is cut off"):
            self.rows()
        body.unlink()
        with self.assertRaisesRegex(JournalError, "the body of large message"):
            self.rows()
        with self.assertLogs("mqspark.journal.journal_reading", "WARNING"):
            self.assertEqual(len(self.rows(onDamage="skip")), whole - 1)
        (loss,) = self.rows("damage")
        self.assertEqual((loss["file"], loss["size"]), (str(body), len(content)))
        # Who does not want bodies needs none.
        self.assertEqual(len(self.rows("messages", "message_id")), whole)
