"""Tables and columns of a data folder, as options name them."""

from __future__ import annotations

import importlib.util
import unittest

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.types import (
    LongType,
    StringType,
    StructType,
)

from mqspark.errors import BadOptionError, JournalError, SchemaError
from mqspark.journal.journal_folder import find_folders
from mqspark.journal_tables import check_table_schema, table_ddl
from mqspark.options import Options, Use
from tests.unit.mqspark.journal.test_journal import JournalTest


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
