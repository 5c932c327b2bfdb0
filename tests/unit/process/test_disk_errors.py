"""Errors of the disk say where they are, and those of a start what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.app import Broker, BrokerSettings, StartError
from mqbroker.config.model.configuration import Configuration
from mqbroker.process.disk_errors import advice, located


class LocatedTests(SynchronousTestCase):
    def test_a_full_disk_is_named_with_its_free_bytes(self) -> None:
        """Also by a path that does not exist yet."""
        path = str(Path(self.mktemp()) / "not" / "there")
        error = located(OSError(errno.ENOSPC, "No space left on device"), path)
        self.assertRegex(str(error), rf"^\[Errno 28\] No space left on device \(\d+ bytes are free\): '{path}'$")

    def test_another_error_has_the_path_alone(self) -> None:
        error = located(OSError(errno.EACCES, "Permission denied"), "/a/b")
        self.assertIsInstance(error, PermissionError)
        self.assertEqual((error.filename, error.strerror), ("/a/b", "Permission denied"))

    def test_an_error_without_a_path_stays(self) -> None:
        self.assertEqual(advice(OSError("torn")), "torn")

    def test_an_error_that_nobody_can_help_with_has_path_and_reason(self) -> None:
        self.assertEqual(advice(OSError(errno.EIO, os.strerror(errno.EIO), "/a")), "/a: Input/output error")

    def test_rights_name_the_user_who_needs_them(self) -> None:
        text = advice(OSError(errno.EACCES, "Permission denied", "/a"))
        self.assertTrue(text.startswith("/a: Permission denied; the user "), text)
        self.assertIn("run the broker as its owner", text)
        self.assertNotIn("{user}", text)

    def test_a_full_disk_needs_room(self) -> None:
        self.assertEqual(
            advice(located(OSError(errno.ENOSPC, "No space left on device"), "/")).partition(" (")[0], "/: No space left on device"
        )
        self.assertIn("make room on that disk", advice(OSError(errno.ENOSPC, "No space left on device", "/a")))


class StartTests(SynchronousTestCase):
    def refused(self, folder: Path) -> str:
        configuration = Configuration(security_enabled=False, journal_directory=str(folder / "data" / "journal"))
        return str(self.assertRaises(StartError, Broker(BrokerSettings(configuration, folder), Clock()).start))

    def test_a_file_in_the_place_of_a_folder(self) -> None:
        folder = Path(self.mktemp()).absolute()
        folder.mkdir()
        (folder / "data").write_text("")
        text = self.refused(folder)
        self.assertIn(str(folder / "data"), text)
        self.assertIn("Not a directory; a part of this path is a file: remove it, or correct the folder in broker.xml", text)
        self.assertNotIn("Errno", text)
