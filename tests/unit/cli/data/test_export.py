"""``mqbroker data export``."""

from __future__ import annotations

import io
from pathlib import Path
from unittest import mock

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.recover import write_journal
from mqbroker.cli.root import invoke
from mqbroker.messaging.ports import QueueRecord
from mqbroker.storage.files.bindings import queue_value
from mqbroker.storage.files.recover import SalvagedState
from mqclient.storageformat.records import QUEUE_BINDING, BindingRecord, MessageRecord
from mqclient.storageformat.replay import State
from mqclient.wire.message import CoreMessage, encode_headers
from tests.unit.cli.data.test_data import JournalCase


class ExportTests(JournalCase):
    def write(self, queue: str, *messages: MessageRecord) -> None:
        """Let the journal be one with these messages alone."""
        found = SalvagedState(State(), [], node_id=bytes(range(16)))
        found.state.apply(1, BindingRecord(QUEUE_BINDING, queue_value(QueueRecord(2, queue, "orders", 1, None, {}))))
        for message in messages:
            found.state.apply(1, message)
        self.data = Path(self.mktemp())
        self.folders = DataFolders(self.data / "journal", self.data / "bindings", self.data / "large-messages")
        write_journal(found, self.folders, self.folders)

    def test_export(self) -> None:
        self.assertEqual(self.bodies("--data", str(self.data)), {10: b"body 10", 11: b"body 11", 12: b"body 12", 13: b"large"})
        text = self.command("exp").out
        self.assertIn('<address-binding routing-types="MULTICAST,ANYCAST" name="orders" id="1"/>', text)
        self.assertIn('<queue-binding address="orders" filter-string="a &gt; 1" name="orders" id="2" routing-type="ANYCAST"/>', text)

    def test_a_damaged_journal_is_not_exported(self) -> None:
        self.damage()
        result = self.command("exp")
        self.assertEqual(result.status, 1)
        self.assertIn("data recover", result.err)

    def test_a_body_that_is_cut_off_is_not_exported_as_a_whole_one(self) -> None:
        self.folders.large_body(13).write_bytes(b"lar")
        result = self.command("exp", "--output", self.mktemp())
        self.assertEqual((result.status, result.out), (1, ""))
        self.assertIn("ends 2 bytes too early", result.err)
        self.assertIn("13.msg", result.err)

    def test_a_large_message_without_a_body_has_no_file(self) -> None:
        headers = encode_headers(CoreMessage(message_id=14, address="orders", durable=True))
        self.write("orders", MessageRecord(14, 0, (2,), headers, None, 14, 0, False))
        self.assertFalse(self.folders.large_body(14).exists())
        self.assertEqual(self.bodies("--data", str(self.data)), {14: b""})

    def test_an_export_that_fails_leaves_the_former_one(self) -> None:
        file = Path(self.mktemp())
        self.assertEqual(self.command("exp", "--output", str(file)).status, 0)
        whole = file.read_text()
        self.folders.large_body(13).unlink()
        self.assertEqual(self.command("exp", "--output", str(file)).status, 1)
        self.assertEqual(file.read_text(), whole)
        self.assertEqual([path.name for path in file.parent.iterdir() if path.name.startswith(file.name)], [file.name])

    def test_an_export_is_utf_8_whatever_the_terminal_has(self) -> None:
        self.write("Aufträge \N{SNOWMAN}", self.message(10))
        written = io.BytesIO()
        with mock.patch("sys.stdout", io.TextIOWrapper(written, encoding="iso-8859-1")) as out:
            self.assertEqual(invoke(["data", "exp", "--data", str(self.data)]), 0)
            out.flush()
            self.assertIn('name="Aufträge \N{SNOWMAN}"', written.getvalue().decode("utf-8"))
