"""``mqbroker data recover``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.data.test_data import JournalCase


class RecoverTests(JournalCase):
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

    def test_the_list_is_shown_where_its_file_cannot_be_written(self) -> None:
        self.damage()
        result = self.command("recover", "--target", self.mktemp(), "--output", str(Path(self.mktemp()) / "missing" / "list"))
        self.assertEqual(result.status, 1)
        self.assertIn("--output: ", result.err)
        self.assertIn("message ids: 11", result.out)

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
