"""What the control of a queue does to its messages."""

from __future__ import annotations

import json

from mqbroker.messaging.turns.turn import SCANNED_MAX
from mqclient.wire.bodies import encode_text
from mqclient.wire.message import (
    KEY_ORIGINAL_ADDRESS,
    KEY_ORIGINAL_QUEUE,
    KEY_SCHEDULED_DELIVERY,
)
from mqclient.wire.properties import INT, LONG, STRING, TypedValue
from tests.unit.server.management.test_service import ManagementCase


class QueueControlCase(ManagementCase):
    def left(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.world.queue("q").references]


class QueueControlTests(QueueControlCase):
    def test_remove(self) -> None:
        ids = self.fill()
        self.assertTrue(self.call("queue.q", "removeMessage", ids[0]))
        self.assertFalse(self.call("queue.q", "removeMessage", ids[0]))
        self.assertEqual(self.call("queue.q", "removeMessages", "n = 2"), 1)
        self.assertEqual(self.left(), [b"1"])
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 1)
        self.assertEqual(len(self.world.store.entries("ack")), 3)

    def test_move_and_retry(self) -> None:
        ids = self.fill()
        self.session.create_queue("other")
        self.assertTrue(self.call("queue.q", "moveMessage", ids[1], "other"))
        self.assertIn("AMQ229017", self.fails("queue.q", "moveMessage", ids[0], "missing"))
        self.assertIn("onto itself", self.fails("queue.q", "moveMessages", "", "q"))
        (moved,) = self.world.queue("other").references
        self.assertEqual((moved.message.decoded().body, moved.message.property(KEY_ORIGINAL_QUEUE)), (b"1", "q"))
        self.assertEqual(self.call("queue.other", "retryMessages"), 1)
        self.assertEqual((self.left(), self.world.queue("other").message_count), ([b"0", b"2", b"1"], 0))

    def test_retry_gives_a_message_only_to_the_queue_of_a_wildcard_address_that_it_comes_from(self) -> None:
        for name, address in (("all", "news.#"), ("own", "news.a")):
            self.session.create_queue(name, address, routing_type=0)
        self.session.publish(b"x", "news.a", routing_type=0)
        self.assertEqual(self.call("queue.all", "moveMessages", "", "q"), 1)
        self.assertEqual(self.call("queue.q", "retryMessages"), 1)
        self.assertEqual([self.world.queue(name).message_count for name in ("all", "own", "q")], [1, 1, 0])

    def test_retry_finds_the_queue_of_a_message_that_was_sent_to_a_fully_qualified_name(self) -> None:
        for name in ("one", "two"):
            self.session.create_queue(name, "orders", routing_type=0)
        self.session.publish(b"x", "orders::one", routing_type=0)
        self.assertEqual(self.call("queue.one", "moveMessages", "", "q"), 1)
        self.assertEqual(self.call("queue.q", "retryMessages"), 1)
        self.assertEqual([self.world.queue(name).message_count for name in ("one", "two", "q")], [1, 0, 0])

    def test_retry_finds_the_queue_of_a_dead_letter_from_artemis_that_states_a_fully_qualified_name(self) -> None:
        self.session.create_queue("one", "orders", routing_type=0)
        origin: dict[str, TypedValue] = {KEY_ORIGINAL_ADDRESS: (STRING, "orders::one"), KEY_ORIGINAL_QUEUE: (STRING, "one")}
        self.session.publish(b"x", properties=origin)
        self.assertEqual(self.call("queue.q", "retryMessages"), 1)
        self.assertEqual(self.world.queue("one").message_count, 1)

    def test_priority(self) -> None:
        ids = self.fill()
        self.assertTrue(self.call("queue.q", "changeMessagePriority", ids[2], 9))
        self.assertEqual(self.left(), [b"2", b"0", b"1"])
        self.assertIn("invalid priority", self.fails("queue.q", "changeMessagePriority", ids[0], 10))

    def test_the_priority_of_a_shared_message_changes_the_order_of_one_queue_only(self) -> None:
        for name in ("one", "two"):
            self.session.create_queue(name, "news", routing_type=0)
        for number in range(3):
            self.session.publish(b"%d" % number, "news", routing_type=0)
        last = [reference.message.message_id for reference in self.world.queue("one").references][-1]
        self.call("queue.one", "changeMessagePriority", last, 9)
        for name, order in (("one", [b"2", b"0", b"1"]), ("two", [b"0", b"1", b"2"])):
            session = self.open()
            session.consume(name)
            self.assertEqual(session.bodies(), order)

    def test_scheduled(self) -> None:
        self.session.publish(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 60_000)})
        self.session.publish(b"now")
        queue = self.world.queue("q")
        (waiting,) = queue.scheduled
        self.assertEqual(self.attribute("queue.q", "ScheduledCount"), 1)
        self.assertEqual(json.loads(self.call("queue.q", "peekFirstScheduledMessageAsJSON"))["messageID"], waiting.message.message_id)
        self.call("queue.q", "changeMessagePriority", waiting.message.message_id, 7)
        self.assertEqual(self.left(), [b"now"])
        self.call("queue.q", "deliverScheduledMessage", waiting.message.message_id)
        self.assertEqual((self.left(), queue.scheduled.count), ([b"later", b"now"], 0))
        self.assertEqual(self.call("queue.q", "peekFirstScheduledMessageAsJSON"), "null")

    def test_a_scheduled_message_that_cannot_be_moved_waits_on(self) -> None:
        self.session.create_queue("picky", filter_string="n = 9")
        self.session.publish(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 60_000)})
        queue = self.world.queue("q")
        (waiting,) = queue.scheduled
        target = {"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "moveMessage"}
        self.request(target, encode_text(json.dumps([waiting.message.message_id, "picky"])))
        self.reply()
        self.assertEqual((self.left(), queue.scheduled.count, self.world.queue("picky").message_count), ([], 1, 0))

    def test_scheduled_messages_that_a_filter_matches(self) -> None:
        for number in range(3):
            properties = {KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 60_000), "n": (INT, number)}
            self.session.publish(b"%d" % number, properties=properties)
        self.call("queue.q", "deliverScheduledMessages", "n = 1")
        self.assertEqual((self.left(), self.world.queue("q").scheduled.count), ([b"1"], 2))
        self.call("queue.q", "deliverScheduledMessages", None)
        self.assertEqual(self.left(), [b"1", b"0", b"2"])
        self.assertEqual(self.world.store.entries("schedule")[-1][-1], 0)

    def test_pause(self) -> None:
        self.session.consume("q")
        self.call("queue.q", "pause")
        self.fill()
        self.assertEqual(self.session.bodies(), [])
        self.assertTrue(self.call("queue.q", "isPaused"))
        self.assertFalse(self.call("queue.q", "isPersistedPause"))
        self.call("queue.q", "pause", True)
        self.assertTrue(self.call("queue.q", "isPersistedPause"))
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": "resume"}, b"", reply_to=None)
        self.assertEqual(self.session.bodies(), [b"0", b"1", b"2"])

    def test_copies_stay_in_the_first_queue_too(self) -> None:
        ids = self.fill()
        self.session.create_queue("other")
        self.assertTrue(self.call("queue.q", "copyMessage", ids[1], "other"))
        self.assertFalse(self.call("queue.q", "copyMessage", 12345, "other"))
        self.assertIn("AMQ229017", self.fails("queue.q", "copyMessage", ids[1], "missing"))
        (copy,) = self.world.queue("other").references
        self.assertEqual((copy.message.decoded().body, copy.message.property(KEY_ORIGINAL_QUEUE)), (b"1", "q"))
        self.assertEqual(self.left(), [b"0", b"1", b"2"])

    def test_a_copy_arrives_whether_its_duplicate_id_is_known_or_not(self) -> None:
        """The second copy was dropped, and answered with true."""
        self.session.create_queue("other")
        self.session.publish(b"x", properties={"_AMQ_DUPL_ID": (STRING, "once")})
        (reference,) = self.world.queue("q").references
        for _ in range(2):
            self.assertTrue(self.call("queue.q", "copyMessage", reference.message.message_id, "other"))
        self.assertEqual(self.world.queue("other").message_count, 2)

    def test_a_copy_that_its_queue_does_not_take_is_told(self) -> None:
        ids = self.fill()
        self.session.create_queue("picky", filter_string="n = 1")
        self.assertFalse(self.call("queue.q", "copyMessage", ids[0], "picky"))
        self.assertTrue(self.call("queue.q", "copyMessage", ids[1], "picky"))
        self.assertEqual(self.world.queue("picky").message_count, 1)

    def test_a_move_rejects_duplicates_if_asked_to(self) -> None:
        """``rejectDuplicates`` had no effect."""
        self.session.create_queue("other")
        for address, number in (("other", "1"), ("q", "1"), ("q", "2")):
            self.session.publish(number.encode(), address, properties={"_AMQ_DUPL_ID": (STRING, number)})
        self.assertEqual(self.call("queue.q", "moveMessages", None, "other", True), 1)
        self.assertEqual((self.left(), self.world.queue("other").message_count), ([], 2))
        self.session.publish(b"2", "q", properties={"_AMQ_DUPL_ID": (STRING, "3")})
        self.session.publish(b"2", "other", properties={"_AMQ_DUPL_ID": (STRING, "3")})
        (reference,) = self.world.queue("q").references
        self.assertFalse(self.call("queue.q", "moveMessage", reference.message.message_id, "other", "true"))
        self.assertEqual((self.left(), self.world.queue("other").message_count), ([], 3))

    def test_very_many_scheduled_messages_are_listed_in_several_turns(self) -> None:
        due = self.world.clock.wall_ms() + 60_000
        count = SCANNED_MAX + 1
        for number in range(count):
            self.session.publish(b"", properties={KEY_SCHEDULED_DELIVERY: (LONG, due), "n": (INT, number)})
        for operation in ("listScheduledMessagesAsJSON", "listScheduledMessages"):
            self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_OperationName": operation}, b"")
            self.assertEqual(self.session.received(), [])
            for _ in range(3):
                self.world.clock.advance(0)
            succeeded, rows = self.reply()
            self.assertTrue(succeeded)
            rows = json.loads(rows) if isinstance(rows, str) else rows
            self.assertEqual([row["n"] for row in rows], [*range(count)])
