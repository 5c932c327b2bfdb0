"""Finding and reading the two journals of a split."""

from __future__ import annotations

import random
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.merge.split import ATTEMPTS, kept_folders, read_split
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.ha.proof.copy_record import CopyRecord, write_record
from mqclient.storageformat.errors import JournalDamagedError
from mqclient.storageformat.images import find_images
from tests.support.disk import SimulatedDisk
from tests.unit.cli.data.merge.support import KEPT, RUNNING, Pair
from tests.unit.storage.support import Rig


class FolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))

    def make(self, number: int, *files: str) -> None:
        for name in ("journal", "bindings"):
            self.disk.make_directory(f"/data/{name}/oldreplica.{number}")
        for file in files:
            self.disk.open(f"/data/journal/oldreplica.{number}/{file}").close()

    def test_the_highest_one_that_was_kept_after_a_split(self) -> None:
        for number in (1, 2, 10):
            self.make(number, "kept")
        self.make(11)
        found = kept_folders(self.disk, RUNNING, None)
        names = [str(each) for each in (found.journal, found.bindings, found.large_messages, found.paging)]
        self.assertEqual(names, [f"/data/{name}/oldreplica.10" for name in ("journal", "bindings", "large-messages", "paging")])
        self.assertEqual(kept_folders(self.disk, RUNNING, 11).journal.name, "oldreplica.11")

    def test_folders_that_are_not_there(self) -> None:
        self.make(1)
        self.assertIn("after a split", str(self.assertRaises(BadUsage, kept_folders, self.disk, RUNNING, None)))
        self.assertIn("--former", str(self.assertRaises(BadUsage, kept_folders, self.disk, RUNNING, 2)))
        self.disk.remove_directory("/data/bindings/oldreplica.1")
        self.assertIn("bindings", str(self.assertRaises(BadUsage, kept_folders, self.disk, RUNNING, 1)))


class ReadingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = Pair()
        (self.queue,) = self.pair.start("q")
        self.pair.kept.add(self.queue)
        self.pair.split()

    def error(self) -> str:
        return str(self.assertRaises(CommandError, read_split, self.pair.disk, KEPT, RUNNING))

    def test_nothing_is_written(self) -> None:
        before = self.pair.disk.files()
        locks = self.pair.disk.locks
        split = self.pair.read()
        self.assertEqual((self.pair.disk.files(), self.pair.disk.locks), (before, locks))
        self.assertEqual(len(split.kept.messages), 1)

    def test_the_running_journal_changes_while_it_is_read(self) -> None:
        failures = [JournalDamagedError("f", 1, (), "a segment is gone")] * (ATTEMPTS - 1)
        images = [find_images(self.pair.disk, str(each.journal), str(each.bindings)) for each in (KEPT, RUNNING)]
        with mock.patch("mqbroker.cli.data.merge.split.find_images", side_effect=[images[0], *failures, images[1]]):
            self.assertTrue(self.pair.read().common.whole)
        failures.append(failures[0])
        with mock.patch("mqbroker.cli.data.merge.split.find_images", side_effect=[images[0], *failures]):
            self.assertIn("could not be read", self.error())

    def test_a_copy_that_is_not_finished(self) -> None:
        write_record(self.pair.disk, str(RUNNING.journal), CopyRecord.first(random.Random(1).randbytes, primary=False))
        self.assertIn("incomplete", self.error())

    def test_another_node(self) -> None:
        other = Rig(5)
        other.start()
        other.add(other.queue())
        other.settle()
        for path in [path for path in self.pair.disk.files() if "oldreplica" not in path]:
            self.pair.disk.remove(path)
        for path, content in other.disk.files().items():
            self.pair.disk.open(path).write(0, content)
        self.assertIn("is not of node", self.error())

    def test_a_damaged_kept_journal(self) -> None:
        (name, *_) = (path for path in self.pair.disk.files() if path.startswith(str(KEPT.journal)) and path.endswith(".mqj"))
        self.pair.kept.stop()
        self.pair.disk.flip_bit(name, 3)
        self.assertIn(name, self.error())
