"""What is found in a folder before a backup is hosted there."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.colocated.folders import kept_node, node_in
from mqbroker.ha.proof.copy_record import RECORD_FILE, CopyRecord, CopyState, OtherCopy
from mqbroker.storage.disk.filesystem import join
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.errors import StorageError
from tests.support.disk import SimulatedDisk

FOLDER = "/d/journal"
NODE = "6a3e4b9c-8f0f-4d58-9c3a-1d1a2b3c4d5e"


class FolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.disk.make_directory(FOLDER)

    def record(self, content: bytes) -> None:
        path = join(FOLDER, RECORD_FILE)
        if self.disk.exists(path):
            self.disk.remove(path)
        file = self.disk.open(path)
        file.write(0, content)
        file.close()

    def test_the_node_of_a_folder(self) -> None:
        self.assertIsNone(node_in(self.disk, FOLDER))
        self.assertFalse(self.disk.exists(join(FOLDER, "server.lock")))  # a look makes no file
        NodeLock(self.disk, FOLDER).write_node_id(NODE)
        self.assertEqual(node_in(self.disk, FOLDER), NODE)

    def test_only_what_may_be_the_newest_copy_is_kept(self) -> None:
        NodeLock(self.disk, FOLDER).write_node_id(NODE)
        self.assertIsNone(kept_node(self.disk, FOLDER))
        other = OtherCopy("a", "[]")
        for state, diverged, kept in (
            (CopyState.COMPLETE, False, True),
            (CopyState.INCOMPLETE, False, False),
            (CopyState.GIVEN_UP, False, True),  # it may take that back
            (CopyState.GIVEN_UP, True, True),
            (CopyState.INCOMPLETE, True, True),
        ):
            with self.subTest(state=state, diverged=diverged):
                self.record(CopyRecord("b", state, 3, other, diverged=diverged).encode())
                self.assertEqual(kept_node(self.disk, FOLDER), NODE if kept else None)
        self.record(CopyRecord("a", CopyState.GIVEN_UP, 3, OtherCopy("b", "[]")).encode())
        self.assertIsNone(kept_node(self.disk, FOLDER))

    def test_a_damaged_record(self) -> None:
        self.record(b"nothing")
        self.assertRaises(StorageError, kept_node, self.disk, FOLDER)
