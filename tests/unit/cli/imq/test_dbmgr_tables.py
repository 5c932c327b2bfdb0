"""The tables of brokers by the words of imqdbmgr, on a file of SQLite."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.shared.brokers import BrokerTable, Myself, State
from mqbroker.storage.sql import session
from tests.unit.cli.runner import Result, mqbroker


class TableCommands(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)
        self.path = self.varhome / "mq.db"
        properties = self.varhome / "instances" / "b1" / "props" / "config.properties"
        properties.parent.mkdir(parents=True)
        properties.write_text(
            "imq.cluster.ha=true\nimq.cluster.clusterid=c\nimq.brokerid=b1\nimq.persist.store=jdbc\nimq.persist.jdbc.dbVendor=sqlite\n"
            "imq.persist.jdbc.sqlite.opendburl=jdbc:sqlite:${imq.instanceshome}/../mq.db\n"
        )

    def dbmgr(self, *words: str) -> Result:
        return mqbroker("imq", "dbmgr", *words, "-varhome", str(self.varhome), "-b", "b1")

    def done(self, *words: str) -> str:
        result = self.dbmgr(*words)
        self.assertEqual((result.status, result.err), (0, ""))
        return result.out

    def refused(self, *words: str) -> str:
        result = self.dbmgr(*words)
        self.assertEqual((result.status, result.out), (1, ""))
        return result.err

    def add(self, broker: str, state: State) -> None:
        database = SqliteDatabase(str(self.path))
        connection = database.connect()
        self.addCleanup(connection.close)
        me, members = Myself(broker, "c", f"{broker}:7676", "1", "process", ""), BrokerTable(database)
        members.join(connection, me, members.row(connection, broker))
        session.take(connection, f"node of {broker}", "process", broker)
        members.stamp(connection, me, state, f"node of {broker}")

    def test_tables_are_made_once_and_removed(self) -> None:
        self.assertIn("Successfully created the tables", self.done("create", "tbl"))
        self.assertIn("exist already", self.refused("create", "tbl"))
        self.assertIn("Successfully recreated", self.done("recreate", "tbl"))
        self.assertIn("Successfully deleted", self.done("delete", "tbl"))
        self.assertIn("There are no tables", self.refused("query"))

    def test_nothing_is_done_under_brokers_that_run(self) -> None:
        self.done("create", "tbl")
        self.add("b2", State.OPERATING)
        for words in (("delete", "tbl"), ("recreate", "tbl"), ("backup", "-dir", str(self.varhome / "x"))):
            self.assertIn("Brokers run on this database: b2", self.refused(*words))

    def test_a_query_shows_tables_and_members(self) -> None:
        self.done("create", "tbl")
        self.assertNotIn("Broker ID", self.done("query"))
        self.add("b2", State.OPERATING)
        told = self.done("query")
        self.assertIn("mqbroker_message", told)
        self.assertRegex(told, r"b2 +c +b2:7676 +OPERATING")

    def test_a_backup_is_restored(self) -> None:
        self.done("create", "tbl")
        self.add("b2", State.SHUTDOWN_COMPLETE)
        folder = str(self.varhome / "backup")
        self.assertIn("Successfully backed up", self.done("backup", "-dir", folder))
        self.assertIn("expected a new folder", self.refused("backup", "-dir", folder))
        self.done("recreate", "tbl")
        self.assertIn("Successfully restored", self.done("restore", "-dir", folder))
        self.assertIn("b2", self.done("query"))
        self.assertIn("there is no backup in it", self.refused("restore", "-dir", str(self.varhome)))

    def test_a_broken_backup_is_refused(self) -> None:
        self.done("create", "tbl")
        folder = self.varhome / "backup"
        self.done("backup", "-dir", str(folder))
        (folder / "session.jsonl").write_text('["something"]\n')
        self.assertIn("has other columns than", self.refused("restore", "-dir", str(folder)))

    def test_a_broker_is_removed_when_it_has_stopped(self) -> None:
        self.done("create", "tbl")
        self.add("b2", State.OPERATING)
        self.assertIn("b2 is OPERATING", self.refused("remove", "bkr", "-n", "b2", "-f"))
        self.add("b2", State.SHUTDOWN_COMPLETE)
        self.assertIn("with 1 store sessions", self.done("remove", "bkr", "-n", "b2", "-f"))
        self.assertIn("there is no broker b2", self.refused("remove", "bkr", "-n", "b2", "-f"))

    def test_a_store_in_files_has_no_tables(self) -> None:
        (self.varhome / "instances" / "b1" / "props" / "config.properties").write_text("")
        self.assertIn("the properties name no database of messages", self.refused("create", "tbl"))
