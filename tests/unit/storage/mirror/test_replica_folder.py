"""The passive side: changes are repeated in their order, and answered when they are done."""

from __future__ import annotations

import random
from functools import partial
from unittest import TestCase, mock

from hypothesis import given
from hypothesis import strategies as st

from mqbroker.storage.mirror import replica_folder
from mqbroker.storage.mirror.changes import (
    Allocate,
    Begin,
    Change,
    Close,
    MakeDirectory,
    Open,
    Remove,
    RemoveDirectory,
    Rename,
    Sync,
    SyncDirectory,
    Write,
)
from mqbroker.storage.mirror.former import empty_folders
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.mirror.support import REPLICA, REPLICA_ROOTS, encoded

FIRST = (Begin(), Open(1, "journal/a"), Write(1, 0, b"abc"), Sync(1))


class ReplicaFolderTests(TestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        self.writer = SimulatedDiskWriter()
        self.answers: list[int] = []
        self.failures: list[str] = []
        begin = partial(empty_folders, self.disk, REPLICA_ROOTS, 0)
        self.folder = ReplicaFolder(self.disk, REPLICA_ROOTS, self.writer, begin, self.answers.append, self.failures.append)

    def take(self, *changes: Change) -> None:
        self.folder.take(encoded(*changes))

    def read(self, name: str) -> bytes:
        return self.disk.read(f"{REPLICA}/{name}")

    def test_every_kind_of_change_is_repeated(self) -> None:
        self.take(*FIRST, Allocate(1, 5), Rename("journal/a", "journal/b"), MakeDirectory("paging/q"), Open(2, "paging/q/1"), Close(2))
        self.take(SyncDirectory("paging"), Open(3, "journal/c"), Close(3), Remove("journal/c"))
        self.writer.run()
        self.assertEqual(self.read("journal/b"), b"abc\0\0")
        self.assertEqual(self.disk.list(f"{REPLICA}/paging/q"), ["1"])
        self.assertEqual(self.disk.list(f"{REPLICA}/journal"), ["b"])
        self.take(Remove("paging/q/1"), RemoveDirectory("paging/q"), Close(1))
        self.writer.run()
        self.assertEqual(self.disk.list(f"{REPLICA}/paging"), [])
        self.assertEqual((self.answers[-1], self.folder.waiting, self.failures), (16, 0, []))
        self.assertEqual(self.disk.open_files, 0)

    def test_an_answer_comes_when_the_sync_is_done(self) -> None:
        self.take(*FIRST, Write(1, 3, b"d"), Sync(1), Write(1, 4, b"e"))
        self.assertEqual(self.answers, [])
        self.writer.run_one()
        self.assertEqual(self.answers, [4])
        self.disk.sync_directory(f"{REPLICA}/journal")
        self.disk.crash()
        self.assertEqual(self.read("journal/a"), b"abc")
        self.writer = SimulatedDiskWriter()

    def test_writes_of_two_syncs_are_never_under_one(self) -> None:
        done: list[str] = []
        with mock.patch.object(SimulatedDisk, "_operation", lambda disk, kind, raises=True: done.append(kind) and False):
            self.take(*FIRST, Write(1, 3, b"d"), Sync(1), Write(1, 4, b"e"), Write(1, 5, b"f"), Sync(1))
            self.writer.run()
        self.assertEqual(done[-7:], ["write", "sync", "write", "sync", "write", "write", "sync"])
        self.assertEqual(self.answers, [4, 6, 9])

    def test_former_files_are_gone_when_a_copy_begins(self) -> None:
        self.disk.open(f"{REPLICA}/journal/old").close()
        self.disk.make_directory(f"{REPLICA}/journal")
        self.take(*FIRST)
        self.writer.run()
        self.assertEqual(self.disk.list(f"{REPLICA}/journal"), ["a"])

    @given(st.lists(st.integers(1, 90), max_size=20))
    def test_pieces_may_be_cut_anywhere(self, cuts: list[int]) -> None:
        self.setUp()
        raw = encoded(*FIRST, *(Write(1, 3 + number, b"%d" % number) for number in range(9)), Sync(1))
        for size in (*cuts, len(raw)):
            piece, raw = raw[:size], raw[size:]
            self.folder.take(piece)
        self.writer.run()
        self.assertEqual((self.read("journal/a"), self.answers[-1]), (b"abc012345678", 14))

    def test_an_error_of_the_disk_ends_it_and_nothing_follows(self) -> None:
        for operation, error in (("write", OSError(28, "no space left on device")), ("sync", OSError(5, "i/o error"))):
            self.setUp()
            self.take(*FIRST)
            self.writer.run()
            self.disk.fail(operation, error)
            self.take(Write(1, 3, b"d"), Sync(1), Write(1, 4, b"e"), Sync(1))
            self.take(Write(1, 5, b"f"), Sync(1))
            self.writer.run()
            self.take(Write(1, 6, b"g"), Sync(1))
            self.writer.run()
            (failure,) = self.failures
            self.assertIn("cannot be repeated here", failure)
            self.assertIn(error.strerror or "", failure)
            self.assertEqual(self.answers, [4])
            self.assertIn(self.read("journal/a"), (b"abc", b"abcd"))

    def test_a_change_that_fits_nothing_ends_it(self) -> None:
        self.take(*FIRST, Remove("journal/never"))
        self.writer.run()
        self.assertIn("never", self.failures[0])

    def test_a_broken_stream_ends_it_after_what_came_before(self) -> None:
        self.folder.take(encoded(*FIRST) + b"\xff" + encoded(Write(1, 3, b"d")))
        self.writer.run()
        self.assertIn("at change 5", self.failures[0])
        self.assertEqual((self.answers, self.read("journal/a")), ([], b"abc"))

    def test_too_much_that_waits_ends_it(self) -> None:
        with mock.patch.object(replica_folder, "WAITING_MAX", 100):
            self.take(*FIRST)
            self.assertEqual(self.folder.waiting, len(encoded(*FIRST)))
            self.writer.run()
            self.assertEqual(self.folder.waiting, 0)
            self.take(Write(1, 3, bytes(100)))
        self.assertIn("and 100 are allowed", self.failures[0])

    def test_when_it_is_closed_all_that_was_taken_is_done_and_nothing_is_answered(self) -> None:
        self.folder.take(encoded(*FIRST, Write(1, 3, b"d"), Sync(1)) + encoded(Write(1, 4, b"half"))[:-1])
        closed: list[bool] = []
        self.folder.close(lambda: closed.append(True))
        self.folder.take(b"t")
        self.assertEqual(closed, [])
        self.writer.run()
        self.assertEqual((closed, self.answers, self.read("journal/a"), self.disk.open_files), ([True], [], b"abcd", 0))
