"""The table of the change record by the words of imqdbmgr, on a file of SQLite."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.peers.record_table import RecordTable
from mqbroker.imq.record.backup import backup_of
from mqbroker.imq.record.changes import wish_of
from mqbroker.imq.record.record import ChangeRecord
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.sql.database import Connection
from tests.unit.cli.runner import Result, mqbroker

JDBC = "imq.cluster.sharecc.persist.jdbc"


class RecordCommands(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)
        self.path = self.varhome / "record.db"
        self.properties = self.varhome / "instances" / "b1" / "props" / "config.properties"
        self.properties.parent.mkdir(parents=True)
        url = "jdbc:sqlite:${imq.instanceshome}/../record.db"
        self.properties.write_text(f"imq.cluster.clusterid=c\n{JDBC}.dbVendor=sqlite\n{JDBC}.sqlite.opendburl={url}\n")
        self.called = f"the change record of the cluster c in {self.path}"

    def dbmgr(self, *words: str) -> Result:
        return mqbroker("imq", "dbmgr", *words, "-varhome", str(self.varhome), "-b", "b1")

    def done(self, *words: str) -> str:
        result = self.dbmgr(*words)
        self.assertEqual((result.status, result.err), (0, ""))
        return result.out.rstrip("\n")

    def refused(self, *words: str) -> str:
        result = self.dbmgr(*words)
        self.assertEqual((result.status, result.out), (1, ""))
        return result.err.rstrip("\n")

    def table(self) -> tuple[RecordTable, Connection]:
        database = SqliteDatabase(str(self.path))
        connection = database.connect()
        self.addCleanup(connection.close)
        return RecordTable(database, "c"), connection

    def backup_file(self) -> Path:
        """As a master writes it."""
        record = ChangeRecord.begin("of a master", "b1:7676", 0)
        record.append(wish_of(Change("create", QueueDefinition("q", "a", ANYCAST))), "b1:7676", 0, 1)
        file = self.varhome / "master.backup"
        file.write_bytes(backup_of(record))
        return file

    def test_a_table_is_made_anew_and_removed(self) -> None:
        self.assertEqual(self.done("create", "sharecc_tbl"), f"Successfully created the table of {self.called}.")
        self.assertIn(f"The table of {self.called} exists already", self.refused("create", "sharecc_tbl"))
        table, connection = self.table()
        table.begin(connection, ChangeRecord.begin("g", "b1:7676", 0))
        self.assertEqual(self.done("recreate", "sharecc_tbl"), f"Successfully recreated the table of {self.called}.")
        self.assertIsNone(table.read(connection))
        self.assertEqual(self.done("delete", "sharecc_tbl"), f"Successfully deleted the table of {self.called}.")
        self.assertIn("has no table for the change record of the cluster c", self.refused("delete", "sharecc_tbl"))
        self.assertEqual(self.done("recreate", "sharecc_tbl"), f"Successfully recreated the table of {self.called}.")

    def test_the_record_of_a_master_becomes_that_of_peers_and_comes_back(self) -> None:
        file, again = self.backup_file(), self.varhome / "again"
        self.done("create", "sharecc_tbl")
        self.assertIn("is empty: there is nothing to back up", self.refused("backup", "sharecc_tbl", "-file", str(again)))
        restored = self.done("restore", "sharecc_tbl", "-file", str(file))
        self.assertEqual(restored, f"Successfully restored {self.called}: 1 definitions.")
        self.assertIn("is not empty: `recreate sharecc_tbl` comes first", self.refused("restore", "sharecc_tbl", "-file", str(file)))
        table, connection = self.table()
        record = table.read(connection)
        assert record is not None
        self.assertEqual((record.knows("of a master"), [each.name for each in record.definitions]), (True, ["queue q"]))
        self.assertEqual(table.holder(connection), "")
        self.assertIn("1 definitions", self.done("backup", "sharecc_tbl", "-file", str(again)))
        self.assertIn("the file exists already", self.refused("backup", "sharecc_tbl", "-file", str(again)))
        self.done("recreate", "sharecc_tbl")
        self.done("restore", "sharecc_tbl", "-file", str(again))

    def test_files_that_cannot_be_used(self) -> None:
        self.done("create", "sharecc_tbl")
        self.assertIn("No such file", self.refused("restore", "sharecc_tbl", "-file", str(self.varhome / "lost")))
        self.properties.with_name("odd").write_text("odd\n")
        self.assertIn("this is no backup", self.refused("restore", "sharecc_tbl", "-file", str(self.properties.with_name("odd"))))
        self.done("restore", "sharecc_tbl", "-file", str(self.backup_file()))
        self.assertIn("-file /no/such/folder: No such file", self.refused("backup", "sharecc_tbl", "-file", "/no/such/folder"))
        self.assertIn("-file", self.refused("backup", "sharecc_tbl"))

    def test_a_lock_is_cleared(self) -> None:
        self.done("create", "sharecc_tbl")
        self.assertEqual(self.done("reset", "lck"), f"Nobody has locked {self.called}.")
        table, connection = self.table()
        table.lock(connection, "b9:there:imqdbmgr")
        for words in (("delete", "sharecc_tbl"), ("recreate", "sharecc_tbl"), ("restore", "sharecc_tbl", "-file", str(self.backup_file()))):
            self.assertIn("is locked by b9:there:imqdbmgr. `mqbroker imq dbmgr reset lck` clears", self.refused(*words))
        self.assertEqual(self.done("reset", "lck"), f"Successfully cleared the lock of b9:there:imqdbmgr on {self.called}.")
        self.done("delete", "sharecc_tbl")
