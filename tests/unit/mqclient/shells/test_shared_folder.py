"""Small files that processes show each other in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.shells.shared_folder import read_files, remove_file, write_file


class SharedFolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()) / "deep"

    def write(self, name: str, content: bytes, age: int = 0) -> None:
        write_file(str(self.folder), name, content)
        os.utime(self.folder / name, (1000 - age, 1000 - age))

    def read(self, files_max: int = 10, size_max: int = 100) -> list[bytes]:
        return read_files(str(self.folder), ".node", files_max, size_max)

    def test_a_missing_folder_has_no_files(self) -> None:
        self.assertEqual(self.read(), [])

    def test_the_folder_is_made_and_the_newest_file_is_read_first(self) -> None:
        self.write("a.node", b"old", age=9)
        self.write("b.node", b"new")
        self.assertEqual(self.read(), [b"new", b"old"])
        self.assertEqual(self.read(files_max=1), [b"new"])

    def test_other_files_drafts_and_those_that_are_too_large_are_left_out(self) -> None:
        self.write("a.node", b"kept")
        self.write("a.other", b"other")
        self.write("large.node", bytes(101))
        (self.folder / ".a.node").write_bytes(b"hidden")
        (self.folder / "folder.node").mkdir()
        self.assertEqual(self.read(), [b"kept"])

    def test_a_file_that_is_written_again_has_the_new_content_and_leaves_no_draft(self) -> None:
        self.write("a.node", b"one")
        self.write("a.node", b"two")
        self.assertEqual((self.read(), os.listdir(self.folder)), ([b"two"], ["a.node"]))

    def test_a_file_that_is_not_there_may_be_removed(self) -> None:
        self.write("a.node", b"one")
        remove_file(str(self.folder), "a.node")
        remove_file(str(self.folder), "a.node")
        self.assertEqual(self.read(), [])
