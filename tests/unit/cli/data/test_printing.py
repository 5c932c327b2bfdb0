"""Branches of transactions, as ``mqbroker data print`` shows them."""

from __future__ import annotations

from pathlib import Path

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.recover import salvage, write_journal
from mqclient.storageformat.records import BRANCH_PREPARED, BranchRecord
from tests.unit.cli.data.test_data import JournalCase
from tests.unit.cli.runner import mqbroker


class BranchTests(JournalCase):
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
