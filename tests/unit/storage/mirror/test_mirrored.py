"""The file system that tells of its changes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.mirror.changes import Allocate, Change, Close, MakeDirectory, RemoveDirectory, Sync, SyncDirectory, Write
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from tests.support.disk import SimulatedDisk
from tests.unit.storage.mirror.support import ROOTS


class Listening:
    """Writes down what it is told, and what the disk has done by then."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.told: list[Any] = []
        self.operations: list[int] = []

    def attached(self, open_files: Mapping[int, str | None]) -> None:
        self.told.append(dict(open_files))

    def tell(self, change: Change) -> int:
        self.told.append(change)
        self.operations.append(self.disk.operations)
        return len(self.told)

    def tell_before(self, write: Write) -> int:
        return self.tell(write)

    def flush(self) -> None:
        self.told.append("flush")

    def opened(self, handle: int, path: str, new: bool) -> None:
        self.told.append((handle, path, new))

    def renamed(self, old: str, new: str) -> None:
        self.told.append((old, new))

    def removed(self, path: str) -> None:
        self.told.append(path)

    def synced(self, number: int) -> None:
        self.told.append(number)


class MirroredTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = SimulatedDisk(random.Random(1))
        for root in ROOTS:
            self.disk.make_directory(ROOTS.path(root))
        self.mirrored = MirroredFileSystem(self.disk, ROOTS, nullcontext())
        self.sink = Listening(self.disk)

    def told(self) -> list[Any]:
        told, self.sink.told = self.sink.told, []
        return told

    def test_what_is_done_to_a_file_is_told(self) -> None:
        self.mirrored.attach(self.sink)
        file = self.mirrored.open("/data/journal/a")
        file.allocate(9)
        file.write(3, b"abc")
        file.sync()
        file.close()
        self.assertEqual(self.told(), [{}, (1, "journal/a", True), Allocate(1, 9), Write(1, 3, b"abc"), Sync(1), 5, Close(1)])
        self.assertEqual(self.disk.read("/data/journal/a"), b"\0\0\0abc\0\0\0")
        self.mirrored.open("/data/journal/a")
        self.assertEqual(self.told(), [(2, "journal/a", False)])

    def test_what_is_done_to_names_is_told_once_it_is_done(self) -> None:
        self.mirrored.attach(self.sink)
        self.told()
        self.mirrored.make_directory("/data/paging/q-1")
        self.mirrored.open("/data/journal/a").close()
        self.told()
        self.mirrored.rename("/data/journal/a", "/data/journal/b")
        self.mirrored.rename("/data/journal/b", "/data/journal/b")
        self.mirrored.rename_new("/data/journal/b", "/data/journal/c")
        self.mirrored.remove("/data/journal/c")
        self.mirrored.remove_directory("/data/paging/q-1")
        self.mirrored.make_directory("/data/paging/q-2")
        self.mirrored.sync_directory("/data/paging/")
        self.assertEqual(
            self.told(),
            [
                ("journal/a", "journal/b"),
                ("journal/b", "journal/c"),
                "journal/c",
                RemoveDirectory("paging/q-1"),
                MakeDirectory("paging/q-2"),
                SyncDirectory("paging"),
                6,
            ],
        )
        self.disk.fail("remove", OSError(5, "i/o error"))
        self.assertRaises(OSError, self.mirrored.remove, "/data/journal/c")
        self.assertRaises(OSError, self.mirrored.rename, "/data/journal/x", "/data/journal/y")
        self.assertEqual(self.told(), [])

    def test_writes_and_syncs_are_told_before_they_are_done(self) -> None:
        self.mirrored.attach(self.sink)
        file = self.mirrored.open("/data/journal/a")
        before = self.disk.operations
        file.write(0, b"abc")
        file.sync()
        self.mirrored.sync_directory("/data/journal")
        self.assertEqual(self.sink.operations, [before, before + 1, before + 2])

    def test_a_write_that_comes_next_is_told_at_once(self) -> None:
        file = self.mirrored.open("/data/journal/a")
        file.write_soon(0, b"abc")()
        self.mirrored.attach(self.sink)
        self.told()
        step = file.write_soon(1, b"xy")
        self.assertEqual((self.told(), self.disk.read("/data/journal/a")), ([Write(1, 1, b"xy"), "flush"], b"abc"))
        step()
        self.assertEqual((self.told(), self.disk.read("/data/journal/a")), ([1], b"axy"))
        self.disk.fail("sync", OSError(5, "i/o error"))
        self.assertRaises(OSError, file.write_soon(0, b"z"))
        self.assertEqual(self.told(), [Write(1, 0, b"z"), "flush"])

    def test_a_sync_that_fails_is_never_said_to_have_ended(self) -> None:
        self.mirrored.attach(self.sink)
        file = self.mirrored.open("/data/journal/a")
        self.told()
        self.disk.fail("sync", OSError(5, "i/o error"))
        self.assertRaises(OSError, file.sync)
        self.assertEqual(self.told(), [Sync(1)])

    def test_who_comes_later_learns_what_is_open_under_its_present_name(self) -> None:
        first, second, third = (self.mirrored.open(f"/data/journal/{name}") for name in "abc")
        self.mirrored.rename("/data/journal/a", "/data/journal/d")
        second.close()
        self.mirrored.remove("/data/journal/c")
        self.mirrored.open("/data/journal/server.lock")
        self.mirrored.attach(self.sink)
        self.assertEqual(self.told(), [{1: "journal/d", 3: None}])
        first.write(0, b"x")
        third.close()
        self.assertEqual(self.told(), [Write(1, 0, b"x"), Close(3)])

    def test_a_file_that_another_one_replaces_has_no_name(self) -> None:
        self.mirrored.open("/data/journal/a")
        self.mirrored.open("/data/journal/b")
        self.mirrored.rename("/data/journal/a", "/data/journal/b")
        self.mirrored.attach(self.sink)
        self.assertEqual(self.told(), [{1: "journal/b", 2: None}])

    def test_one_is_told_at_a_time_and_no_longer_than_it_wants(self) -> None:
        self.mirrored.attach(self.sink)
        self.assertRaises(ValueError, self.mirrored.attach, Listening(self.disk))
        self.mirrored.detach(Listening(self.disk))
        file = self.mirrored.open("/data/journal/a")
        self.mirrored.detach(self.sink)
        self.told()
        file.write(0, b"x")
        file.sync()
        file.allocate(5)
        file.close()
        self.mirrored.make_directory("/data/paging/q")
        self.mirrored.remove_directory("/data/paging/q")
        self.mirrored.rename("/data/journal/a", "/data/journal/b")
        self.mirrored.remove("/data/journal/b")
        self.assertEqual(self.told(), [])
        self.mirrored.attach(Listening(self.disk))

    def test_files_of_the_broker_itself_are_not_told_of(self) -> None:
        self.mirrored.attach(self.sink)
        self.told()
        file = self.mirrored.open("/data/journal/server.epoch")
        file.write(0, b"x")
        file.sync()
        self.mirrored.rename("/data/journal/server.epoch", "/data/journal/server.activation.sequence")
        self.mirrored.remove("/data/journal/server.activation.sequence")
        self.mirrored.sync_directory("/data")
        self.assertEqual(self.told(), [])
        self.mirrored.open("/data/journal/a")
        self.assertRaises(ValueError, self.mirrored.rename, "/data/journal/a", "/data/journal/server.lock")

    def test_all_else_is_that_of_the_disk(self) -> None:
        self.mirrored.open("/data/journal/a").write(0, b"abc")
        self.assertEqual(self.mirrored.read("/data/journal/a", 1, 1), b"b")
        self.assertEqual(self.mirrored.size("/data/journal/a"), 3)
        self.assertEqual(self.mirrored.list("/data/journal"), ["a"])
        self.assertTrue(self.mirrored.exists("/data/journal/a"))
        lock = self.mirrored.lock("/data/journal/server.lock")
        assert lock is not None
        self.assertIs(self.mirrored.lock("/data/journal/server.lock"), None)
        lock.release()
