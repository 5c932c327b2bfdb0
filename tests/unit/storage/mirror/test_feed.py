"""The active side: what a replica is sent, how far it is behind, and what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest import TestCase, mock

from mqbroker.storage.mirror import copying, feed
from mqbroker.storage.mirror.changes import Buffer, ChangeDecoder, Write
from mqbroker.storage.mirror.feed import Progress, ReplicaFeed
from mqbroker.storage.tickets import Condition
from tests.unit.storage.mirror.pair import Pair


class FeedTests(TestCase):
    def setUp(self) -> None:
        self.pair = Pair(1)
        self.store = self.pair.store
        self.sent = bytearray()
        self.events: list[str] = []
        self.full: list[bool] = []
        self.store.overfull.subscribe(self.full.append)
        self.calls: list[Callable[[], object]] = []
        self.make_feed(True)

    def make_feed(self, datasync: bool) -> None:
        self.feed = ReplicaFeed(
            self.pair.mirrored,
            self.pair.active.writer,
            self.store,
            datasync,
            lambda function: function(),
            self.send,
            lambda: self.events.append("copied"),
            self.events.append,
        )

    def send(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            self.sent += buffer

    def settle(self) -> None:
        self.pair.settle()

    def commit(self) -> int:
        batch = self.store.begin()
        batch.add_message(self.pair.small(), [self.pair.queues[0]])
        ticket = self.store.commit(batch)
        self.store.when_synced(ticket, self.events.append, str(ticket))
        return ticket

    @property
    def told(self) -> int:
        """The number of changes that were sent."""
        decoder = ChangeDecoder()
        list(decoder.feed(bytes(self.sent)))
        return decoder.number

    def copied(self) -> Condition:
        """A replica that is in sync."""
        self.pair.new_queue()
        self.settle()
        self.feed.start()
        self.settle()
        self.feed.answered(self.told)
        condition = self.feed.demand()
        self.assertEqual(self.events, ["copied"])
        self.events.clear()
        return condition

    def test_it_is_copied_when_the_end_is_answered(self) -> None:
        self.feed.start()
        self.settle()
        self.assertEqual(self.feed.behind, len(self.sent))
        self.feed.answered(self.told - 1)
        self.assertEqual((self.events, self.feed.behind > 0), ([], True))
        self.feed.answered(self.told)
        self.feed.answered(self.told)
        self.assertEqual((self.events, self.feed.behind), (["copied"], 0))
        done, size = self.feed.progress
        self.assertEqual(done, size)
        self.assertGreater(done, 2000)

    def test_before_anything_is_demanded_nobody_waits(self) -> None:
        self.pair.new_queue()
        self.feed.start()
        ticket = self.commit()
        self.settle()
        self.assertEqual(self.events, [str(ticket)])

    def test_work_waits_for_the_answer_to_its_last_sync(self) -> None:
        self.copied()
        first = self.commit()
        self.settle()
        number = self.told
        self.assertEqual((self.events, self.store.own.reached), ([], first))
        second = self.commit()
        self.settle()
        self.feed.answered(number - 1)
        self.assertEqual(self.events, [])
        self.feed.answered(number)
        self.assertEqual(self.events, [str(first)])
        self.feed.answered(self.told)
        self.assertEqual(self.events, [str(first), str(second)])

    def test_the_replica_may_be_faster(self) -> None:
        self.copied()
        ticket = self.commit()
        while self.store.own.reached < ticket:
            self.pair.move()
            self.feed.answered(self.told)
        self.settle()
        self.assertEqual(self.events, [str(ticket)])

    def test_a_small_write_is_sent_before_the_own_disk_does_anything(self) -> None:
        self.copied()
        before, told = self.store.own.reached, self.told
        ticket = self.commit()
        self.pair.clock.run_due()
        self.assertEqual((self.told, self.pair.active.writer.waiting, self.store.own.reached), (told + 2, 1, before))
        self.feed.answered(self.told)
        self.assertEqual(self.events, [])
        self.settle()
        self.assertEqual((self.events, self.told), ([str(ticket)], told + 2))

    def test_one_that_cannot_be_sent_to_costs_no_write(self) -> None:
        self.copied()
        with mock.patch.object(self.feed, "_send", side_effect=RuntimeError("defect")), mock.patch.object(feed.log, "failure") as told:
            self.commit()
            self.settle()
        self.assertTrue(told.called)
        self.assertEqual([each for each in self.events if "defect" in each], ["it cannot be sent what was written: defect"])
        self.assertEqual(self.store.own.reached, self.store.ticket())

    def test_a_write_is_not_sent_before_what_the_disk_writer_has_yet_to_do(self) -> None:
        self.copied()
        self.pair.active.writer.submit([lambda: self.pair.mirrored.open("/data/journal/a").close()], lambda error: None)
        told = self.told
        self.commit()
        self.pair.clock.run_due()
        self.assertEqual(self.told, told)
        self.settle()
        self.assertEqual(self.told, told + 4)

    def test_work_under_way_waits_too_and_what_was_told_before_is_sent(self) -> None:
        self.pair.new_queue()
        self.settle()
        self.feed.start()
        self.settle()
        self.feed.answered(self.told)
        first = self.commit()
        self.settle()
        second = self.commit()
        sent = len(self.sent)
        self.pair.mirrored.open("/data/journal/a").write(0, b"without a sync")
        self.feed.demand()
        self.assertGreater(len(self.sent), sent)
        self.settle()
        self.assertEqual(self.events, ["copied", str(first)])
        self.feed.answered(self.told)
        self.assertEqual(self.events[2:], [str(second)])

    def test_work_that_is_not_synced_waits_for_all_that_was_told(self) -> None:
        self.make_feed(False)
        self.copied()
        ticket = self.commit()
        with mock.patch.object(self.pair.store._journal, "_datasync", False):
            self.settle()
        self.feed.answered(self.told - 1)
        self.assertEqual(self.events, [])
        self.feed.answered(self.told)
        self.assertEqual(self.events, [str(ticket)])

    def test_what_waits_for_a_replica_that_is_lost_waits_until_the_condition_is_withdrawn(self) -> None:
        condition = self.copied()
        first = self.commit()
        self.settle()
        sent = len(self.sent)
        self.feed.stop()
        self.feed.stop()
        self.feed.answered(self.told)
        second = self.commit()
        self.settle()
        self.assertEqual((self.events, self.feed.behind, len(self.sent)), ([], 0, sent))
        condition.withdraw()
        self.assertEqual(self.events, [str(first), str(second)])
        third = self.commit()
        self.settle()
        self.assertEqual(self.events[2:], [str(third)])

    def test_another_replica_may_follow(self) -> None:
        condition = self.copied()
        self.feed.stop()
        condition.withdraw()
        self.sent.clear()
        self.make_feed(True)
        self.feed.start()
        self.settle()
        self.feed.answered(self.told)
        self.assertEqual(self.events, ["copied"])

    def test_paged_messages_can_be_read_when_the_replica_has_them(self) -> None:
        self.copied()
        self.pair.page()
        self.settle()
        pager = self.store.pager
        assert pager is not None
        (folder,) = pager.folders()
        queue_id = self.pair.queues[0]
        self.assertEqual((folder.remaining(queue_id), pager.backlog > 0), (0, True))
        self.feed.answered(self.told)
        self.assertEqual((folder.remaining(queue_id) > 0, pager.backlog), (True, 0))

    def test_a_replica_that_is_behind_is_copied_no_further(self) -> None:
        for _ in range(10):
            self.pair.do_something()
        self.settle()
        with mock.patch.object(feed, "COPY_BEHIND_MAX", 2000), mock.patch.object(copying, "PIECE", 1000):
            self.feed.start()
            self.settle()
            self.assertLess(self.feed.behind, 6000)
            sizes = []
            while "copied" not in self.events:
                sizes.append(len(self.sent))
                self.feed.answered(self.told)
                self.settle()
            self.assertGreater(len(sizes), 3)

    def test_producers_wait_while_it_is_far_behind(self) -> None:
        self.copied()
        with mock.patch.object(feed, "BEHIND_MAX", 5000):
            while not self.full:
                self.commit()
                self.settle()
            middle = self.told
            for _ in range(3):
                self.commit()
                self.settle()
            self.assertEqual(self.full, [True])
            self.feed.answered(middle - 20)
            self.assertEqual(self.full, [True])
            self.feed.answered(self.told)
            self.assertEqual(self.full, [True, False])

    def test_producers_do_not_wait_for_a_replica_that_is_gone(self) -> None:
        self.copied()
        with mock.patch.object(feed, "BEHIND_MAX", 500):
            while not self.full:
                self.commit()
                self.settle()
        self.feed.stop()
        self.assertEqual(self.full, [True, False])

    def test_one_that_does_not_keep_up_is_given_up(self) -> None:
        self.copied()
        with mock.patch.object(feed, "LOST_BEHIND_MAX", 5000):
            while not self.events:
                self.commit()
                self.settle()
        self.assertIn("bytes behind, and at most 5000 are allowed", self.events[0])
        self.assertEqual(self.pair.failures, [])

    def test_a_file_that_cannot_be_read_ends_it(self) -> None:
        self.pair.active.disk.fail("read", OSError(5, "i/o error"))
        self.feed.start()
        self.settle()
        self.assertIn("the files cannot be copied", self.events[0])
        self.pair.new_queue()
        self.settle()
        self.assertEqual((self.store.synced, self.pair.failures), (self.store.ticket(), []))

    def test_a_second_one_for_the_same_files_is_refused(self) -> None:
        self.copied()
        self.make_feed(True)
        self.feed.start()
        self.settle()
        self.assertIn("told to another one", self.events[0])

    def test_an_answer_to_what_was_not_sent_is_an_error(self) -> None:
        self.feed.start()
        self.settle()
        for number in (self.told + 1, -1):
            self.assertRaises(ValueError, self.feed.answered, number)
        self.feed.answered(5)
        self.assertRaises(ValueError, self.feed.answered, 4)

    def test_one_that_is_stopped_before_it_has_begun_tells_nothing(self) -> None:
        self.feed.start()
        self.feed.stop()
        self.settle()
        self.assertEqual((self.sent, self.pair.mirrored.sink), (b"", None))
        self.assertEqual(self.feed.progress, Progress(0, 0))

    def test_what_is_sent_is_what_was_written(self) -> None:
        self.copied()
        self.sent[:] = b"\x01\x01"
        before = self.store._journal.messages.current.end
        self.commit()
        self.settle()
        path = self.store._journal.messages.current.path
        with mock.patch.object(ChangeDecoder, "_check_handle"):
            writes = [change for change in ChangeDecoder().feed(bytes(self.sent)) if isinstance(change, Write)]
        self.assertEqual(bytes(writes[0].data), self.pair.active.disk.read(path, before, len(writes[0].data)))
