"""Folders that offline commands are pointed at."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.data.test_data import JournalCase
from tests.unit.cli.runner import mqbroker


class FolderTests(JournalCase):
    def test_a_folder_in_use_is_left_alone(self) -> None:
        from mqbroker.process.localfs import LocalFileSystem
        from mqbroker.storage.disk.nodelock import NodeLock

        lock = NodeLock(LocalFileSystem(), str(self.folders.journal))
        lock.acquire()
        self.addCleanup(lock.release)
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("another broker uses this folder", result.err)
        self.assertEqual(self.command("exp", "--f").status, 0)

    def test_a_journal_of_artemis_is_refused(self) -> None:
        (self.folders.journal / "activemq-data-1.amq").write_bytes(b"")
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("artemis data exp", result.err)

    def test_folders_that_are_not_there(self) -> None:
        self.assertEqual(mqbroker("data", "exp").status, 2)
        self.assertEqual(mqbroker("data", "exp", "--data", self.mktemp()).status, 2)

    def test_a_broker_with_a_database_has_no_files_to_read(self) -> None:
        file = Path(self.mktemp())
        store = "<store><database-store><jdbc-connection-url>jdbc:sqlite:x.db</jdbc-connection-url></database-store></store>"
        file.write_text(f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{store}</core></configuration>')
        result = mqbroker("activation", "list", "--broker", str(file))
        self.assertEqual(result.status, 2, result.out)
        self.assertIn("keeps its messages in a database", result.err)
