"""The tables of a data folder, without a Spark session: what a reader gives agrees with what the broker recovers, and damage is told."""

from __future__ import annotations

import importlib.util
import json
import pickle
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import TestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.files.recover import read_folder
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.frames import decode_segment_header, read_frames
from mqclient.storageformat.surviving import index_of
from mqspark.journal.journal import JournalReader
from mqspark.journal.journal_folder import LocalFiles, find_folders
from mqspark.journal.journal_reading import PackedShare
from mqspark.journal_tables import TABLES
from mqspark.options import Options, Use
from tests.unit.mqclient.storageformat.test_surviving import make
from tests.unit.storage.support import Rig

_PAIR = StructType().add("queue_id", LongType()).add("queue", StringType()).add("message_id", LongType())
TYPES: dict[str, DataType] = {
    "bigint": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "array<bigint>": ArrayType(LongType()),
    "array<string>": ArrayType(StringType()),
    "map<string,variant>": MapType(StringType(), VariantType()),
    "array<struct<queue_id:bigint,queue:string,message_id:bigint>>": ArrayType(_PAIR),
}


def schema_of(table: str, *names: str) -> StructType:
    schema = StructType()
    for column in TABLES[table]:
        if column.name in names or not names:
            schema.add(column.name, TYPES[column.type])
    return schema


def put(rig: Rig, folder: Path) -> None:
    """The files of a simulated disk, on the real one."""
    for path, data in rig.disk.files().items():
        target = folder / path.removeprefix("/data/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


class JournalTest(TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-journal-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def put(self, **settings: Any) -> None:
        put(make(**settings), self.folder)

    def empty(self) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    def settings(self) -> StoreSettings:
        parts = [str(self.folder / name) for name in ("journal", "bindings", "large-messages", "paging")]
        return StoreSettings(*parts[:3], paging_directory=parts[3])

    def rows(self, table: str = "messages", *names: str, **options: str) -> list[dict[str, Any]]:
        chosen = Options.parse({"path": str(self.folder), "table": table, **options}, Use.JOURNAL)
        reader = JournalReader(chosen, schema_of(table, *names))
        found = []
        for partition in pickle.loads(pickle.dumps(reader.partitions())):
            for batch in pickle.loads(pickle.dumps(reader)).read(partition):
                found += batch.to_pylist()
        return found

    def segment(self, number: int) -> Path:
        return sorted((self.folder / "journal").glob("mqbroker-data-*.mqj"))[number]

    def flip(self, path: Path, frame: int) -> int:
        """Damage the end of a frame; returns where the frame begins."""
        data = bytearray(path.read_bytes())
        found = list(read_frames(memoryview(bytes(data)), decode_segment_header(data).seed))[frame]
        data[found.end - 1] ^= 1
        path.write_bytes(data)
        return found.offset


class TableCase(JournalTest):
    def expected(self, **options: str) -> list[tuple[object, ...]]:
        recovered = read_folder(LocalFileSystem(), self.settings())
        names = {queue.queue_id: queue.name for queue in recovered.queues}
        entries = list(recovered.messages)
        if options:
            entries += [entry for branch in recovered.branches for entry in branch.messages]
        return sorted(
            (
                message.message_id,
                names[reference.queue_id],
                reference.delivery_count,
                reference.scheduled,
                message.address,
                message.decoded().body if message.large is None else message.large.read(0, 1 << 20),
            )
            for message, references in entries
            for reference in references
        )

    def found(self, **options: str) -> list[tuple[object, ...]]:
        names = ("message_id", "queue", "delivery_count", "scheduled", "address", "body")
        return sorted(
            (
                row["message_id"],
                row["queue"],
                row["delivery_count"],
                0 if row["scheduled"] is None else round(row["scheduled"].timestamp() * 1000),
                row["address"],
                row["body"],
            )
            for row in self.rows("messages", *names, **options)
        )

    def folders(self) -> Any:
        return find_folders(Options.parse({"path": str(self.folder)}, Use.JOURNAL))


class TableTests(TableCase):
    def test_messages_are_those_that_a_start_recovers(self) -> None:
        for compress in (False, True):
            self.put(compress_pages=compress)
            self.assertEqual(self.found(), self.expected())
            self.assertEqual(self.found(includePrepared="true"), self.expected(includePrepared="true"))
            self.assertGreater(len(self.expected(includePrepared="true")), len(self.expected()))
            self.empty()

    def test_what_is_read_is_left_as_it_was(self) -> None:
        self.put()
        before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in self.folder.rglob("*") if path.is_file()}
        for table in TABLES:
            self.rows(table)
        self.assertEqual({path: (path.stat().st_mtime_ns, path.read_bytes()) for path in self.folder.rglob("*") if path.is_file()}, before)

    def test_one_partition_for_each_file(self) -> None:
        self.put()
        chosen = Options.parse({"path": str(self.folder), "table": "messages"}, Use.JOURNAL)
        index = index_of(LocalFiles(), self.folders())
        self.assertEqual(len(JournalReader(chosen, schema_of("messages")).partitions()), len(index.segments) + len(index.pages))
        self.assertGreater(len(index.segments), 2)

    def test_transactions(self) -> None:
        self.put()
        prepared, decided = sorted(self.rows("transactions"), key=lambda row: row["state"], reverse=True)
        (message,) = [row["message_id"] for row in self.rows(includePrepared="true") if row["xid"] is not None]
        self.assertEqual((prepared["state"], prepared["messages"], prepared["duplicate_ids"]), ("prepared", [message], 2))
        self.assertEqual([(each["queue"], each["message_id"]) for each in prepared["acknowledgements"]], [("q", 1)])
        self.assertEqual(prepared["time"].timestamp(), 1_700_000_000)
        self.assertEqual((decided["state"], decided["messages"]), ("committed", []))

    def test_bindings(self) -> None:
        self.put()
        queues = {row["name"]: row["address"] for row in self.rows("bindings") if row["kind"] == "queue"}
        self.assertEqual(queues, {"q": "a", "p0": "paged", "o0": "paged"})

    def test_no_password_shows(self) -> None:
        """Users and bridges that management has made are settings, and their passwords may be plain."""
        rig = Rig(3)
        rig.start()
        kept = {
            ("user", "ann"): {"password": "geheim", "roles": ["amq"]},
            ("bridge", "b"): {"masked_password": "geheim", "queue_name": "q", "parts": [{"trustStorePassword": "geheim"}]},
        }
        batch = rig.store.begin()
        for (kind, key), value in kept.items():
            batch.put_setting(kind, key, json.dumps(value))
        batch.put_setting("note", "n", "no JSON")
        rig.store.commit(batch)
        rig.settle()
        rig.stop()
        put(rig, self.folder)
        shown = {row["name"]: json.loads(row["value"])["value"] for row in self.rows("bindings") if row["kind"] == "setting"}
        self.assertEqual(json.loads(shown["ann"]), {"password": "***", "roles": ["amq"]})
        self.assertEqual(json.loads(shown["b"]), {"masked_password": "***", "queue_name": "q", "parts": [{"trustStorePassword": "***"}]})
        self.assertEqual(shown["n"], "no JSON")
        details = [row["detail"] for row in self.rows("records") if row["detail"] is not None]
        self.assertTrue(any("ann" in detail for detail in details))
        self.assertFalse(any("geheim" in detail for detail in details))

    def test_an_empty_folder_has_empty_tables(self) -> None:
        for name in ("journal", "bindings"):
            (self.folder / name).mkdir()
        for table in TABLES:
            self.assertEqual(self.rows(table), [])

    def test_shares_travel_packed(self) -> None:
        self.put()
        index = index_of(LocalFiles(), self.folders())
        for share in (*index.segments, *index.pages):
            self.assertEqual(pickle.loads(pickle.dumps(PackedShare(share))).unpack(), share)
