"""The record into a file and back [B8.7]."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.record.backup import BackupError
from mqclient.errors import IllegalStateError
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import TWO, three


class BackupTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()
        self.two.session().send(create("q"))
        self.net.settle()

    def test_only_at_the_master(self) -> None:
        self.assertRaises(IllegalStateError, self.two.shared.backups.backup)
        self.assertRaises(IllegalStateError, self.two.shared.backups.restore, b"")
        _, alone, _, _ = three(master=None)
        self.assertRaises(IllegalStateError, alone.shared.backups.backup)

    def test_not_while_the_master_changes(self) -> None:
        self.one.recording.keeping.blocked = "it changes"
        error = self.assertRaises(IllegalStateError, self.one.shared.backups.backup)
        self.assertIn("it changes", str(error))

    def test_an_administrator_ends_a_change_that_was_not_completed(self) -> None:
        """The new master was told, has not answered, and will not come back."""
        saved = self.one.shared.backups.backup()
        self.one.recording.mastership.hand_over(TWO, "c")
        self.two.stop()
        self.one.restart(crash=True)
        self.assertIn(TWO, self.one.recording.keeping.blocked)
        self.one.shared.backups.restore(saved)
        self.assertIsNone(self.one.recording.keeping.blocked)
        self.one.restart(crash=True)
        self.net.link_all(self.one)
        self.net.settle()
        self.one.session().ok(create("r"))
        self.net.settle()
        self.assertEqual(self.three.queues, ["q", "r"])

    def test_a_restored_record_holds_everywhere(self) -> None:
        saved = self.one.shared.backups.backup()
        self.one.session().ok(create("later"))
        self.net.settle()
        self.assertEqual(self.one.shared.backups.restore(saved), 1)
        self.net.settle()
        self.assertEqual([node.queues for node in self.net.nodes.values()], [["q"]] * 3)
        self.one.restart(crash=True)
        self.assertEqual(self.one.queues, ["q"])

    def test_a_damaged_file_changes_nothing(self) -> None:
        saved = self.one.shared.backups.backup()
        record = self.one.recording.keeping.record
        self.assertRaises(BackupError, self.one.shared.backups.restore, saved[:-5])
        self.assertIs(self.one.recording.keeping.record, record)

    def test_a_master_that_was_made_by_hand(self) -> None:
        """Back up at the old master, name the new one everywhere, start it first, restore there."""
        saved = self.one.shared.backups.backup()
        for node in self.net.nodes.values():
            node.stop()
            node.cluster = replace(node.cluster, master=TWO)
        self.two.start()
        self.two.shared.backups.restore(saved)
        for node in (self.one, self.three):
            node.start()
            self.net.link_all(node)
        self.net.settle()
        self.assertEqual([node.recording.state for node in self.net.nodes.values()], ["running", "running_master", "running"])
        self.assertEqual([node.queues for node in self.net.nodes.values()], [["q"]] * 3)
        self.assertEqual([node.left for node in self.net.nodes.values()], [[], [], []])
