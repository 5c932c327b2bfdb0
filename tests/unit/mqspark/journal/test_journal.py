"""The tables of a data folder, without a Spark session: what a reader gives agrees with what the broker recovers, and damage is told."""

from __future__ import annotations

import importlib.util
import json
import pickle
import shutil
import tempfile
import unittest
import uuid
from pathlib import Path
from typing import Any
from unittest import TestCase, mock

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
from mqbroker.storage.files.recover import read_folder, salvage
from mqbroker.storage.settings import StoreSettings
from mqclient.storageformat.files import folder_name
from mqclient.storageformat.frames import decode_segment_header, read_frames
from mqclient.storageformat.surviving import index_of
from mqspark.errors import BadOptionError, JournalError, SchemaError
from mqspark.journal import journal_folder
from mqspark.journal.journal import JournalReader
from mqspark.journal.journal_folder import LocalFiles, Patience, find_folders
from mqspark.journal.journal_reading import FolderReader, PackedShare
from mqspark.journal_tables import TABLES, check_table_schema, table_ddl
from mqspark.options import Options, Use
from tests.unit.mqclient.storageformat.test_surviving import make
from tests.unit.storage.support import LARGE, Rig

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


class TableTests(JournalTest):
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

    def folders(self) -> Any:
        return find_folders(Options.parse({"path": str(self.folder)}, Use.JOURNAL))

    def test_one_partition_for_each_file(self) -> None:
        self.put()
        chosen = Options.parse({"path": str(self.folder), "table": "messages"}, Use.JOURNAL)
        index = index_of(LocalFiles(), self.folders())
        self.assertEqual(len(JournalReader(chosen, schema_of("messages")).partitions()), len(index.segments) + len(index.pages))
        self.assertGreater(len(index.segments), 2)

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

    def test_only_wanted_columns(self) -> None:
        self.put()
        self.assertEqual({tuple(row) for row in self.rows("messages", "queue", "message_id")}, {("message_id", "queue")})
        self.assertEqual({tuple(row) for row in self.rows("messages", "file")}, {("file",)})

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


class Busy(LocalFiles):
    """A folder that a broker changes between two reads: ``acts`` are called before reads of files whose name has the text."""

    def __init__(self, *acts: tuple[str, Any]) -> None:
        self.acts = list(acts)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        for entry in self.acts:
            if entry[0] in path and (offset, size) == (0, -1):
                self.acts.remove(entry)
                entry[1]()
                break
        return super().read(path, offset, size)


class LiveTests(JournalTest):
    """What happens to a task when the broker has changed its file since the query was planned."""

    def reader(self, files: LocalFiles | None = None) -> FolderReader:
        folders = find_folders(Options.parse({"path": str(self.folder)}, Use.JOURNAL))
        reader = FolderReader(folders, False, Patience(lambda seconds: None))
        if files is not None:
            reader.files = files
        return reader

    def live(self) -> Rig:
        """A store that works, with a queue of some segments; :meth:`put` brings its present state to the real disk."""
        rig = Rig(3, journal_file_size=1024, journal_compact_min_files=2, journal_compact_percentage=100)
        rig.start()
        self.queue = rig.queue()
        self.messages = [rig.add(self.queue, body=b"%d" % number * 100) for number in range(12)]
        rig.settle()
        return rig

    def state(self, rig: Rig) -> None:
        self.empty()
        put(rig, self.folder)

    def test_compaction_has_moved_the_messages_of_a_segment(self) -> None:
        rig = self.live()
        self.state(rig)
        shares = self.reader().index().segments
        expected = [message.message_id for message in self.messages]
        # Every second message goes, so that compaction moves the others.
        rig.acknowledge(self.queue, *self.messages[::2])
        rig.settle()
        for number in range(30):
            rig.acknowledge(self.queue, rig.add(self.queue, body=b"new %d" % number * 60))
            rig.settle()
        self.state(rig)
        gone = [share for share in shares if not Path(share.file.path).exists()]
        self.assertTrue(gone)
        found = [each.survivor.record.message_id for share in shares for each in self.reader().messages(share)]
        self.assertEqual(len(found), len(set(found)))
        self.assertLessEqual({message.message_id for message in self.messages[1::2]}, set(found))
        self.assertLessEqual(set(found), set(expected))

    def test_a_segment_vanishes_while_the_index_is_made(self) -> None:
        rig = self.live()
        self.state(rig)
        first = self.segment(0)

        def vanish() -> None:
            rig.acknowledge(self.queue, *self.messages)
            rig.settle()
            for number in range(8):
                rig.add(self.queue, body=b"new %d" % number * 60)
                rig.settle()
            self.state(rig)

        files = Busy((first.name, vanish))
        index = self.reader(files).index()
        self.assertEqual(files.acts, [])
        self.assertFalse(first.exists())
        self.assertEqual(sum(len(ids) for share in index.segments for ids in share.plain.values()), 8)

    def test_a_page_and_its_messages_are_gone(self) -> None:
        rig = make()
        put(rig, self.folder)
        (*_, page) = self.reader().index().pages
        rig.start()
        pager = rig.store.pager
        assert pager is not None
        (folder,) = pager.folders()
        batch = rig.store.begin()
        for queue_id in sorted(folder.queue_ids()):
            batch.acknowledge_unread(folder.reader(queue_id))
        rig.store.commit(batch)
        rig.settle()
        rig.stop()
        self.state(rig)
        self.assertEqual(list(self.reader().messages(page)), [])

    def test_a_body_that_was_settled_meanwhile_is_no_damage(self) -> None:
        rig = make()
        put(rig, self.folder)
        reader = self.reader()
        large = [found.survivor.record for page in reader.index().pages for found in reader.messages(page)]
        (record,) = [each for each in large if each.body_id is not None]
        shutil.rmtree(self.folder / Path(LARGE).name)
        with self.assertRaises(JournalError):
            reader.body(record)
        rig.start()
        assert rig.store.pager is not None
        (folder,) = rig.store.pager.folders()
        batch = rig.store.begin()
        for queue_id in sorted(folder.queue_ids()):
            batch.acknowledge_unread(folder.reader(queue_id))
        rig.store.commit(batch)
        rig.settle()
        rig.stop()
        self.state(rig)
        self.assertIsNone(self.reader().body(record))

    def test_records_of_a_segment_that_goes_are_left_out(self) -> None:
        rig = self.live()
        self.state(rig)
        (file, *_) = [each for each in self.reader().record_files() if "data" in Path(each.path).name]
        rig.acknowledge(self.queue, *self.messages)
        rig.settle()
        for number in range(8):
            rig.add(self.queue, body=b"new %d" % number * 60)
            rig.settle()
        self.state(rig)
        self.assertEqual(list(self.reader().records(file)), [])

    def test_patience_ends(self) -> None:
        waits: list[float] = []
        patience = Patience(waits.append)
        self.assertEqual([patience.again("same") for _ in range(4)], [True, True, True, False])
        self.assertEqual(waits, [0.02, 0.04, 0.08])
        patience = Patience(waits.append)
        answers = [patience.again(str(number)) for number in range(20)]
        self.assertEqual((all(answers[:-1]), answers[-1]), (True, False))
        self.assertLessEqual(max(waits), 0.5)
