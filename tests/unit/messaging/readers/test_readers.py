"""Readers on a queue in memory: positions, epochs, ranges, settling, and what they keep away from others."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import INT, LONG, STRING
from tests.support.broker import World
from tests.unit.messaging.readers.support import Client


class ReaderCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.client = Client(self.world.session())

    def publish(self, *bodies: bytes, **headers: Any) -> None:
        for body in bodies:
            self.session.publish(body, **headers)
        self.session.take()


class RangeTests(ReaderCase):
    """What a range is: the same messages whenever it is read, and each message in one range only."""

    def test_messages_are_reserved_read_again_and_settled(self) -> None:
        self.publish(b"1", b"2", b"3")
        state = self.client.open()
        self.assertEqual((state.epoch, state.settled, state.messages, state.address), (1, 0, 3, "q"))
        found = self.client.reserve(state.settled)
        self.assertEqual((found.after, found.messages, len(found.ends)), (0, 3, 1))
        self.assertEqual(found.ends[-1], found.until)
        for _ in range(2):
            self.assertEqual(self.client.bodies(0, found.until), [b"1", b"2", b"3"])
        self.publish(b"4")
        self.assertEqual(self.client.bodies(0, found.until), [b"1", b"2", b"3"])
        self.client.settle(found.until)
        self.assertEqual(self.world.queue("q").message_count, 1)
        following = self.client.reserve(found.until)
        self.assertEqual(self.client.bodies(found.until, following.until), [b"4"])
        self.assertEqual(following.oldest, following.until)

    def test_who_takes_over_a_reader_that_is_just_being_made_finds_it_made(self) -> None:
        """Of two that open it one after the other, over a queue that takes several turns to look through."""
        for start in (-1, -2):
            self.setUp()
            self.publish(*(b"%d" % number for number in range(40)))
            opened: list[Any] = []
            with (
                mock.patch("mqbroker.messaging.turns.steps.SCANNED_MAX", 2),
                mock.patch("mqbroker.messaging.readers.readers.SETTLED_TOGETHER", 1),
            ):
                for _ in range(2):
                    self.world.messaging.readers.open(
                        self.world.queue("q"), "r", start, lambda *told, opened=opened: opened.append(told), self.fail
                    )
                for _ in range(200):
                    self.world.clock.advance(0)
            self.assertEqual([reader.epoch for reader, _, _ in opened], [1, 2])
            (first, *_), (second, *_) = opened
            self.assertEqual((second.settled, second.reserved), (first.settled, first.reserved))
            self.assertEqual(second.settled > 0, start == -2)

    def test_a_scan_for_expired_messages_that_has_begun_leaves_alone_what_a_reader_finds(self) -> None:
        self.publish(*(b"%d" % number for number in range(20)), expiration=self.world.clock.wall_ms() + 1000)
        self.world.clock.advance(2)
        with mock.patch("mqbroker.messaging.administration.reapers.REFERENCES_PER_STEP", 5):
            self.world.messaging.expiry_reaper.scan()
            left = self.world.queue("q").message_count
            self.client.open()
            for _ in range(20):
                self.world.clock.advance(0)
        self.assertEqual((left, self.world.queue("q").message_count), (15, 15))

    def test_a_filter_leaves_out_what_does_not_match(self) -> None:
        for number in range(10):
            self.publish(b"%d" % number, properties={"n": (INT, number)})
        self.client.open()
        found = self.client.reserve(0)
        self.assertEqual(self.client.bodies(0, found.until, filter="n > 6"), [b"7", b"8", b"9"])
        answer = self.client.call(wire.ReaderRead("q", 0, found.until, 10_000, "n < 0"))
        self.assertEqual((answer.count, answer.end, answer.position), (0, True, found.until))
        self.assertEqual(self.client.bodies(0, found.until, filter="n >= 2", max_bytes=1), [b"%d" % n for n in range(2, 10)])

    def test_priorities_do_not_change_the_order(self) -> None:
        self.publish(b"low", priority=1)
        self.publish(b"high", priority=9)
        self.client.open()
        found = self.client.reserve(0)
        self.assertEqual(self.client.bodies(0, found.until), [b"low", b"high"])

    def test_what_was_settled_is_lost_for_who_reads_it_again(self) -> None:
        self.publish(b"1", b"2")
        self.client.open()
        one = self.client.reserve(0, messages=1)
        self.client.settle(one.until)
        two = self.client.reserve(one.until)
        self.assertTrue(self.client.call(wire.ReaderRead("q", 0, two.until, 1000, None)).lost)
        self.assertFalse(self.client.call(wire.ReaderRead("q", one.until, two.until, 1000, None)).lost)


class StableTests(ReaderCase):
    """Nothing appears below what was handed out."""

    def test_a_range_waits_for_what_is_on_its_way_to_the_disk(self) -> None:
        self.client.open()
        self.world.store.held = True
        self.publish(b"durable")
        other = self.world.session()
        other.publish(b"soft", durable=False)
        self.client.session.send(self.client.reserving(0))
        self.assertEqual(self.client.session.take(), [])
        self.world.store.sync()
        self.world.store.held = False
        self.world.store.sync()
        found = self.client.answer()
        self.assertEqual(self.client.bodies(0, found.until), [b"durable", b"soft"])

    def test_the_answers_keep_the_order_of_the_requests(self) -> None:
        self.publish(b"1")
        self.client.open()
        self.world.store.held = True
        self.publish(b"2")
        self.client.session.send(self.client.reserving(0))
        self.client.session.send(wire.QueueQuery("q"))
        self.assertEqual(self.client.session.take(), [])
        for _ in range(3):
            self.world.store.sync()
            self.world.clock.advance(0)
        self.assertEqual([packet.NAME for packet in self.client.session.take()], ["READER_RANGE", "SESS_QUEUEQUERY_RESP_V3"])

    def test_a_transaction_lies_where_it_was_committed(self) -> None:
        self.client.open()
        transacted = self.world.session(auto_commit_sends=False)
        transacted.publish(b"early")
        self.publish(b"1")
        first = self.client.reserve(0)
        self.assertEqual(self.client.bodies(0, first.until), [b"1"])
        transacted.call(wire.Commit())
        self.assertEqual(self.client.bodies(0, first.until), [b"1"])
        second = self.client.reserve(first.until)
        self.assertEqual(self.client.bodies(first.until, second.until), [b"early"])

    def test_a_scheduled_message_gets_a_new_id_when_it_is_due(self) -> None:
        self.client.open()
        due = self.world.clock.wall_ms() + 1000
        self.publish(b"late", properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
        self.publish(b"1")
        first = self.client.reserve(0)
        self.assertEqual(self.client.bodies(0, first.until), [b"1"])
        self.world.clock.advance(2)
        self.assertEqual(self.client.bodies(0, first.until), [b"1"])
        second = self.client.reserve(first.until)
        (late,) = self.client.read(first.until, second.until)
        self.assertEqual(late.body, b"late")
        batch = next(
            entries for entries in self.world.store.log if ("message", late.message_id, (self.world.queue("q").queue_id,)) in entries
        )
        self.assertEqual([entry[0] for entry in batch], ["ack", "message"])
        queue = self.world.queue("q")
        self.assertEqual((queue.message_count, queue.messages_added, queue.durable_message_count), (2, 2, 2))

    def test_scheduled_messages_that_are_due_together_keep_their_order(self) -> None:
        self.client.open()
        due = self.world.clock.wall_ms() + 1000
        self.publish(*(b"%d" % number for number in range(3)), properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
        self.world.clock.advance(2)
        found = self.client.reserve(0)
        self.assertEqual(self.client.bodies(0, found.until), [b"0", b"1", b"2"])

    def test_a_large_message_lies_where_its_last_piece_came(self) -> None:
        self.client.open()
        self.session.begin_large()
        self.session.chunk(b"a" * 10)
        other = self.world.session()
        other.publish(b"1")
        first = self.client.reserve(0)
        self.session.chunk(b"b", 11)
        second = self.client.reserve(first.until)
        self.assertEqual([message.kind for message in self.client.read(first.until, second.until)], [1])


class EpochTests(ReaderCase):
    def test_whoever_opens_a_reader_fences_the_one_before(self) -> None:
        self.publish(b"1")
        self.client.open()
        found = self.client.reserve(0)
        other = Client(self.world.session())
        state = other.open()
        self.assertEqual((state.epoch, state.reserved), (2, found.until))
        for packet in (self.client.reserving(0), self.client.settling(found.until)):
            self.assertIn("reader r of queue q was opened by another one: epoch 2, yours is 1", self.client.refused(packet))
        self.assertEqual(self.client.bodies(0, found.until), [b"1"])
        other.settle(found.until)

    def test_one_that_is_fenced_while_it_waits_is_told(self) -> None:
        self.publish(b"1")
        self.client.open()
        self.world.store.held = True
        self.publish(b"2")
        self.client.session.send(self.client.reserving(0))
        other = self.world.session()
        other.send(wire.ReaderOpen("q", "r", -1))
        for _ in range(3):
            self.world.store.sync()
            self.world.clock.advance(0)
        (answer,) = self.client.session.take()
        self.assertIsInstance(answer, wire.ExceptionResponse)

    def test_the_epoch_is_stored_before_it_is_told(self) -> None:
        self.world.store.held = True
        self.client.session.send(wire.ReaderOpen("q", "r", -1))
        self.world.clock.advance(0)
        self.assertEqual(self.client.session.take(), [])
        for _ in range(2):
            self.world.store.sync()
            self.world.clock.advance(0)
        self.assertEqual(len(self.client.session.take()), 1)
        self.assertIn('"epoch": 1', self.world.store.entries("setting")[-1][3])

    def test_a_new_reader_may_begin_behind_everything_or_after_an_id(self) -> None:
        self.publish(b"1", b"2")
        newest = Client(self.world.session(), reader="newest")
        state = newest.open(wire.START_NEWEST)
        self.publish(b"3")
        found = newest.reserve(state.settled)
        self.assertEqual(newest.bodies(state.settled, found.until), [b"3"])
        first = self.client.open()
        ids = [message.message_id for message in self.client.read(0, first.newest)]
        after = Client(self.world.session(), reader="after")
        self.assertEqual(after.open(ids[0]).settled, ids[0])
        self.assertEqual(after.open(wire.START_NEWEST).settled, ids[0])

    def test_what_lies_before_the_beginning_goes_with_the_first_settlement(self) -> None:
        self.publish(b"1", b"2")
        begin = self.client.open(wire.START_NEWEST).settled
        self.client.settle(begin)
        self.assertEqual(self.world.queue("q").message_count, 2)
        self.publish(b"3")
        found = self.client.reserve(begin)
        self.client.settle(found.until)
        self.assertEqual(self.world.queue("q").message_count, 0)

    def test_numbers_at_their_limits_do_no_harm(self) -> None:
        self.publish(b"1", b"2")
        far = 2**63 - 1
        self.assertLess(self.client.open(far).settled, far)
        self.client.reader = "other"
        self.client.open(-(2**63))
        self.assertEqual(self.client.reserve(far).until, far)
        self.assertEqual(self.client.reserve(-far, far, 0, 0, -5).messages, 1)
        self.assertEqual(self.client.reserve(0, parts=2**31 - 1).messages, 2)
        answer = self.client.call(wire.ReaderRead("q", -far, far, -5, None))
        self.assertEqual((answer.count, answer.end), (1, False))
        for after, until in ((far, -far), (5, 5), (0, -1)):
            answer = self.client.call(wire.ReaderRead("q", after, until, 100, None))
            self.assertEqual((answer.count, answer.end), (0, True))
        self.assertIn("no large message", self.client.refused(wire.ReaderBody("q", far, -1, -1)))
        self.assertIn("nothing beyond", self.client.refused(self.client.settling(far)))
        self.client.settle(-far)
        self.assertEqual(self.world.queue("q").message_count, 2)

    def test_a_queue_that_is_deleted_while_a_reader_is_opened(self) -> None:
        self.world.store.held = True
        self.publish(b"1")
        self.client.session.send(wire.ReaderOpen("q", "r", -1))
        self.world.messaging.administration.delete_queue(self.world.queue("q"))
        self.world.store.held = False
        self.world.store.sync()
        self.world.clock.advance(0)
        (answer,) = self.client.session.take()
        self.assertIsInstance(answer, wire.ExceptionResponse)
        self.assertEqual(self.world.store.entries("setting"), [])

    def test_nothing_beyond_what_was_reserved_is_settled(self) -> None:
        self.publish(b"1", b"2")
        self.client.open()
        found = self.client.reserve(0, messages=1)
        self.assertIn("nothing beyond", self.client.refused(self.client.settling(found.until + 1)))
        self.client.settle(found.until)
        self.client.settle(found.until)
        self.assertEqual(self.world.queue("q").message_count, 1)


class OthersTests(ReaderCase):
    """A queue has either readers or consumers."""

    def test_a_queue_with_consumers_gets_no_reader(self) -> None:
        consumer = self.world.session()
        consumer.consume()
        self.assertIn("it has 1 consumers", self.client.refused(wire.ReaderOpen("q", "r", -1)))
        consumer.ok(wire.ConsumerClose(0))
        self.client.open()

    def test_a_queue_with_readers_gets_no_consumer_but_browsers(self) -> None:
        self.publish(b"1")
        self.client.open()
        other = self.world.session()
        self.assertEqual(other.error(wire.CreateConsumer(0, "q")), 104)
        other.consume(consumer=1, browse_only=True)
        self.assertEqual(other.bodies(), [b"1"])
        self.client.call(wire.ReaderRemove("q", "r"))
        consumer = self.world.session()
        consumer.consume()
        self.assertEqual(consumer.bodies(), [b"1"])

    def test_messages_do_not_expire(self) -> None:
        self.publish(b"1", expiration=self.world.clock.wall_ms() + 10)
        self.client.open()
        found = self.client.reserve(0)
        self.world.clock.advance(40)
        self.assertEqual(self.client.bodies(0, found.until), [b"1"])
        self.client.call(wire.ReaderRemove("q", "r"))
        self.world.clock.advance(40)
        self.assertEqual(self.world.queue("q").message_count, 0)

    def test_several_readers_settle_before_a_message_goes(self) -> None:
        self.publish(b"1", b"2", b"3")
        second = Client(self.world.session(), reader="second")
        self.client.open()
        second.open()
        found = self.client.reserve(0)
        self.client.settle(found.until)
        self.assertEqual(self.world.queue("q").message_count, 3)
        one = second.reserve(0, messages=1)
        self.assertEqual(second.bodies(0, one.until), [b"1"])
        second.settle(one.until)
        self.assertEqual(self.world.queue("q").message_count, 2)
        second.call(wire.ReaderRemove("q", "second"))
        self.assertEqual(self.world.queue("q").message_count, 0)

    def test_a_client_cannot_delete_the_queue_and_management_can(self) -> None:
        self.publish(b"1")
        self.client.open()
        self.assertIn("has readers", self.client.refused(wire.DeleteQueue("q")))
        self.world.messaging.administration.delete_queue(self.world.queue("q"))
        self.assertEqual(self.world.store.entries("delete setting")[-1][1], "reader")
        self.assertIn("does not exist", self.client.refused(self.client.reserving(0)))
        self.session.create_queue("q")
        self.assertIn("has no reader r", self.client.refused(self.client.reserving(0)))

    def test_what_is_lost_to_a_survey_was_there_when_it_was_made(self) -> None:
        self.publish(b"1")
        self.publish(b"2", properties={"taken": (STRING, "yes")})
        self.publish(b"3")
        survey = Client(self.world.session(), reader=None)
        before = survey.reserve(0)
        consumer = self.world.session()
        consumer.consume(filter="taken = 'yes'")
        self.assertEqual(consumer.bodies(), [b"2"])
        self.assertTrue(survey.call(wire.ReaderRead("q", 0, before.until, 1000, None)).lost)
        after = survey.reserve(0)
        answer = survey.call(wire.ReaderRead("q", 0, after.until, 1000, None))
        self.assertEqual((answer.lost, answer.count), (False, 2))
