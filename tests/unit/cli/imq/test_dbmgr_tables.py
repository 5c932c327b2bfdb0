"""The tables of brokers by the words of imqdbmgr, on a file of SQLite."""

from __future__ import annotations

import errno
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.shared.brokers import BrokerTable, Myself, State
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import Connection, DatabaseAwayError
from tests.unit.cli.runner import Result, mqbroker


class TableCommands(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)
        self.path = self.varhome / "mq.db"
        self.waited = 0
        self.properties = properties = self.varhome / "instances" / "b1" / "props" / "config.properties"
        properties.parent.mkdir(parents=True)
        properties.write_text(
            "imq.cluster.ha=true\nimq.cluster.clusterid=c\nimq.brokerid=b1\nimq.persist.store=jdbc\nimq.persist.jdbc.dbVendor=sqlite\n"
            "imq.persist.jdbc.sqlite.opendburl=jdbc:sqlite:${imq.instanceshome}/../mq.db\n"
            "imq.cluster.monitor.interval=2\nimq.cluster.monitor.threshold=2\n"
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

    def waits(self, meanwhile: Callable[[], object]) -> None:
        """Instead of waiting, ``meanwhile`` happens, each second."""

        def sleep(seconds: float) -> None:
            self.assertEqual(seconds, 1.0)
            self.waited += 1
            meanwhile()

        self.patch(time, "sleep", sleep)

    def connect(self) -> tuple[SqliteDatabase, Connection]:
        database = SqliteDatabase(str(self.path))
        connection = database.connect()
        self.addCleanup(connection.close)
        return database, connection

    def stamp(self, broker: str) -> None:
        _, connection = self.connect()
        connection.run(schema.table("UPDATE {broker} SET stamp = stamp + 1 WHERE broker = ?"), (broker,))

    def take(self, broker: str) -> None:
        session.take(self.connect()[1], f"node of {broker}", "process", broker)

    def sessions(self) -> list[str]:
        return [broker for (broker,) in self.connect()[1].rows(schema.table("SELECT broker FROM {session}"))]

    def backed_up(self) -> str:
        folder = str(self.varhome / "backed up")
        self.done("backup", "-dir", folder)
        return folder

    def add(self, broker: str, state: State) -> None:
        database, connection = self.connect()
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
        self.waits(lambda: self.stamp("b2"))
        for words in (("delete", "tbl"), ("recreate", "tbl"), ("delete", "tbl", "-f"), ("backup", "-dir", str(self.varhome / "x"))):
            self.assertIn("Brokers run on this database: b2. Expected that all are shut down", self.refused(*words))
        self.assertEqual(self.waited, 4)

    def test_brokers_that_were_killed_hold_up_nothing_for_ever(self) -> None:
        self.done("create", "tbl")
        self.add("b2", State.OPERATING)
        self.waits(lambda: None)
        for words in (("backup", "-dir", str(self.varhome / "x")), ("restore", "-dir", str(self.varhome / "x")), ("delete", "tbl")):
            result = self.dbmgr(*words)
            self.assertEqual((result.status, result.err), (0, "Waiting 6 s for a sign of life of b2\n"))
        self.assertEqual(self.waited, 18)

    def test_data_of_others_stay_unless_forced(self) -> None:
        self.done("create", "tbl")
        folder = str(self.varhome / "backup")
        self.done("backup", "-dir", folder)
        self.take("other")
        for words in (("delete", "tbl"), ("recreate", "tbl"), ("restore", "-dir", folder)):
            self.assertIn("also has the broker other; with -f all tables go, with everything in them", self.refused(*words))
        self.assertIn("Successfully recreated", self.done("recreate", "tbl", "-f"))
        self.take("other")
        self.assertIn("Successfully restored", self.done("restore", "-dir", folder, "-f"))

    def test_a_broker_outside_of_enhanced_clusters_removes_its_own_data_alone(self) -> None:
        self.properties.write_text(self.properties.read_text().replace("imq.cluster.ha=true", "imq.cluster.ha=false"))
        self.done("create", "tbl")
        for words in (("delete", "tbl"), ("recreate", "tbl")):
            self.take("b1")
            self.take("other")
            self.assertIn("Successfully deleted the data of the broker b1", self.done(*words))
            self.assertEqual(self.sessions(), ["other"])
        self.assertIn("also has the broker other", self.refused("restore", "-dir", self.backed_up()))
        self.assertIn("Successfully deleted the tables", self.done("delete", "tbl", "-f"))

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

    def test_half_a_backup_is_not_taken_for_one(self) -> None:
        self.done("create", "tbl")
        self.take("b1")
        folder = self.varhome / "backup"
        with mock.patch("mqbroker.cli.imq.dbmgr_tables._written", side_effect=OSError(errno.ENOSPC, "No space left on device")):
            self.assertIn("No space left on device; there is no backup", self.refused("backup", "-dir", str(folder)))
        self.assertEqual([path.name for path in self.varhome.iterdir() if path.name.startswith("backup")], [])
        self.assertIn("Successfully backed up", self.done("backup", "-dir", str(folder)))

    def test_nothing_is_removed_for_a_backup_that_is_not_whole(self) -> None:
        self.done("create", "tbl")
        self.take("b1")
        folder = Path(self.backed_up())
        session_file = folder / "session.jsonl"
        whole = session_file.read_text()
        for text, reason in ((None, "No such file"), ("", "other columns"), (whole[:-20], "session.jsonl, line 2")):
            session_file.unlink() if text is None else session_file.write_text(text)
            told = self.refused("restore", "-dir", str(folder))
            self.assertIn(reason, told)
            self.assertIn("nothing was changed", told)
            self.assertEqual(self.sessions(), ["b1"])

    def test_a_restore_that_loses_its_database_says_what_is_there(self) -> None:
        self.done("create", "tbl")
        folder = self.backed_up()
        with mock.patch("mqbroker.storage.shared.tables.fill", side_effect=DatabaseAwayError("the connection is lost")):
            self.assertIn("the connection is lost; the tables are empty now", self.refused("restore", "-dir", folder))
        self.assertIn("Successfully restored", self.done("restore", "-dir", folder))

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

    def with_broker_xml(self, *, runs: bool = False, store: str = "") -> None:
        """The instance has files; a broker ``runs`` on it, its broker.xml has this database-store."""
        folder = self.varhome / "instances" / "b1"
        properties = self.properties.read_text()
        shutil.rmtree(folder)
        with mock.patch("os.execv"):
            mqbroker("imq", "brokerd", "-varhome", str(self.varhome), "-name", "b1")
        self.properties.write_text(properties)
        if store:
            text = (folder / "etc" / "broker.xml").read_text()
            url = f"<database-store><jdbc-connection-url>{store}</jdbc-connection-url></database-store>"
            (folder / "etc" / "broker.xml").write_text(text.replace("</core>", f"<store>{url}</store></core>"))
        if runs:
            (folder / "data" / "journal").mkdir(exist_ok=True)
            lock = NodeLock(LocalFileSystem(), str(folder / "data" / "journal"))
            lock.acquire()
            self.addCleanup(lock.release)

    def test_nothing_is_done_under_the_own_broker_outside_of_enhanced_clusters_either(self) -> None:
        self.properties.write_text(self.properties.read_text().replace("imq.cluster.ha=true", "imq.cluster.ha=false"))
        self.done("create", "tbl")
        folder = self.backed_up()
        self.take("b1")
        self.with_broker_xml(runs=True)
        for words in (("delete", "tbl"), ("recreate", "tbl"), ("delete", "tbl", "-f"), ("restore", "-dir", folder)):
            self.assertIn("a broker runs on this instance, stop it first", self.refused(*words))
        self.assertEqual(self.sessions(), ["b1"])

    def test_the_database_may_be_that_of_the_broker_xml(self) -> None:
        self.properties.write_text("imq.brokerid=b1\n")
        self.with_broker_xml(store="jdbc:sqlite:../../mq.db")
        self.done("create", "all")
        self.take("b1")
        self.take("other")
        self.assertIn("Successfully deleted the data of the broker b1", self.done("delete", "tbl"))
        self.assertEqual(self.sessions(), ["other"])
        self.properties.write_text("")
        self.assertIn("imq.brokerid is missing", self.refused("query"))
