"""Folders of a broker that runs meanwhile."""

from __future__ import annotations

import importlib.util
import shutil
import unittest
from pathlib import Path
from typing import Any

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.errors import JournalError
from mqspark.journal.journal_folder import LocalFiles, Patience, find_folders
from mqspark.journal.journal_reading import FolderReader
from mqspark.options import Options, Use
from tests.unit.mqclient.storageformat.test_surviving import make
from tests.unit.mqspark.journal.test_journal import JournalTest, put
from tests.unit.storage.support import LARGE, Rig


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
