"""What a broker finds in the database."""

from __future__ import annotations

from unittest import TestCase, mock

from mqbroker.messaging.ports import BranchRecord, BranchState
from mqbroker.storage.sql import adoption
from mqclient.wire.primitives import Xid
from tests.unit.storage.sql.paged import PagedTestCase, body_of
from tests.unit.storage.support import make_message

XID = Xid(1, b"branch", b"global")


class AdoptionTests(PagedTestCase, TestCase):
    def test_messages_are_counted_and_not_read(self) -> None:
        store = self.rig.store
        batch = store.begin()
        messages = [make_message(store, str(number).encode()) for number in range(3)]
        batch.add_messages(messages, [self.queue_id])
        store.commit(batch)
        recovered = self.rig.restart()
        self.begin()
        self.assertEqual((recovered.messages, self.folder.remaining(self.queue_id)), ([], 3))
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], [b"0", b"1", b"2"])

    def test_messages_with_a_time_come_into_memory(self) -> None:
        store = self.rig.store
        message = make_message(store)
        batch = store.begin()
        batch.add_message(message, [self.queue_id])
        batch.schedule(self.queue_id, message, 10**15)
        store.commit(batch)
        recovered = self.rig.restart()
        self.begin()
        [(found, [reference])] = recovered.messages
        self.assertEqual((found.message_id, reference.queue_id, reference.scheduled), (message.message_id, self.queue_id, 10**15))
        self.assertEqual((self.folder.remaining(self.queue_id), self.reader.read()), (0, None))

    def test_a_branch_that_is_committed_later_is_not_read_from_the_pages_as_well(self) -> None:
        store = self.rig.store
        message, branch_id = make_message(store), store.next_id()
        batch = store.begin()
        batch.put_branch(BranchRecord(branch_id, XID, BranchState.PREPARED, 5))
        batch.add_prepared(branch_id, message, [self.queue_id])
        store.commit(batch)
        recovered = self.rig.restart()
        self.begin()
        [branch] = recovered.branches
        self.assertEqual((branch.record.xid, [found.message_id for found, _ in branch.messages]), (XID, [message.message_id]))
        self.page(1)
        batch = self.rig.store.begin()
        batch.end_branch(branch_id, True)
        self.rig.store.commit(batch)
        self.rig.settle()
        self.assertEqual([body_of(entry.message) for entry in self.reader.read() or ()], self.bodies)
        self.restart()
        self.assertEqual(self.folder.remaining(self.queue_id), 2)

    def test_a_branch_that_is_rolled_back_leaves_nothing(self) -> None:
        store = self.rig.store
        branch_id = store.next_id()
        batch = store.begin()
        batch.put_branch(BranchRecord(branch_id, XID, BranchState.PREPARED, 5))
        batch.add_prepared(branch_id, make_message(store), [self.queue_id])
        store.commit(batch)
        batch = store.begin()
        batch.end_branch(branch_id, False)
        store.commit(batch)
        self.rig.settle()
        self.assertEqual((self.rig.ask("SELECT COUNT(*) FROM mqbroker_message"), self.rig.restart().branches), ([(0,)], []))

    def test_messages_of_several_folders_and_of_many_queues_are_counted(self) -> None:
        store, pager = self.rig.store, self.rig.store.pager
        assert pager is not None
        other = self.rig.queue("r", "b")
        batch = store.begin()
        for name, queue_id in (("a", self.queue_id), ("b", self.queue_id), ("b", other), ("b", other)):
            batch.add_paged(pager.folder(name), make_message(store), (queue_id,), (queue_id,), 1000)
        store.commit(batch)
        for number in (0, 1, 100):
            with mock.patch.object(adoption, "ONE_BY_ONE", number):
                self.rig.restart()
            pager = self.rig.store.pager
            assert pager is not None
            counted = [(pager.folder(name).remaining(self.queue_id), pager.folder(name).remaining(other)) for name in ("a", "b")]
            self.assertEqual(counted, [(1, 0), (1, 2)])

    def test_duplicate_ids_in_order(self) -> None:
        store = self.rig.store
        batch = store.begin()
        batch.add_duplicate_ids("c", 2, b"aabb", 100)
        batch.add_duplicate_id("c", b"dd", 101)
        store.commit(batch)
        found = self.rig.restart().duplicate_ids
        self.assertEqual([(entry.duplicate_id, entry.record_id) for entry in found], [(b"aa", 100), (b"bb", 100), (b"dd", 101)])
