"""Instances by the options of imqbrokerd; the process of the broker is not begun here."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import Connection
from tests.unit.cli.runner import Result, mqbroker


class BrokerdTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.varhome = Path(folder.name)
        self.instance = self.varhome / "instances" / "b1"
        self.started: list[list[str]] = []
        self.hidden: dict[str, str] = {}
        """The properties that the process of the broker gets beside its command line."""
        self.typed = ""
        """Standard input."""

    def brokerd(self, *options: str, **environment: str) -> Result:
        def execute(program: str, arguments: list[str]) -> None:
            self.started.append(arguments[3:])
            self.hidden = json.loads(os.environ.get("MQBROKER_IMQ_PROPERTIES", "{}"))

        with mock.patch("os.execv", execute):
            return mqbroker("imq", "brokerd", "-varhome", str(self.varhome), "-name", "b1", *options, typed=self.typed, **environment)

    def arguments(self, *options: str, **environment: str) -> list[str]:
        result = self.brokerd(*options, **environment)
        self.assertEqual((result.status, result.err), (0, ""))
        first, folder, *rest = self.started.pop()
        self.assertEqual((first, folder), ("--instance", str(self.instance)))
        return rest

    def test_a_new_instance_is_made_once(self) -> None:
        result = self.brokerd("-tty", "-vmargs", "-Xmx1g", "-te", "-useRmiRegistry", "-rmiRegistryPort", "1099")
        self.assertIn(f"Created instance {self.instance}\n", result.out)
        self.assertTrue((self.instance / "props" / "config.properties").exists())
        self.assertEqual(self.brokerd().out, "")

    def test_options_become_properties(self) -> None:
        found = self.arguments("-port", "7700", "-cluster", "a:1,b", "-Dimq.cluster.url=file:/c", "-D", "x=y=z")
        self.assertEqual(
            found,
            [
                "--define",
                "imq.cluster.url=file:/c",
                "--define",
                "x=y=z",
                "--imq-option",
                "imq.portmapper.port=7700",
                "--imq-option",
                "imq.cluster.brokerlist.manual=a:1,b",
            ],
        )
        found = self.arguments("-password", "p", "-passfile", "/keys/pw")
        self.assertEqual(
            found[1::2], ["imq.keystore.password=p", "imq.passfile.enabled=true", "imq.passfile.dirpath=/keys", "imq.passfile.name=pw"]
        )

    def test_properties_are_read_from_standard_input(self) -> None:
        self.typed = "imq.keystore.password=p\nimq.portmapper.port : 7701\nBrokerArgs=x\n"
        self.assertEqual((self.arguments("-port", "7700")[1::2], self.hidden), (["imq.portmapper.port=7700"], {}))
        read = {"imq.keystore.password": "p", "imq.portmapper.port": "7701"}
        self.assertEqual((self.arguments("-read-stdin", "-port", "7700")[1::2], self.hidden), (["imq.portmapper.port=7700"], read))
        self.assertEqual(self.arguments("-read-stdin", "-password", "mine", "-adminkeyfile", "/key")[1::2], ["imq.keystore.password=mine"])
        self.assertEqual(self.hidden, {"imq.portmapper.port": "7701"})
        self.typed = "imq.keystore.password=\\u00zz"
        wrong = self.brokerd("-read-stdin")
        self.assertEqual((wrong.status, "-read-stdin: " in wrong.err), (1, True))

    def test_a_store_is_reset_with_the_properties_of_standard_input(self) -> None:
        self.brokerd()
        connection = self.on_database()
        session.take(connection, "node-1", "owner", "b1")
        (self.instance / "props" / "config.properties").write_text("imq.brokerid=b1\n")
        self.typed = f"imq.persist.store=jdbc\nimq.persist.jdbc.opendburl=jdbc:sqlite:{self.varhome / 'messages.db'}\n"
        self.assertEqual(self.brokerd("-reset", "store", "-read-stdin").status, 0)
        self.assertIsNone(session.node_id_of(connection, "b1"))

    def test_the_installation(self) -> None:
        expected = ["--imq-installation", "/usr/imq/lib/props/broker/install.properties"]
        self.assertEqual(self.arguments("-libhome", "/usr/imq/lib"), expected)
        self.assertEqual(self.arguments(IMQ_LIBHOME="/usr/imq/lib"), expected)

    def test_the_change_record(self) -> None:
        record = self.varhome / "record"
        self.assertEqual(self.arguments("-backup", str(record)), ["--imq-backup", str(record)])
        self.assertEqual(self.brokerd("-restore", str(record)).status, 1)
        record.touch()
        self.assertEqual(self.arguments("-restore", str(record)), ["--imq-restore", str(record)])
        self.assertIn("the file exists already", self.brokerd("-backup", str(record)).err)
        self.assertIn("expected one of them", self.brokerd("-backup", "a", "-restore", "b").err)

    def test_resets(self) -> None:
        self.brokerd()
        (self.instance / "data" / "journal").mkdir()
        (self.instance / "props" / "config.properties").write_text("a=b")
        self.started.clear()
        self.assertEqual(self.arguments("-reset", "messages", "-reset", "durables"), ["--imq-reset", "messages", "--imq-reset", "durables"])
        self.assertTrue((self.instance / "data" / "journal").exists())
        self.assertEqual(self.arguments("-reset", "store", "-reset", "props"), [])
        self.assertEqual(list((self.instance / "data").iterdir()), [])
        self.assertEqual((self.instance / "props" / "config.properties").read_text(), "")
        self.assertIn("-reset", self.brokerd("-reset", "everything").err)

    def test_a_store_is_reset_where_the_broker_xml_has_it(self) -> None:
        self.brokerd()
        broker_xml = self.instance / "etc" / "broker.xml"
        elsewhere = self.varhome / "elsewhere"
        broker_xml.write_text(broker_xml.read_text().replace("data/journal", "${place}/journal"))
        for file in (elsewhere / "journal" / "segment", elsewhere / "other", self.instance / "data" / "bindings" / "segment"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
        self.assertEqual(self.brokerd("-reset", "store", f"-Dplace={elsewhere}").status, 0)
        self.assertEqual([path.name for path in elsewhere.rglob("*") if path.is_file()], ["other"])
        self.assertEqual(list((self.instance / "data").iterdir()), [])

    def test_a_store_on_a_disk_of_its_own_is_reset(self) -> None:
        self.brokerd()
        disk = self.varhome / "disk"
        (self.instance / "data").rename(disk)
        (self.instance / "data").symlink_to(disk)
        (disk / "segment").write_text("")
        self.assertEqual(self.brokerd("-reset", "store").status, 0)
        self.assertEqual(list(disk.iterdir()), [])

    def test_user_and_password_of_the_database(self) -> None:
        self.brokerd()
        words = ("-dbuser", "me", "-dbpassword", "secret")
        self.started.clear()
        self.assertIn("-dbuser and -dbpassword have no effect: the messages are not in a database", self.brokerd(*words).err)
        begin = "imq.persist.jdbc"
        store = "imq.persist.store=jdbc\nimq.brokerid=b1\n"
        for text, prefix in (
            (f"{begin}.opendburl=jdbc:postgresql://db/mq\n", begin),
            (f"{begin}.dbVendor=postgresql\n{begin}.postgresql.opendburl=jdbc:postgresql://db/mq\n", f"{begin}.postgresql"),
        ):
            (self.instance / "props" / "config.properties").write_text(store + text)
            self.started.clear()
            expected = ["--imq-option", f"{prefix}.user=me", "--imq-option", f"{prefix}.password=secret"]
            self.assertEqual(self.arguments(*words), expected)

        (self.instance / "props" / "config.properties").write_text("imq.brokerid=b1\n")
        self.keep_in_xml("jdbc:postgresql://db/mq")
        self.started.clear()
        self.assertEqual(self.arguments(*words), ["--imq-option", f"{begin}.user=me", "--imq-option", f"{begin}.password=secret"])
        self.assertEqual(self.arguments("-dbpwd", "x", "-pwd", "y")[1::2], ["imq.keystore.password=y", f"{begin}.password=x"])

    def keep_in_xml(self, url: str) -> None:
        """Let the broker.xml name a database of the messages."""
        path = self.instance / "etc" / "broker.xml"
        store = f"<store><database-store><jdbc-connection-url>{url}</jdbc-connection-url></database-store></store>"
        path.write_text(path.read_text().replace("</core>", f"{store}</core>"))

    def on_database(self) -> Connection:
        """Let b1 keep its messages in a database of SQLite, which has the tables; returns a connection to it."""
        path = self.varhome / "messages.db"
        text = f"imq.persist.store=jdbc\nimq.persist.jdbc.opendburl=jdbc:sqlite:{path}\nimq.brokerid=b1\n"
        (self.instance / "props" / "config.properties").write_text(text)
        database = SqliteDatabase(str(path))
        connection = database.connect()
        self.addCleanup(connection.close)
        schema.prepare(database, connection)
        return connection

    def test_a_store_in_a_database_is_reset_there(self) -> None:
        self.brokerd()
        connection = self.on_database()
        for number, broker in enumerate(("b1", "b2")):
            session.take(connection, f"node-{number}", "owner", broker)
        self.started.clear()
        self.assertEqual(self.arguments("-reset", "store"), [])
        self.assertEqual([session.node_id_of(connection, broker) for broker in ("b1", "b2")], [None, "node-1"])
        session.take(connection, "node-3", "owner", "b1")
        (self.instance / "props" / "config.properties").write_text("imq.brokerid=b1\n")
        self.keep_in_xml("jdbc:sqlite:../../messages.db")
        self.assertEqual(self.arguments("-reset", "store"), [])
        self.assertEqual([session.node_id_of(connection, broker) for broker in ("b1", "b2")], [None, "node-1"])
        self.on_database()
        wrong = self.brokerd("-reset", "store", "-Dimq.persist.jdbc.opendburl=jdbc:oracle:x")
        self.assertEqual((wrong.status, "oracle is not supported" in wrong.err, self.started), (1, True, []))

    def test_the_data_of_an_enhanced_cluster_are_never_reset(self) -> None:
        self.brokerd()
        path = self.varhome / "messages.db"
        text = f"imq.cluster.clusterid=c\nimq.brokerid=b1\nimq.persist.store=jdbc\nimq.persist.jdbc.opendburl=jdbc:sqlite:{path}\n"
        (self.instance / "props" / "config.properties").write_text(f"imq.cluster.ha=true\n{text}")
        connection = SqliteDatabase(str(path)).connect()
        self.addCleanup(connection.close)
        schema.prepare(SqliteDatabase(str(path)), connection)
        session.take(connection, "node-1", "owner", "b1")
        kept = self.instance / "data" / "kept"
        kept.write_text("")
        self.assertIn("-reset store is ignored in an enhanced cluster", self.brokerd("-reset", "store").err)
        self.assertEqual((session.node_id_of(connection, "b1"), kept.exists()), ("node-1", True))

    def test_an_instance_is_removed(self) -> None:
        self.assertIn("There is no instance b1", self.brokerd("-remove", "instance", "-force").err)
        self.brokerd()
        with mock.patch("click.confirm", lambda *_, **__: False):
            declined = self.brokerd("-remove", "instance")
        self.assertEqual((declined.status, declined.err), (1, "The instance was not removed.\n"), "as imqbrokerd ends")
        self.assertTrue(self.instance.exists())
        self.assertEqual(self.brokerd("-remove", "instance", "-force").out, "Removed instance b1.\n")
        self.assertFalse(self.instance.exists())

    def test_nothing_is_deleted_below_a_broker_that_runs(self) -> None:
        self.brokerd()
        journal = self.instance / "data" / "journal"
        journal.mkdir()
        broker = NodeLock(LocalFileSystem(), str(journal))
        broker.acquire()
        self.started.clear()
        properties = self.instance / "props" / "config.properties"
        properties.write_text("a=b")
        for action in ("-reset", "store"), ("-reset", "props"), ("-remove", "instance", "-force"):
            result = self.brokerd(*action)
            self.assertEqual((result.status, self.started, journal.exists()), (1, [], True))
            self.assertIn("a broker runs on this instance", result.err)
            self.assertEqual(properties.read_text(), "a=b")
        broker.release()
        self.assertEqual(self.brokerd("-remove", "instance", "-force").status, 0)
        self.assertFalse(self.instance.exists())

    def test_rows_in_a_database_are_not_deleted_below_a_broker_that_runs(self) -> None:
        self.brokerd()
        connection = self.on_database()
        session.take(connection, "node-1", "owner", "b1")
        (self.instance / "data" / "journal").mkdir()
        broker = NodeLock(LocalFileSystem(), str(self.instance / "data" / "journal"))
        broker.acquire()
        self.addCleanup(broker.release)
        self.assertEqual(self.brokerd("-reset", "store").status, 1)
        self.assertEqual(session.node_id_of(connection, "b1"), "node-1")

    def test_the_lock_is_where_the_broker_xml_says(self) -> None:
        self.brokerd()
        broker_xml = self.instance / "etc" / "broker.xml"
        broker_xml.write_text(broker_xml.read_text().replace("data/journal", "${place}/journal"))
        journal = self.varhome / "elsewhere" / "journal"
        journal.mkdir(parents=True)
        broker = NodeLock(LocalFileSystem(), str(journal))
        broker.acquire()
        self.addCleanup(broker.release)
        self.assertEqual(self.brokerd("-remove", "instance", "-force", f"-Dplace={self.varhome}/elsewhere").status, 1)

    def test_an_instance_with_a_broken_broker_xml_is_removed(self) -> None:
        self.brokerd()
        (self.instance / "etc" / "broker.xml").write_text("<configuration>")
        self.assertEqual(self.brokerd("-reset", "store").status, 1)
        self.assertEqual(self.brokerd("-remove", "instance", "-force").status, 0)
        self.assertFalse(self.instance.exists())

    def test_an_instance_without_files_is_removed(self) -> None:
        self.instance.mkdir(parents=True)
        self.assertEqual(self.brokerd("-remove", "instance", "-force").status, 0)
        self.assertFalse(self.instance.exists())

    def test_bad_names_and_definitions(self) -> None:
        self.assertIn("-name a/b: expected letters, digits and _", mqbroker("imq", "brokerd", "-name", "a/b").err)
        self.assertIn("-D=x: expected -Dname=value", self.brokerd("-D=x").err)

    def test_the_version(self) -> None:
        self.assertTrue(mqbroker("imq", "brokerd", "-version").out.startswith("mqbroker "))
