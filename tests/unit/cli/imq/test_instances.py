"""The instance that a command is about."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.imq.instances import instance_folder, passfile_properties, read_broker_xml, stopped
from mqbroker.cli.status import CommandError
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.errors import StoreLockedError
from tests.unit.cli.runner import mqbroker


class InstanceTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)
        self.folder = instance_folder(self.varhome, "b1")

    def test_an_instance_without_files_has_no_broker_xml_and_no_broker(self) -> None:
        self.assertIsNone(read_broker_xml(self.folder, {}))
        with stopped(self.folder, {}, "-reset store") as lock:
            self.assertIsNone(lock)

    def test_the_lock_of_the_folder_is_held_meanwhile(self) -> None:
        (self.folder / "data" / "journal").mkdir(parents=True)
        (self.folder / "etc").mkdir()
        (self.folder / "etc" / "bootstrap.xml").write_text("<broker>")  # a broken one: the lock is where it is as a rule
        other = NodeLock(LocalFileSystem(), str(self.folder / "data" / "journal"))
        with stopped(self.folder, {}, "-remove instance", broken_may_be=True):
            self.assertRaises(StoreLockedError, other.acquire)
        other.acquire()
        self.addCleanup(other.release)
        with (
            self.assertRaisesRegex(CommandError, "-remove instance: a broker runs on this instance"),
            stopped(self.folder, {}, "-remove instance", broken_may_be=True),
        ):
            self.fail("a broker has the lock")
        with self.assertRaisesRegex(CommandError, "bootstrap.xml"), stopped(self.folder, {}, "-reset store"):
            self.fail("nobody knows where the lock is")

    def test_the_passfile_as_properties(self) -> None:
        self.assertEqual(passfile_properties(None), {})
        found = passfile_properties(Path("/keys/pw"))
        self.assertEqual(found, {"imq.passfile.enabled": "true", "imq.passfile.dirpath": "/keys", "imq.passfile.name": "pw"})

    def test_the_version_and_the_help_as_in_openmq(self) -> None:
        for words in (("-v",), ("-version",), ("dbmgr", "-v")):
            result = mqbroker("imq", *words)
            self.assertEqual((result.status, result.out.startswith("mqbroker ")), (0, True))
        for word in ("-h", "-help", "-H", "--help"):
            for words in ((), ("list", "bkr"), ("brokerd",), ("dbmgr", "create")):
                result = mqbroker("imq", *words, word)
                self.assertEqual((result.status, result.out.startswith("Usage: ")), (0, True), words)
