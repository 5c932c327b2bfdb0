"""Who has, and who has consumed, which messages after a split."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.merge import comparison
from mqbroker.cli.data.merge.common import CommonPart
from mqbroker.cli.data.merge.comparison import compare
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, BranchState, QueueRecord
from mqbroker.storage.settings import JOURNAL_FILE_SIZE_MIN
from mqclient.wire.message import KEY_ORIGINAL_MESSAGE_ID
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import LONG
from tests.unit.cli.data.merge.support import Pair, add, ids
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker
from tests.unit.storage.support import Rig, make_message


def prepare(rig: Rig, branch_id: int, messages: list[Message], queue_id: int, acknowledged: tuple[tuple[int, int], ...] = ()) -> None:
    batch = rig.store.begin()
    for message in messages:
        batch.add_prepared(branch_id, message, [queue_id])
    batch.put_branch(BranchRecord(branch_id, Xid(1, b"branch", b"global"), BranchState.PREPARED, 1, acknowledged))
    rig.store.commit(batch)


class ComparisonTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = Pair(journal_compact_min_files=0)
        self.q, self.r = self.pair.start("q", "r")
        self.kept, self.running = self.pair.kept, self.pair.running

    def acknowledge_in_running(self, queue_id: int, *messages: Message) -> None:
        self.running.acknowledge(queue_id, *(self.running.recovered[each.message_id] for each in messages))

    def test_messages_that_only_the_kept_journal_got_are_missing(self) -> None:
        self.kept.add(self.q)
        self.pair.split()
        mine = self.kept.add(self.q, self.r)
        self.running.add(self.q)
        found = self.pair.compare()
        self.assertEqual(ids(found), ([mine.message_id], [], []))
        self.assertEqual([queue.name for queue in found.missing[0].queues], ["q", "r"])
        self.assertEqual(found.missing[0].content().body, b"body")
        self.assertEqual(found.shared, 1)

    def test_the_same_id_means_different_messages_after_the_cut(self) -> None:
        """Both sides have given it, and so a message of the kept journal is missing although the running broker knows its id."""
        self.pair.split()
        other = self.running.add(self.q, body=b"other")
        while self.kept.store.next_id() < other.message_id - 1:
            pass
        mine = self.kept.add(self.q, body=b"mine")
        self.assertEqual(mine.message_id, other.message_id)
        found = self.pair.compare()
        self.assertIn(mine.message_id, ids(found)[0])
        self.assertEqual(found.shared, 0)

    def test_what_was_consumed_is_counted_by_queue(self) -> None:
        both, only_kept, only_running, left = (self.kept.add(self.q, self.r) for _ in range(4))
        self.pair.split()
        self.kept.acknowledge(self.q, both, only_kept)
        self.acknowledge_in_running(self.q, both, only_running)
        self.kept.acknowledge(self.r, both, only_kept)
        self.acknowledge_in_running(self.r, both)
        gone = self.kept.add(self.q)
        self.kept.acknowledge(self.q, gone)
        found = self.pair.compare()
        self.assertEqual(ids(found), ([], [], []))
        self.assertEqual(found.both, {"q": [both.message_id], "r": [both.message_id]})
        self.assertEqual((found.only_kept, found.only_running), ({"q": 1, "r": 1}, {"q": 1}))
        self.assertEqual(found.shared, 2)
        self.assertIn(left.message_id, self.running.recovered)

    def test_a_prepared_branch_is_listed_and_not_sent(self) -> None:
        early, late = self.kept.store.next_id(), 0
        old = self.kept.add(self.q)
        prepare(self.kept, early, [self.make()], self.q)
        self.pair.split()
        late = self.kept.store.next_id()
        message, new = self.make(), self.kept.add(self.q)
        prepare(self.kept, late, [message], self.q, ((self.q, new.message_id), (self.q, old.message_id)))
        found = self.pair.compare()
        self.assertEqual(ids(found), ([], [new.message_id], [message.message_id]))
        self.assertEqual((found.undecided[0].reason, found.unsendable[0].reason), (comparison.ACKNOWLEDGED, comparison.PREPARED))

    def test_a_branch_from_before_that_was_committed_is_undecided(self) -> None:
        branch, message = self.kept.store.next_id(), self.make()
        prepare(self.kept, branch, [message], self.q)
        self.pair.split()
        self.end(self.kept, branch)
        found = self.pair.compare()
        self.assertEqual(ids(found), ([], [message.message_id], []))
        self.assertEqual(found.undecided[0].reason, comparison.COMMITTED_HERE)
        self.end(self.running, branch)
        found = self.pair.compare()
        self.assertEqual((ids(found), found.shared), (([], [], []), 1))

    def test_a_copy_of_a_message_that_both_had_is_undecided(self) -> None:
        """A dead letter: the running broker has delivered the message itself."""
        old = self.kept.add(self.q)
        self.pair.split()
        new = add(self.kept, [self.q])
        letters = [add(self.kept, [self.r], **{KEY_ORIGINAL_MESSAGE_ID: (LONG, each.message_id)}) for each in (old, new)]
        found = self.pair.compare()
        self.assertEqual(ids(found), ([new.message_id, letters[1].message_id], [letters[0].message_id], []))
        self.assertEqual(found.undecided[0].reason, comparison.MOVED.format(original=old.message_id))

    def test_queues_that_need_care(self) -> None:
        batch = self.kept.store.begin()
        internal, last = self.kept.store.next_id(), self.kept.store.next_id()
        batch.put_queue(QueueRecord(internal, "$.artemis.internal.sf.c.n", "$.artemis.internal.sf.c.n", 0))
        batch.put_queue(QueueRecord(last, "last", "a", 1, None, {"last_value": True}))
        self.kept.store.commit(batch)
        self.kept.add(self.q)
        self.pair.split()
        forwarded, kept_last = self.kept.add(self.q, internal), self.kept.add(self.q, last)
        found = self.pair.compare()
        self.assertEqual(ids(found), ([forwarded.message_id], [kept_last.message_id], [forwarded.message_id]))
        self.assertEqual([queue.name for queue in found.missing[0].queues], ["q"])
        self.assertEqual((found.undecided[0].reason, found.unsendable[0].reason), (comparison.LAST_VALUE, comparison.INTERNAL))

    def test_without_a_common_part_only_high_ids_are_sure(self) -> None:
        old = self.kept.add(self.q)
        shared = self.kept.add(self.q)
        self.pair.split()
        self.acknowledge_in_running(self.q, old)
        split = self.pair.read()
        common = CommonPart(whole=False, ids_from=shared.message_id + 1)
        new = self.kept.add(self.q)
        split = self.pair.read()
        found = compare(split.kept, split.running, common)
        self.assertEqual(ids(found), ([new.message_id], [old.message_id], []))
        self.assertEqual((found.undecided[0].reason, found.shared), (comparison.CONSUMED_OR_NEW, 1))
        split.running.messages[old.message_id] = split.kept.messages[new.message_id]
        found = compare(split.kept, split.running, CommonPart(whole=False))
        self.assertEqual([each.reason for each in found.undecided], [comparison.OTHER_CONTENT, comparison.CONSUMED_OR_NEW])

    def make(self) -> Message:
        return make_message(self.kept.store)

    def end(self, rig: Rig, branch_id: int) -> None:
        batch = rig.store.begin()
        batch.end_branch(branch_id, True)
        rig.store.commit(batch)


class PagedTests(SynchronousTestCase):
    def test_messages_in_pages(self) -> None:
        pair = Pair(journal_file_size=JOURNAL_FILE_SIZE_MIN, journal_compact_min_files=0)
        kept = PagingBroker({"#": ALWAYS}, rig=pair.kept)
        kept.make_queue("q", "a", 1)
        for number in range(20):
            kept.send(b"x" * 4000 if number == 7 else b"%04d" % number * 100, "a", routing_type=1, durable=True)
        kept.settle()
        pair.copy()
        running = PagingBroker({"#": ALWAYS}, rig=pair.running)
        for broker, count in ((kept, 3), (running, 6)):
            taker = Taker(broker, broker.core.queues["q"], room=count)
            self.assertEqual(len(taker.acknowledge()), count)
            broker.settle()
        for number in range(5):
            kept.send(b"new %d" % number * 30, "a", routing_type=1, durable=True)
        kept.settle()
        found = pair.compare()
        self.assertEqual([each.content().body[:5] for each in found.missing], [b"new %d" % number for number in range(5)])
        self.assertEqual((found.undecided, found.unsendable, found.shared), ([], [], 14))
        self.assertEqual((found.only_kept, found.only_running), ({}, {"q": 3}))
        self.assertEqual(len(found.both["q"]), 3)
