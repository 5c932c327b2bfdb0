"""Files that the broker changes as a whole: those of users and roles."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.localfs import replace_file


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
