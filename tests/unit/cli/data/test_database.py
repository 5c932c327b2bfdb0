"""The offline commands on a database: the same as on files, and which database they take."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

from mqbroker.cli.data import database
from mqbroker.cli.imq.instance_files import imq_instance_files
from mqbroker.cli.start.create import write_instance
from mqbroker.cli.status import CommandError
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import AddressRecord, BranchRecord, BranchState, QueueRecord
from mqbroker.process.localfs import LocalFileSystem
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.disk.nodelock import NodeLock
from mqbroker.storage.sql import bodies
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.primitives import Xid
from tests.unit.cli.data.test_data import JournalCase
from tests.unit.cli.runner import Result, mqbroker
from tests.unit.storage.sql.support import SqlRig

LARGE = random.Random(1).randbytes(2 * bodies.PIECE_SIZE + 7)


class DatabaseCase(JournalCase):
    """The data of JournalCase, but for the size of the large message, as a broker that has stopped has left them."""

    def setUp(self) -> None:
        super().setUp()
        self.path = Path(self.mktemp())
        self.rig = SqlRig(self.addCleanup, database=SqliteDatabase(str(self.path)))
        self.rig.start()
        batch = self.rig.store.begin()
        batch.put_address(AddressRecord(1, "orders", frozenset({0, 1}), False))
        batch.put_queue(QueueRecord(2, "orders", "orders", 1, "a > 1", {}))
        batch.put_setting("kind", "key", "value\0")
        batch.add_duplicate_id("cache", b"id", 5)
        for number in (10, 11, 12):
            batch.add_message(self.stored(number), [2])
        body = self.rig.store.create_large_body(13)
        body.append(LARGE)
        body.complete()
        batch.add_message(Message.of(CoreMessage(message_id=13, address="orders", durable=True), body), [2])
        self.rig.store.commit(batch)
        self.rig.restart()

    @staticmethod
    def stored(number: int) -> Message:
        return Message.received(encode_message(CoreMessage(address="orders", durable=True, body=b"body %d" % number)), number)

    def command(self, name: str, *arguments: str) -> Result:
        return mqbroker("data", name, *self.place, *arguments)

    @property
    def place(self) -> tuple[str, str]:
        return "--jdbc-connection-url", f"jdbc:sqlite:{self.path.absolute()}"

    def damage(self) -> None:
        """Cut off the bytes of message 11."""
        self.change("UPDATE mqbroker_message SET buffer = x'0011' WHERE place = 11")

    def change(self, statement: str) -> None:
        connection = self.rig.database.connect()
        connection.run(statement)
        connection.close()

    def prepare_branch(self) -> None:
        batch = self.rig.store.begin()
        batch.put_branch(BranchRecord(20, Xid(7, b"q", b"t"), BranchState.PREPARED, 1, ((2, 10),)))
        batch.add_prepared(20, self.stored(21), [2])
        self.rig.store.commit(batch)
        self.rig.settle()


class ExportTests(DatabaseCase):
    def test_export(self) -> None:
        self.assertEqual(self.bodies(*self.place), {10: b"body 10", 11: b"body 11", 12: b"body 12", 13: LARGE})
        text = self.command("exp").out
        self.assertIn('<address-binding routing-types="MULTICAST,ANYCAST" name="orders" id="1"/>', text)
        self.assertIn('<queue-binding address="orders" filter-string="a &gt; 1" name="orders" id="2" routing-type="ANYCAST"/>', text)

    def test_the_xml_is_that_of_files_with_the_same_data(self) -> None:
        """But for the body of the large message, which has another size there."""
        files, rows = super().command("exp"), self.command("exp")
        self.assertEqual((files.status, rows.status), (0, 0))
        whole, cut = files.out.partition('<message id="13"')[0], rows.out.partition('<message id="13"')[0]
        self.assertEqual(cut, whole)

    def test_messages_that_are_marked_to_go_and_those_of_branches_are_left_out(self) -> None:
        self.prepare_branch()
        store = self.rig.store
        batch = store.begin()
        transient = Message.received(encode_message(CoreMessage(address="orders")), store.next_id())
        assert store.pager is not None
        batch.add_paged(store.pager.folder("orders"), transient, (2,), (), 1000)
        store.commit(batch)
        self.rig.settle()
        self.change("INSERT INTO mqbroker_removal SELECT session, 2, 1, 'orders', 10, 12, 12 FROM mqbroker_session")
        result = self.command("exp")
        self.assertIn("1 prepared XA branches are not exported", result.err)
        self.assertEqual(set(self.bodies(*self.place)), {10, 13})

    def test_a_damaged_message_is_not_exported(self) -> None:
        self.damage()
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("the message at place 11 cannot be read", result.err)
        self.assertIn("data recover", result.err)

    def test_a_body_that_is_missing_is_an_error(self) -> None:
        self.change("DELETE FROM mqbroker_body WHERE piece = 1")
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("the body 13 is missing or cut off", result.err)


class PrintTests(DatabaseCase):
    def test_print(self) -> None:
        self.prepare_branch()
        text = self.command("print").out
        self.assertIn("operation@Message;recordID=11;queues=[2];address=orders", text)
        self.assertIn("recordID=13;queues=[2];largeBody=13;largeBodySize=", text)
        self.assertIn("recordID=21;queues=[2];branch=20;", text)
        self.assertIn("operation@Branch;branch_id=20;state=0;", text)
        self.assertIn("operation@DuplicateIds;record_id=5;", text)
        self.assertIn(b"body 11".hex(), text)
        self.assertIn("messages=5;duplicateIDs=1;branches=1;bindings=3;", text)
        self.assertIn(f"Server's ID={self.rig.store.node_id.replace('-', '')}", text)
        safe = self.command("print", "--safe", "--skip-bindings").out
        self.assertNotIn(b"body 11".hex(), safe)
        self.assertNotIn("operation@Binding", safe)
        self.assertNotIn("operation@Message", self.command("print", "--skip-journal").out)

    def test_deliveries_and_times(self) -> None:
        self.change("UPDATE mqbroker_reference SET deliveries = 3, due = 77 WHERE place = 12")
        text = self.command("print").out
        self.assertIn("operation@DeliveryCount;queue_id=2;message_id=12;count=3", text)
        self.assertIn("operation@Schedule;queue_id=2;message_id=12;time_ms=77", text)


class RecoverTests(DatabaseCase):
    def test_everything_comes_into_files(self) -> None:
        """Also what an export has no place for."""
        self.prepare_branch()
        self.change("UPDATE mqbroker_reference SET deliveries = 3, due = 77 WHERE place = 12")
        target = self.mktemp()
        result = self.command("recover", "--target", target)
        self.assertEqual((result.status, "LOST" in result.out), (0, False), result.err)
        self.assertIn("recovered 5 messages", result.out)
        self.assertEqual(self.bodies("--data", target), {10: b"body 10", 11: b"body 11", 12: b"body 12", 13: LARGE})
        text = mqbroker("data", "print", "--data", target).out
        self.assertIn("messages=5;duplicateIDs=1;branches=1;bindings=3;", text)
        self.assertIn("operation@DeliveryCount;queue_id=2;message_id=12;count=3", text)
        self.assertIn("operation@Schedule;queue_id=2;message_id=12;time_ms=77", text)
        self.assertIn("recordID=21;queues=[2];branch=20;", text)
        self.assertIn(f"Server's ID={self.rig.store.node_id.replace('-', '')}", text)

    def test_what_cannot_be_read_is_named_and_the_rest_saved(self) -> None:
        self.damage()
        self.change("DELETE FROM mqbroker_body WHERE piece = 2")
        self.change("UPDATE mqbroker_reference SET queue = 99 WHERE place = 10")
        target = self.mktemp()
        report = json.loads(self.command("recover", "--target", target, "--json").out)
        self.assertEqual((report["messages"], report["withoutQueue"], report["missingBodies"]), (1, [10], [13]))
        [loss] = report["losses"]
        self.assertIn("the message at place 11", loss["file"])
        self.assertEqual(self.bodies("--data", target), {12: b"body 12"})

    def test_a_message_of_an_unknown_branch(self) -> None:
        self.prepare_branch()
        self.change("DELETE FROM mqbroker_branch")
        report = json.loads(self.command("recover", "--target", self.mktemp(), "--json").out)
        self.assertEqual((report["messages"], report["withoutBranch"]), (4, [21]))


class ChoiceTests(DatabaseCase):
    def broker_xml(self, url: str | None = None) -> Path:
        file = Path(self.mktemp())
        store = f"<store><database-store><jdbc-connection-url>{url or self.place[1]}</jdbc-connection-url></database-store></store>"
        folder = f"<journal-directory>{self.data.absolute() / 'locks'}</journal-directory>"
        file.write_text(f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{folder}{store}</core></configuration>')
        return file

    def test_a_broker_xml_with_a_database(self) -> None:
        file = str(self.broker_xml())
        self.assertEqual(set(self.bodies("--broker", file)), {10, 11, 12, 13})
        self.assertEqual(mqbroker("data", "exp", "--broker", file, "--jdbc").status, 0)

    def test_a_running_broker_is_left_alone_as_with_files(self) -> None:
        file, folder = str(self.broker_xml()), self.data / "locks"
        folder.mkdir()
        lock = NodeLock(LocalFileSystem(), str(folder))
        lock.acquire()
        self.addCleanup(lock.release)
        result = mqbroker("data", "print", "--broker", file)
        self.assertEqual(result.status, 1)
        self.assertIn("another broker uses this folder", result.err)
        self.assertEqual(mqbroker("data", "print", "--broker", file, "--f").status, 0)

    def test_the_data_of_the_own_node_are_taken(self) -> None:
        self.change("INSERT INTO mqbroker_session VALUES (99, 'other', 'b2', 1, 0, '', 0, 0)")
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("has the data of these nodes", result.err)
        (self.data / "locks").mkdir()
        NodeLock(LocalFileSystem(), str(self.data / "locks")).write_node_id(self.rig.store.node_id)
        self.assertEqual(set(self.bodies("--broker", str(self.broker_xml()))), {10, 11, 12, 13})

    def test_the_broker_of_the_instance_is_taken_with_what_it_has_inherited(self) -> None:
        self.change("UPDATE mqbroker_session SET broker = 'b1', current = 0, taken = 1")
        self.change("INSERT INTO mqbroker_session VALUES (99, '00000000-0000-0000-0000-000000000099', 'b1', 1, 0, '', 0, 0)")
        self.change("INSERT INTO mqbroker_session VALUES (98, 'other', 'b2', 1, 0, '', 0, 0)")
        chosen = database.DataBase(self.rig.database, None, "b1")
        with database.contents_of(chosen, False) as contents:
            self.assertEqual(([row.place for row in contents.messages()], contents.session), ([10, 11, 12, 13], 99))
        with self.assertRaisesRegex(CommandError, "no data of the broker b3"), database.contents_of(replace(chosen, broker_id="b3"), False):
            self.fail("there is nothing")
        self.change("DELETE FROM mqbroker_session WHERE session = 98")
        self.assertEqual(set(self.bodies(*self.place)), {10, 11, 12, 13})
        self.assertIn("(session 99, and what was inherited: ", self.command("print").out)

    def test_an_instance_of_open_message_queue(self) -> None:
        folder = Path(self.mktemp())
        write_instance(folder, "data", imq_instance_files(folder, "python", lambda: bytes(32)))
        self.change("UPDATE mqbroker_session SET broker = 'b1'")
        self.change("INSERT INTO mqbroker_session VALUES (98, 'other', 'b2', 1, 0, '', 0, 0)")
        with (folder / "props" / "config.properties").open("a") as properties:
            properties.write("\nimq.persist.store=jdbc\nimq.brokerid=b1\nimq.persist.jdbc.dbVendor=sqlite\n")
            properties.write(f"imq.persist.jdbc.sqlite.opendburl={self.place[1]}\n")
        self.assertEqual(set(self.bodies("--instance", str(folder))), {10, 11, 12, 13})

    def test_one_state_is_read_while_a_broker_writes(self) -> None:
        chosen = database.DataBase(self.rig.database, None)
        with database.contents_of(chosen, False) as contents:
            rows = contents.messages()
            first = next(rows)
            batch = self.rig.store.begin()
            batch.add_message(self.stored(self.rig.store.next_id()), [2])
            batch.delete_queue(2)
            self.rig.store.commit(batch)
            self.rig.settle()
            self.assertEqual([row.place for row in (first, *rows)], [10, 11, 12, 13])
            self.assertEqual(len(contents.queues()), 1)

    def test_what_cannot_be_read(self) -> None:
        missing, empty = Path(self.mktemp()), Path(self.mktemp())
        empty.touch()
        for arguments, status, text in (
            (("--jdbc-connection-url", f"jdbc:sqlite:{missing}"), 2, "there is no database"),
            (("--jdbc-connection-url", f"jdbc:sqlite:{empty}"), 1, "there are no tables"),
            (("--jdbc-connection-url", "jdbc:derby:x"), 2, "Derby"),
            (("--jdbc-connection-url", "jdbc:postgresql://127.0.0.1:1/mq"), 1, "refused"),
            ((*self.place, "--data", str(self.data)), 2, "name different data"),
            (("--jdbc",), 2, "--jdbc needs --jdbc-connection-url"),
        ):
            with self.subTest(arguments=arguments):
                result = mqbroker("data", "exp", *arguments)
                self.assertEqual(result.status, status, result.err)
                self.assertIn(text, result.err)
        self.assertFalse(missing.exists())

    def test_tables_of_another_version(self) -> None:
        self.change("UPDATE mqbroker_version SET version = 99")
        result = self.command("print")
        self.assertEqual(result.status, 1)
        self.assertIn("version 99", result.err)
