"""Last-value queues, as sessions and management meet them."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.memory import MEMORY_PER_REFERENCE
from mqclient.errors import IllegalStateError
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import KEY_LAST_VALUE, KEY_SCHEDULED_DELIVERY, encode_message
from mqclient.wire.properties import BOOLEAN, INT, LONG, STRING, TypedValue
from tests.support.broker import Session, World, message_id
from tests.unit.server.management.test_service import REPLIES, ManagementCase
from tests.unit.server.xa import XASession


def keyed(key: str | int | bool | None, **more: TypedValue) -> dict[str, TypedValue]:
    kinds = {str: STRING, int: INT, bool: BOOLEAN}
    return dict(more) if key is None else {"sym": (kinds[type(key)], key), **more}


class LastValueCase(ManagementCase):
    settings: dict[str, dict[str, Any]] = {}

    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False, address_settings=self.settings))
        self.session = self.world.session()
        self.session.ok(wire.CreateQueueV2(REPLIES, REPLIES, durable=False, temporary=True, routing_type=1))
        self.session.consume(REPLIES, 99)
        self.session.create_queue("q", last_value_key="sym")
        self.queue = self.world.queue("q")

    def put(self, body: bytes, key: str | int | bool | None = "a", session: Session | None = None, **headers: Any) -> None:
        (session or self.session).publish(body, properties=keyed(key, **headers.pop("more", {})), **headers)

    def waiting(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.queue.references]

    def assert_empty(self) -> None:
        """Every account has come back to zero."""
        memory = self.queue.address.memory
        counts = (self.queue.total_count, self.queue.message_count, self.queue.durable_message_count, self.queue.persistent_size)
        self.assertEqual((*counts, self.queue.arriving, memory.size, memory.messages), (0,) * 7)
        stored = {entry[1] for entry in self.world.store.entries("message")}
        acknowledged = [entry[2] for entry in self.world.store.entries("ack")]
        self.assertEqual(sorted(stored), sorted(acknowledged), "each message is acknowledged once")


class ReplacingTests(LastValueCase):
    def test_the_newest_message_of_each_key_waits(self) -> None:
        for number, key in enumerate("abacab"):
            self.put(b"%d" % number, key)
        self.assertEqual(self.waiting(), [b"3", b"4", b"5"])
        self.assertEqual((self.queue.message_count, self.queue.messages_added, self.queue.messages_replaced), (3, 6, 3))
        self.session.consume()
        for packet in self.session.received():
            self.session.send(wire.Acknowledge(0, message_id(packet), False))
        self.assertEqual(self.queue.messages_acknowledged, 3)
        self.assert_empty()

    def test_messages_without_the_key_take_no_part(self) -> None:
        for number, key in enumerate((None, "a", None, "a")):
            self.put(b"%d" % number, key)
        self.assertEqual(self.waiting(), [b"0", b"2", b"3"])

    def test_numbers_are_the_same_as_their_texts(self) -> None:
        for number, key in enumerate((5, "5", True, "true")):
            self.put(b"%d" % number, key)
        self.assertEqual(self.waiting(), [b"1", b"3"])

    def test_the_usual_key(self) -> None:
        self.session.create_queue("usual", last_value=True)
        for body in (b"1", b"2"):
            self.session.publish(body, "usual", properties={KEY_LAST_VALUE: (STRING, "a")})
        self.assertEqual(self.world.queue("usual").message_count, 1)

    def test_a_message_is_replaced_when_the_newer_one_is_stored(self) -> None:
        self.put(b"old")
        self.world.store.held = True
        self.put(b"new")
        self.assertEqual(self.waiting(), [b"old"])
        self.assertEqual(self.world.store.entries("ack"), [])
        self.world.store.sync()
        self.world.clock.advance(0.1)
        self.assertEqual(self.waiting(), [b"new"])
        self.assertEqual(len(self.world.store.entries("ack")), 1)

    def test_a_run_of_messages(self) -> None:
        peer = self.session.peer
        chunk = b""
        for number in range(9):
            buffer = encode_message(self.session.message(b"%d" % number, properties=keyed("abc"[number % 3])))
            packet = wire.SessionSend(buffer, False, 0)
            chunk += frame(packet.TYPE, self.session.channel, wire.encode_packet(packet, peer.version))
        peer.feed(chunk)
        self.assertEqual(self.waiting(), [b"6", b"7", b"8"])
        self.assertEqual(self.queue.messages_replaced, 6)

    def test_a_priority_changes_nothing(self) -> None:
        self.put(b"old", priority=9)
        self.put(b"new", priority=1)
        self.assertEqual(self.waiting(), [b"new"])

    def test_purge_and_deletion(self) -> None:
        for number in range(4):
            self.put(b"%d" % number, "ab"[number % 2])
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 2)
        self.assert_empty()
        self.put(b"new")
        self.assertEqual(self.waiting(), [b"new"])
        self.session.ok(wire.DeleteQueue("q"))
        self.world.clock.advance(1)
        self.assertEqual((self.queue.address.memory.size, self.queue.address.memory.messages), (0, 0))

    def test_an_expired_value_goes_and_the_next_comes(self) -> None:
        self.put(b"short", expiration=self.world.clock.wall_ms() + 1000)
        self.world.clock.advance(40)
        self.assertEqual((self.waiting(), self.queue.messages_expired), ([], 1))
        self.put(b"new")
        self.assertEqual(self.waiting(), [b"new"])

    def test_browsers_see_the_values(self) -> None:
        for number, key in enumerate("aba"):
            self.put(b"%d" % number, key)
        self.session.consume(browse_only=True)
        self.assertEqual(self.session.bodies(), [b"1", b"2"])
        self.assertEqual(self.queue.message_count, 2)


class DeliveryTests(LastValueCase):
    def setUp(self) -> None:
        super().setUp()
        self.other = self.world.session()
        self.put(b"old")
        self.other.consume()
        (self.packet,) = self.other.received()

    def test_what_is_in_delivery_is_not_replaced(self) -> None:
        self.put(b"new")
        self.assertEqual((self.queue.delivering, self.queue.messages_replaced), (2, 0))
        self.assertEqual(self.queue.message_count, 0)
        packets = [self.packet, *self.other.received()]
        for packet in packets:
            self.other.send(wire.Acknowledge(0, message_id(packet), False))
        self.assert_empty()

    def test_what_comes_back_is_dropped_when_a_newer_one_waits(self) -> None:
        self.other.send(wire.FlowToken(0, 0))
        self.world.queue("q")  # no credits any more
        self.other.server_session.consumers.by_id[0].unlimited = False
        self.other.server_session.consumers.by_id[0].update_ready()
        self.put(b"new")
        self.assertEqual(self.waiting(), [b"new"])
        self.other.peer.lose()
        self.assertEqual((self.waiting(), self.queue.messages_replaced, self.queue.delivering), ([b"new"], 1, 0))
        self.session.consume()
        (packet,) = self.session.received()
        self.session.send(wire.Acknowledge(0, message_id(packet), False))
        self.assert_empty()

    def test_both_come_back(self) -> None:
        self.put(b"new")
        self.other.peer.lose()
        self.assertEqual((self.waiting(), self.queue.messages_replaced, self.queue.delivering), ([b"new"], 1, 0))

    def test_what_comes_back_is_the_value_when_there_is_no_newer_one(self) -> None:
        self.other.peer.lose()
        self.assertEqual((self.waiting(), self.queue.message_count), ([b"old"], 1))
        self.put(b"new")
        self.assertEqual(self.waiting(), [b"new"])

    def test_the_newer_one_was_consumed(self) -> None:
        self.put(b"new")
        (packet,) = self.other.received()
        self.other.send(wire.IndividualAcknowledge(0, message_id(packet), False))
        self.other.peer.lose()
        self.assertEqual(self.waiting(), [b"old"])

    def test_a_dead_letter_of_a_replaced_message_is_none(self) -> None:
        self.put(b"new")
        self.other.peer.lose()
        self.assertEqual(self.queue.messages_killed, 0)


class RedeliveryTests(LastValueCase):
    settings = {"#": {"redelivery_delay": 5000, "max_delivery_attempts": 3, "dead_letter_address": "DLQ"}}

    def setUp(self) -> None:
        super().setUp()
        self.session.create_queue("DLQ")
        self.consumer = self.world.session(auto_commit_acks=False)
        self.put(b"old")
        self.consumer.consume()
        self.roll_back()

    def roll_back(self) -> None:
        packets = self.consumer.received()
        self.consumer.send(wire.Acknowledge(0, message_id(packets[-1]), False))
        self.consumer.ok(wire.Rollback(False))

    def test_a_newer_one_replaces_what_waits_for_its_redelivery(self) -> None:
        self.assertEqual((self.queue.scheduled.count, self.queue.message_count), (1, 1))
        self.put(b"new")
        self.assertEqual((self.queue.scheduled.count, self.queue.messages_replaced, self.queue.delivering), (0, 1, 1))
        self.world.clock.advance(10)
        self.assertEqual(self.consumer.bodies(), [b"new"])

    def test_both_come_back_to_be_delivered_again_later(self) -> None:
        self.world.clock.advance(6)
        self.put(b"new")
        self.roll_back()
        self.assertEqual((self.queue.scheduled.count, self.queue.messages_replaced, self.queue.total_count), (1, 1, 1))
        self.world.clock.advance(12)
        self.assertEqual(self.consumer.bodies(), [b"new"])

    def test_it_is_delivered_again_without_a_newer_one(self) -> None:
        self.world.clock.advance(6)
        self.assertEqual(self.consumer.bodies(), [b"old"])

    def test_dead_letters(self) -> None:
        for _ in range(2):
            self.world.clock.advance(6)
            self.roll_back()
        self.assertEqual((self.queue.messages_killed, self.queue.total_count), (1, 0))
        self.assertEqual(self.world.queue("DLQ").message_count, 1)
        self.put(b"new")
        self.assertEqual(self.consumer.bodies(), [b"new"])


class ScheduleTests(LastValueCase):
    def schedule(self, body: bytes, seconds: float) -> None:
        due = self.world.clock.wall_ms() + int(seconds * 1000)
        self.put(body, more={KEY_SCHEDULED_DELIVERY: (LONG, due)})

    def test_a_scheduled_message_is_the_newest_when_its_time_has_come(self) -> None:
        self.schedule(b"later", 10)
        self.put(b"now")
        self.assertEqual((self.waiting(), self.queue.message_count), ([b"now"], 2))
        self.world.clock.advance(11)
        self.assertEqual((self.waiting(), self.queue.message_count, self.queue.messages_replaced), ([b"later"], 1, 1))
        self.put(b"last")
        self.assertEqual(self.waiting(), [b"last"])
        self.assertEqual(self.queue.messages_added, 3)

    def test_several_of_them(self) -> None:
        self.schedule(b"20", 20)
        self.schedule(b"10", 10)
        self.world.clock.advance(15)
        self.assertEqual(self.waiting(), [b"10"])
        self.world.clock.advance(10)
        self.assertEqual(self.waiting(), [b"20"])

    def test_one_that_a_manager_wants_now(self) -> None:
        self.schedule(b"later", 1000)
        self.put(b"now")
        self.call("queue.q", "deliverScheduledMessages")
        self.assertEqual((self.waiting(), self.queue.scheduled.count), ([b"later"], 0))


class TransactionTests(LastValueCase):
    def test_the_commit_counts_not_the_send(self) -> None:
        transacted = self.world.session(auto_commit_sends=False)
        self.put(b"first", session=transacted)
        self.put(b"second")
        self.assertEqual(self.waiting(), [b"second"])
        transacted.ok(wire.Commit())
        self.assertEqual(self.waiting(), [b"first"])

    def test_a_rollback_replaces_nothing(self) -> None:
        transacted = self.world.session(auto_commit_sends=False)
        self.put(b"kept")
        self.put(b"undone", session=transacted)
        transacted.ok(wire.Rollback(False))
        self.assertEqual((self.waiting(), self.queue.messages_replaced), ([b"kept"], 0))

    def test_two_in_one_transaction(self) -> None:
        transacted = self.world.session(auto_commit_sends=False)
        for body in (b"1", b"2"):
            self.put(body, session=transacted)
        transacted.ok(wire.Commit())
        self.assertEqual(self.waiting(), [b"2"])

    def test_branches(self) -> None:
        """A prepared message is the newest from its commit on, and one that was acknowledged by a branch comes back if it is the newest."""
        manager = XASession(self.world.peer())
        manager.sends("t", b"branch", prepare=True, properties=keyed("a"))
        self.put(b"meanwhile")
        self.assertEqual(self.waiting(), [b"meanwhile"])
        self.assertEqual(manager.commit("t"), 0)
        self.assertEqual(self.waiting(), [b"branch"])
        manager.session.consume()
        manager.takes("u", prepare=True)
        self.put(b"new")
        self.assertEqual(manager.rollback("u"), 0)
        manager.session.peer.lose()
        self.assertEqual((self.waiting(), self.queue.delivering), ([b"new"], 0))


class AttributeTests(LastValueCase):
    settings = {"by.setting": {"default_last_value_queue": True}, "by.key": {"default_last_value_key": "k"}}

    def query(self, name: str) -> tuple[Any, Any]:
        answer = self.session.call(wire.QueueQuery(name))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        return answer.last_value, answer.last_value_key

    def test_a_key_implies_the_kind(self) -> None:
        self.assertEqual(self.query("q"), (True, "sym"))
        self.session.create_queue("plain", last_value=False)
        self.assertEqual(self.query("plain"), (False, None))

    def test_address_settings(self) -> None:
        for name, found, told in (("by.setting", KEY_LAST_VALUE, None), ("by.key", "k", "k")):
            self.session.create_queue(name)
            self.assertEqual(self.query(name), (True, found))
            self.session.create_queue(f"{name}.not", name, last_value=False)
            self.assertEqual(self.query(f"{name}.not"), (told is not None, told), "a key is enough")

    def test_management(self) -> None:
        made = json.loads(self.call("broker", "createQueue", json.dumps({"name": "m", "last-value-key": "k"})))
        self.assertEqual((made["last-value"], made["last-value-key"]), (True, "k"))
        for attribute, value in (("LastValue", True), ("LastValueKey", "k"), ("MessagesReplaced", 0)):
            self.assertEqual(self.attribute("queue.m", attribute), value)
        self.call("broker", "updateQueue", json.dumps({"name": "m", "last-value-key": "k", "max-consumers": 3}))
        self.assertEqual(self.world.queue("m").definition.max_consumers, 3)
        refused = self.fails("broker", "updateQueue", json.dumps({"name": "m", "last-value-key": "other"}))
        self.assertIn("last-value-key cannot be changed", refused)

    def test_readers_are_refused(self) -> None:
        with self.assertRaisesRegex(IllegalStateError, "last-value queue"):
            self.world.messaging.readers.open(self.queue, "r", 0, lambda *found: None, lambda error: None)


class MemoryTests(LastValueCase):
    def test_a_message_on_two_queues_goes_with_the_second(self) -> None:
        self.session.create_queue("t", routing_type=0, address="t", last_value_key="sym")
        self.session.create_queue("u", routing_type=0, address="t")
        for body in (b"old", b"new"):
            self.session.publish(body, "t", routing_type=0, properties=keyed("a"))
        memory = self.world.queue("t").address.memory
        self.assertEqual((self.world.queue("t").message_count, self.world.queue("u").message_count, memory.messages), (1, 2, 2))
        alone = memory.size
        self.assertEqual(self.call("queue.t", "removeAllMessages"), 1)
        self.assertEqual(memory.size, alone - MEMORY_PER_REFERENCE)
        self.assertEqual(self.call("queue.u", "removeAllMessages"), 2)
        self.assertEqual((memory.size, memory.messages), (0, 0))
