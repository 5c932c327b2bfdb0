"""What keeps a segment of the journal: its live records, by queue and by branch."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, BranchState, QueueRecord
from mqclient.wire.message import CoreMessage
from mqclient.wire.primitives import Xid
from tests.unit.storage.files.journal.test_compaction import started
from tests.unit.storage.support import LARGE, Rig, ids, make_message


class BranchTests(TestCase):
    def prepare(self, rig: Rig, queue: int, *messages: Message) -> int:
        branch_id = rig.store.next_id()
        batch = rig.store.begin()
        batch.put_branch(BranchRecord(branch_id, Xid(1, b"", b"%d" % branch_id), BranchState.PREPARED, 1))
        for message in messages:
            batch.add_prepared(branch_id, message, [queue])
        rig.store.commit(batch)
        return branch_id

    def end(self, rig: Rig, branch_id: int, commit: bool) -> None:
        batch = rig.store.begin()
        batch.end_branch(branch_id, commit)
        rig.store.commit(batch)
        rig.settle()

    def test_what_is_prepared_outlives_its_segments(self) -> None:
        """It is written anew with all that makes it invisible, and so is the branch."""
        rig, queue = started(journal_compact_min_files=1, journal_compact_percentage=100)
        message = make_message(rig.store, bytes(500))
        branch_id = self.prepare(rig, queue, message)
        for _ in range(100):
            rig.acknowledge(queue, rig.add(queue, body=bytes(500)))
            rig.settle()
        self.assertNotIn("mqbroker-data-00000001.mqj", rig.files())
        (branch,) = rig.crash().branches
        self.assertEqual(
            (branch.record.branch_id, [message.message_id for message, _ in branch.messages]), (branch_id, [message.message_id])
        )

    def test_what_was_rolled_back_keeps_no_segment(self) -> None:
        rig, queue = started(journal_compact_min_files=0)
        branches = [self.prepare(rig, queue, make_message(rig.store, bytes(1500))) for _ in range(20)]
        rig.settle()
        self.assertGreater(len(rig.files()), 5)
        for branch_id in branches:
            self.end(rig, branch_id, commit=False)
        self.assertLessEqual(len(rig.files()), 2)
        self.assertEqual((ids(rig.restart()), rig.restart().branches), ([], []))

    def test_a_large_body_lives_as_long_as_its_branch(self) -> None:
        rig, queue = started()
        for commit in (True, False):
            body = rig.store.create_large_body(rig.store.next_id())
            body.append(b"x" * 5000)
            body.complete()
            message = Message.of(CoreMessage(message_id=rig.store.next_id(), address="a", durable=True), body)
            branch_id = self.prepare(rig, queue, message)
            rig.settle()
            rig.crash()
            self.assertIn(f"{body.body_id}.msg", rig.disk.list(LARGE))
            self.end(rig, branch_id, commit)
            rig.restart()
            self.assertEqual(f"{body.body_id}.msg" in rig.disk.list(LARGE), commit)

    def test_a_queue_that_goes_takes_the_messages_of_a_branch_along(self) -> None:
        rig, queue = started(journal_compact_min_files=0)
        other = rig.queue("other")
        branch_id = self.prepare(rig, queue, *(make_message(rig.store, bytes(1500)) for _ in range(10)))
        kept = make_message(rig.store)
        batch = rig.store.begin()
        batch.add_prepared(branch_id, kept, [queue, other])
        rig.store.commit(batch)
        rig.settle()
        batch = rig.store.begin()
        batch.delete_queue(queue)
        rig.store.commit(batch)
        rig.settle()
        (branch,) = rig.restart().branches
        self.assertEqual(
            [(message.message_id, [each.queue_id for each in places]) for message, places in branch.messages], [(kept.message_id, [other])]
        )
        self.end(rig, branch_id, commit=True)
        self.assertEqual(ids(rig.crash()), [kept.message_id])

    def test_ids_are_not_used_again(self) -> None:
        rig, queue = started()
        message = make_message(rig.store)
        branch_id = self.prepare(rig, queue, message)
        rig.settle()
        rig.crash()
        self.assertGreater(rig.store.next_id(), max(branch_id, message.message_id))


class DeletedQueueTests(TestCase):
    def test_messages_of_a_deleted_queue_are_let_go_at_once(self) -> None:
        """Nobody acknowledges them one by one, and still their segments go."""
        rig, queue = started(journal_compact_min_files=0)
        other = rig.queue("other")
        for _ in range(50):
            rig.add(queue, body=bytes(500))
        shared = rig.add(queue, other)
        rig.settle()
        self.assertGreater(len(rig.files()), 5)
        batch = rig.store.begin()
        batch.delete_queue(queue)
        rig.store.commit(batch)
        rig.settle()
        self.assertLessEqual(len(rig.files()), 3)
        self.assertEqual(ids(rig.restart()), [shared.message_id])

    def test_a_queue_deleted_during_the_sweep_is_swept_too(self) -> None:
        rig, queue = started(journal_compact_min_files=0)
        other = rig.queue("other")
        for _ in range(3000):
            rig.add(queue, body=b"")
            rig.add(other, body=b"")
        rig.settle()
        for queue_id in (queue, other):
            batch = rig.store.begin()
            batch.delete_queue(queue_id)
            rig.store.commit(batch)
            rig.clock.run_due()
        rig.settle()
        self.assertLessEqual(len(rig.files()), 2)

    def test_late_acknowledgements_of_it_do_no_harm(self) -> None:
        rig, queue = started()
        message = rig.add(queue)
        batch = rig.store.begin()
        batch.delete_queue(queue)
        batch.put_queue(QueueRecord(rig.store.next_id(), "new", "a", 1))
        rig.store.commit(batch)
        rig.settle()
        rig.acknowledge(queue, message)
        rig.settle()
        self.assertEqual(ids(rig.restart()), [])
