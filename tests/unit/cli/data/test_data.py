"""Offline commands on journals that the tests write, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.recover import salvage, write_journal
from mqbroker.cli.data.xml_messages import read_body, read_message
from mqbroker.cli.data.xml_reader import read_nodes
from mqbroker.messaging.ports import AddressRecord, QueueRecord
from mqbroker.storage.files.bindings import address_value, queue_value
from mqbroker.storage.files.recover import SalvagedState
from mqclient.storageformat.records import ADDRESS_BINDING, BRANCH_PREPARED, QUEUE_BINDING, BindingRecord, BranchRecord, MessageRecord
from mqclient.storageformat.replay import State
from mqclient.wire.message import CoreMessage, encode_headers, encode_message
from tests.unit.cli.runner import Result, mqbroker


class JournalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = Path(self.mktemp())
        self.folders = DataFolders(self.data / "journal", self.data / "bindings", self.data / "large-messages")
        found = SalvagedState(State(), [], node_id=bytes(range(16)))
        found.state.apply(1, BindingRecord(ADDRESS_BINDING, address_value(AddressRecord(1, "orders", frozenset({0, 1}), False))))
        found.state.apply(1, BindingRecord(QUEUE_BINDING, queue_value(QueueRecord(2, "orders", "orders", 1, "a > 1", {}))))
        for number in (10, 11, 12):
            found.state.apply(1, self.message(number))
        large = encode_headers(CoreMessage(message_id=13, address="orders", durable=True))
        found.state.apply(1, MessageRecord(13, 0, (2,), large, None, 13, 5, False))
        source = Path(self.mktemp())
        source.mkdir()
        (source / "13.msg").write_bytes(b"large")
        write_journal(found, DataFolders(source, source, source), self.folders, unwritten_max=0)

    @staticmethod
    def message(number: int, branch_id: int = 0) -> MessageRecord:
        message = CoreMessage(message_id=number, address="orders", durable=True, body=b"body %d" % number)
        return MessageRecord(number, 4 + len(message.body), (2,), encode_message(message), None, None, 0, False, branch_id)

    def command(self, name: str, *arguments: str) -> Result:
        return mqbroker("data", name, "--data", str(self.data), *arguments)

    def bodies(self, *arguments: str) -> dict[int, bytes]:
        file = Path(self.mktemp())
        result = mqbroker("data", "exp", *arguments, "--output", str(file))
        self.assertEqual(result.status, 0, result.err)
        with file.open("rb") as stream:
            return {
                read_message(node).message.message_id: b"".join(read_body(node))
                for node in read_nodes(stream, "activemq-journal", ("message",))
            }

    def damage(self) -> None:
        """Overwrite a byte in the body of message 11."""
        (segment,) = self.folders.journal.glob("*.mqj")
        content = segment.read_bytes()
        at = content.index(b"body 11")
        segment.write_bytes(content[:at] + b"B" + content[at + 1 :])

    def test_export(self) -> None:
        self.assertEqual(self.bodies("--data", str(self.data)), {10: b"body 10", 11: b"body 11", 12: b"body 12", 13: b"large"})
        text = self.command("exp").out
        self.assertIn('<address-binding routing-types="MULTICAST,ANYCAST" name="orders" id="1"/>', text)
        self.assertIn('<queue-binding address="orders" filter-string="a &gt; 1" name="orders" id="2" routing-type="ANYCAST"/>', text)

    def test_print(self) -> None:
        text = self.command("print").out
        self.assertIn("operation@Message;recordID=11;queues=[2];address=orders", text)
        self.assertIn(b"body 11".hex(), text)
        self.assertIn("messages=4;", text)
        safe = self.command("print", "--safe", "--skip-bindings").out
        self.assertNotIn(b"body 11".hex(), safe)
        self.assertNotIn("operation@Binding", safe)

    def test_branches(self) -> None:
        """A prepared branch is printed and salvaged; what it has sent is not exported."""
        found = salvage(self.folders)
        found.state.apply(1, BranchRecord(20, BRANCH_PREPARED, 1, 7, b"qualifier", b"transaction", ((2, 10),)))
        found.state.apply(1, self.message(21, 20))
        branches = Path(self.mktemp())
        folders = DataFolders(branches / "journal", branches / "bindings", branches / "large-messages")
        write_journal(found, self.folders, folders)
        text = mqbroker("data", "print", "--data", str(branches)).out
        self.assertIn("operation@Branch;branch_id=20;state=0;", text)
        self.assertIn("recordID=21;queues=[2];branch=20;", text)
        self.assertIn("messages=5;duplicateIDs=0;branches=1;", text)
        result = mqbroker("data", "exp", "--data", str(branches))
        self.assertIn("1 prepared XA branches are not exported", result.err)
        self.assertEqual(set(self.bodies("--data", str(branches))), {10, 11, 12, 13})
        target = self.mktemp()
        mqbroker("data", "recover", "--data", str(branches), "--target", target)
        text = mqbroker("data", "print", "--data", target).out
        self.assertIn("recordID=21;queues=[2];branch=20;", text)
        self.assertIn("messages=5;duplicateIDs=0;branches=1;", text)

    def test_a_damaged_journal_is_not_exported(self) -> None:
        self.damage()
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("data recover", result.err)

    def test_recover_saves_the_rest_and_names_the_loss(self) -> None:
        self.damage()
        before = {path: path.read_bytes() for path in self.data.rglob("*.mqj")}
        target = Path(self.mktemp())
        result = self.command("recover", "--target", str(target), "--json")
        self.assertEqual(result.status, 0, result.err)
        report = json.loads(result.out)
        self.assertEqual((report["messages"], [loss["messageIDs"] for loss in report["losses"]]), (3, [[11]]))
        self.assertEqual(self.bodies("--data", str(target)), {10: b"body 10", 12: b"body 12", 13: b"large"})
        self.assertEqual({path: path.read_bytes() for path in self.data.rglob("*.mqj")}, before)

    def test_recover_writes_the_list_into_a_file(self) -> None:
        self.damage()
        file = Path(self.mktemp())
        result = self.command("recover", "--target", self.mktemp(), "--output", str(file))
        self.assertEqual((result.status, result.out), (0, ""))
        self.assertIn("message ids: 11", file.read_text())
        self.assertIn("recovered 3 messages", file.read_text())

    def test_a_broker_starts_on_what_was_recovered(self) -> None:
        """The node id stays, and ids go on above all that were there."""
        from mqbroker.process.localfs import LocalFileSystem
        from mqbroker.storage.files.folders import journal_node_id
        from mqbroker.storage.files.recover import read_folder
        from mqbroker.storage.settings import StoreSettings

        self.damage()
        target = Path(self.mktemp())
        self.command("recover", "--target", str(target))
        settings = StoreSettings(str(target / "journal"), str(target / "bindings"), str(target / "large-messages"))
        recovered = read_folder(LocalFileSystem(), settings)
        self.assertEqual([message.message_id for message, _ in recovered.messages], [10, 12, 13])
        self.assertEqual(journal_node_id(LocalFileSystem(), settings), bytes(range(16)))

    def test_recover_lists_large_messages_without_their_body(self) -> None:
        self.folders.large_body(13).unlink()
        result = self.command("recover", "--target", self.mktemp())
        self.assertIn("LOST message 13: the file of its large body is missing", result.out)
        self.assertIn("recovered 3 messages", result.out)

    def test_recover_wants_an_empty_target(self) -> None:
        self.assertEqual(self.command("recover", "--target", str(self.data)).status, 1)

    def test_a_whole_journal_has_no_losses(self) -> None:
        result = self.command("recover", "--target", self.mktemp())
        self.assertEqual((result.status, "LOST" in result.out), (0, False))

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
