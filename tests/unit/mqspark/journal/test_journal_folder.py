"""Data folders that are damaged, and options that do not fit them."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from pyspark.sql.types import (
    LongType,
    StringType,
    StructType,
)

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.files.recover import salvage
from mqclient.storageformat.files import folder_name
from mqspark.errors import BadOptionError, JournalError, SchemaError
from mqspark.journal import journal_folder
from mqspark.journal.journal_folder import find_folders
from mqspark.journal_tables import check_table_schema, table_ddl
from mqspark.options import Options, Use
from tests.unit.mqspark.journal.test_journal import JournalTest
from tests.unit.storage.support import LARGE


class OptionTests(JournalTest):
    def error(self, **options: str) -> str:
        with self.assertRaises((JournalError, BadOptionError)) as caught:
            find_folders(Options.parse(options, Use.JOURNAL))
        return str(caught.exception)

    def test_folders(self) -> None:
        self.put()
        by_path = find_folders(Options.parse({"path": str(self.folder)}, Use.JOURNAL))
        self.assertEqual(find_folders(Options.parse({"path": f"file://{self.folder}"}, Use.JOURNAL)), by_path)
        instance = self.folder / "instance"
        instance.mkdir()
        (instance / "data").symlink_to(self.folder)
        self.assertEqual(find_folders(Options.parse({"path": str(instance)}, Use.JOURNAL)).journal, str(instance / "data" / "journal"))
        parts = {"journalFolder": by_path.journal, "bindingsFolder": by_path.bindings}
        self.assertEqual(find_folders(Options.parse(parts, Use.JOURNAL)), by_path)

    def test_what_is_no_data_folder(self) -> None:
        self.assertIn("there is no folder", self.error(path=str(self.folder)))
        self.assertIn("option path is missing", self.error())
        self.assertIn("is not a folder of this machine", self.error(path="hdfs://name/folder"))
        for name in ("journal", "bindings"):
            (self.folder / name).mkdir()
        (self.folder / "journal" / "activemq-data-1.amq").write_bytes(b"")
        self.assertIn("Apache ActiveMQ Artemis (activemq-data-1.amq)", self.error(path=str(self.folder)))

    def test_columns(self) -> None:
        self.assertEqual(table_ddl("messages", ("queue", "file")), "queue string, file string")
        with self.assertRaisesRegex(BadOptionError, "has no column mesage_id; did you mean message_id"):
            table_ddl("messages", ("mesage_id",))
        with self.assertRaisesRegex(SchemaError, "the column file has the type bigint; expected string"):
            check_table_schema("records", StructType().add("file", LongType()))
        with self.assertRaisesRegex(SchemaError, "the table damage has no column queue"):
            check_table_schema("damage", StructType().add("queue", StringType()))


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
