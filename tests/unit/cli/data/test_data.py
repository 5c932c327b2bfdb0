"""Offline commands on journals that the tests write, whole and damaged."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.recover import write_journal
from mqbroker.cli.data.xml_messages import read_body, read_message
from mqbroker.cli.data.xml_reader import read_nodes
from mqbroker.messaging.ports import AddressRecord, QueueRecord
from mqbroker.storage.files.bindings import address_value, queue_value
from mqbroker.storage.files.recover import SalvagedState
from mqclient.storageformat.records import ADDRESS_BINDING, QUEUE_BINDING, BindingRecord, MessageRecord
from mqclient.storageformat.replay import State
from mqclient.wire.message import CoreMessage, encode_headers, encode_message
from tests.unit.cli.runner import Result, mqbroker


class JournalCase(SynchronousTestCase):
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


class PrintTests(JournalCase):
    def test_print(self) -> None:
        text = self.command("print").out
        self.assertIn("operation@Message;recordID=11;queues=[2];address=orders", text)
        self.assertIn(b"body 11".hex(), text)
        self.assertIn("messages=4;", text)
        safe = self.command("print", "--safe", "--skip-bindings").out
        self.assertNotIn(b"body 11".hex(), safe)
        self.assertNotIn("operation@Binding", safe)
