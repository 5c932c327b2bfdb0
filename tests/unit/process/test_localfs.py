"""The local file system: files that change as a whole, names that are new, locks that are waited for."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process import localfs
from mqbroker.process.localfs import LocalFileSystem, replace_file


class ReplaceFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.path = self.folder / "users.properties"

    def mode(self) -> int:
        return self.path.stat().st_mode & 0o777

    def test_content_is_new_and_the_mode_stays(self) -> None:
        for mode in (0o600, 0o640, 0o644):
            self.path.write_text("old")
            self.path.chmod(mode)
            replace_file(self.path, b"new")
            self.assertEqual((self.path.read_text(), self.mode()), ("new", mode))
        self.assertEqual(os.listdir(self.folder), ["users.properties"])

    def test_a_file_that_was_not_there_is_for_its_owner(self) -> None:
        replace_file(self.path, b"new")
        self.assertEqual((self.path.read_text(), self.mode()), ("new", 0o600))

    def test_what_a_crash_left_is_not_in_the_way(self) -> None:
        (self.folder / "users.properties.new").write_text("half")
        replace_file(self.path, b"new")
        self.assertEqual(self.path.read_text(), "new")

    def test_the_file_behind_a_link_is_replaced(self) -> None:
        (self.folder / "real").write_text("old")
        self.path.symlink_to("real")
        replace_file(self.path, b"new")
        self.assertTrue(self.path.is_symlink())
        self.assertEqual((self.folder / "real").read_text(), "new")

    def test_synced_before_it_takes_the_place_of_the_old_one(self) -> None:
        self.path.write_text("old")
        with mock.patch("os.fsync", side_effect=OSError("disk")):
            self.assertRaises(OSError, replace_file, self.path, b"new")
        self.assertEqual(self.path.read_text(), "old")


class NewNameTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.old, self.new = str(self.folder / "old"), str(self.folder / "new")
        Path(self.old).write_bytes(b"old")
        self.files = LocalFileSystem()

    def test_a_file_gets_a_name_that_nobody_has(self) -> None:
        self.files.rename_new(self.old, self.new)
        self.assertEqual((Path(self.new).read_bytes(), self.files.exists(self.old)), (b"old", False))

    def test_a_file_that_is_there_is_not_replaced(self) -> None:
        Path(self.new).write_bytes(b"new")
        self.assertRaises(FileExistsError, self.files.rename_new, self.old, self.new)
        self.assertEqual((Path(self.new).read_bytes(), Path(self.old).read_bytes()), (b"new", b"old"))


class PatientLockTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()
        held = LocalFileSystem().lock(self.path)
        assert held is not None
        self.held = held

    def test_a_lock_that_is_held_for_a_moment_is_waited_for(self) -> None:
        with mock.patch.object(localfs.time, "sleep", lambda seconds: self.held.release()):
            self.assertIsNotNone(LocalFileSystem().lock(self.path, 60.0))

    def test_one_that_is_held_on_is_not(self) -> None:
        times = iter((0.0, 1.0, 2.0, 3.0))
        with mock.patch.object(localfs.time, "sleep"), mock.patch.object(localfs.time, "monotonic", lambda: next(times)):
            self.assertIsNone(LocalFileSystem().lock(self.path, 2.0))
        self.held.release()
