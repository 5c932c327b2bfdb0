"""Non-destructive queues, as sessions and management meet them."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.turns.steps import Steps
from mqbroker.messaging.turns.turn import SCANNED_MAX
from mqclient.errors import IllegalStateError
from mqclient.wire import packets as wire
from mqclient.wire.message import KEY_GROUP_ID, KEY_SCHEDULED_DELIVERY, decode_message
from mqclient.wire.properties import INT, LONG, STRING
from tests.support.broker import Session, World, message_id
from tests.unit.server.management.test_service import REPLIES, ManagementCase
from tests.unit.server.xa import XASession


class NonDestructiveCase(ManagementCase):
    settings: dict[str, dict[str, Any]] = {}

    def setUp(self) -> None:
        self.world = World(Configuration(security_enabled=False, address_settings=self.settings))
        self.session = self.world.session()
        self.session.ok(wire.CreateQueueV2(REPLIES, REPLIES, durable=False, temporary=True, routing_type=1))
        self.session.consume(REPLIES, 99)
        self.session.create_queue("DLQ")
        self.session.create_queue("q", non_destructive=True)
        self.queue = self.world.queue("q")

    def put(self, *bodies: bytes, **headers: Any) -> None:
        for body in bodies:
            self.session.publish(body, **headers)

    def waiting(self) -> list[bytes]:
        return [reference.message.decoded().body for reference in self.queue.references]

    def consumer(self, **more: Any) -> Session:
        session = self.world.session(**{name: more.pop(name) for name in ("auto_commit_acks", "pre_acknowledge") if name in more})
        session.consume(**more)
        return session

    def acknowledge(self, session: Session) -> list[bytes]:
        packets = session.received()
        if packets:
            session.send(wire.Acknowledge(0, message_id(packets[-1]), False))
        return [wire_body(packet) for packet in packets]

    def assert_empty(self) -> None:
        memory = self.queue.address.memory
        counts = (self.queue.total_count, self.queue.message_count, self.queue.delivering, self.queue.persistent_size)
        self.assertEqual((*counts, memory.size, memory.messages), (0,) * 6)


def wire_body(packet: wire.SessionReceive) -> bytes:
    return decode_message(packet.message).body


class LendingTests(NonDestructiveCase):
    def test_each_consumer_gets_everything_from_the_head(self) -> None:
        self.put(b"1", b"2")
        first = self.consumer()
        self.assertEqual(self.acknowledge(first), [b"1", b"2"])
        second = self.consumer()
        self.put(b"3")
        self.assertEqual((self.acknowledge(first), self.acknowledge(second)), ([b"3"], [b"1", b"2", b"3"]))
        self.assertEqual((self.waiting(), self.queue.message_count), ([b"1", b"2", b"3"], 3))
        self.assertEqual((self.queue.delivering, self.queue.messages_acknowledged, self.world.store.entries("ack")), (0, 6, []))
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 3)
        self.assert_empty()

    def test_credits_bound_what_is_lent(self) -> None:
        self.put(b"1", b"2", b"3")
        session = self.consumer(credits=1)
        self.assertEqual((len(session.received()), self.queue.delivering, self.queue.message_count), (1, 1, 3))
        session.peer.lose()
        self.assertEqual((self.queue.delivering, self.waiting()), (0, [b"1", b"2", b"3"]))

    def test_filters_priorities_and_browsers(self) -> None:
        for number in range(4):
            self.put(b"%d" % number, priority=number % 2 + 1, properties={"n": (INT, number)})
        self.assertEqual(self.consumer(filter="n > 0").bodies(), [b"1", b"3", b"2"])
        self.assertEqual(self.consumer(browse_only=True).bodies(), [b"1", b"3", b"0", b"2"])
        session = self.consumer()
        self.assertEqual(session.bodies(), [b"1", b"3", b"0", b"2"])
        self.put(b"high", priority=9, properties={"n": (INT, 9)})
        self.assertEqual(session.bodies(), [b"high"])

    def test_pre_acknowledged_deliveries_and_groups(self) -> None:
        self.put(b"1", b"2", properties={KEY_GROUP_ID: (STRING, "g")})
        sessions = [self.consumer(pre_acknowledge=True) for _ in range(2)]
        self.assertEqual([session.bodies() for session in sessions], [[b"1", b"2"]] * 2)
        self.assertEqual((self.queue.delivering, self.queue.message_count), (0, 2))

    def test_one_consumer_of_an_exclusive_queue(self) -> None:
        self.session.create_queue("x", non_destructive=True, exclusive=True)
        first, second = (self.consumer(queue="x") for _ in range(2))
        self.put(b"1", address="x")
        self.assertEqual((first.bodies(), second.bodies()), ([b"1"], []))
        first.peer.lose()
        self.assertEqual(second.bodies(), [b"1"])

    def test_scheduled_messages_come_to_those_who_have_passed_the_head(self) -> None:
        session = self.consumer()
        self.put(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, self.world.clock.wall_ms() + 5000)})
        self.put(b"now")
        self.assertEqual(session.bodies(), [b"now"])
        self.world.clock.advance(6)
        self.assertEqual((session.bodies(), self.waiting()), ([b"later"], [b"now", b"later"]))

    def test_large_messages_stay_as_long_as_they_are_lent(self) -> None:
        body = bytes(200_000)
        self.session.begin_large()
        for start in (0, 100_000):
            self.session.chunk(body[start : start + 100_000], 200_000 if start else None)
        session = self.consumer()
        (file,) = self.world.store.bodies.values()
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 1)
        self.assertEqual(file.holders, 1)
        session.peer.lose()
        self.assertEqual(file.holders, 0)
        self.assert_empty()

    def test_messages_that_are_removed_while_they_are_lent(self) -> None:
        self.put(b"1", b"2")
        session = self.consumer()
        packets = session.received()
        self.assertEqual(self.call("queue.q", "removeMessages", ""), 2)
        self.assertEqual((self.queue.total_count, self.queue.delivering, self.queue.address.memory.messages), (0, 2, 2))
        session.send(wire.Acknowledge(0, message_id(packets[-1]), False))
        self.assert_empty()

    def test_the_queue_is_deleted_under_its_consumers(self) -> None:
        self.put(b"1", b"2")
        session = self.consumer()
        self.call("broker", "destroyQueue", "q", True)
        session.peer.lose()
        self.world.clock.advance(1)
        memory = self.queue.address.memory
        self.assertEqual((memory.size, memory.messages, self.queue.delivering), (0, 0, 0))

    def test_a_client_finds_a_message_expired_whose_queue_is_being_deleted(self) -> None:
        def other_work() -> Steps[None]:
            for _ in range(3):
                yield SCANNED_MAX

        self.put(b"1", b"2")
        session = self.consumer()
        (first, _) = session.received()
        core = self.world.messaging.core
        core.steps.start(other_work(), lambda result, failure: None)
        self.world.messaging.administration.delete_queue(self.queue, remove_consumers=True)
        session.send(wire.Expired(0, message_id(first)))
        session.peer.lose()
        self.world.clock.advance(1)
        memory = self.queue.address.memory
        self.assertEqual((memory.size, memory.messages, self.queue.delivering, self.queue.references.count), (0, 0, 0, 0))

    def test_a_changed_priority_lends_once_more_what_was_given_back(self) -> None:
        self.put(b"1", b"2")
        session = self.consumer()
        (first, _) = session.received()
        self.assertEqual(self.call("queue.q", "changeMessagesPriority", "", 8), 2)
        self.assertEqual(session.bodies(), [], "it has them already")
        session.send(wire.IndividualAcknowledge(0, message_id(first), False))
        session.peer.lose()
        self.assertEqual(self.queue.delivering, 0)
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 2)
        self.assert_empty()


class LeavingTests(NonDestructiveCase):
    settings = {"#": {"max_delivery_attempts": 2, "dead_letter_address": "DLQ"}, "slow.#": {"redelivery_delay": 2000}}

    def test_what_is_rolled_back_comes_again_and_then_is_a_dead_letter(self) -> None:
        self.put(b"1", b"2")
        session, other = self.consumer(auto_commit_acks=False), self.consumer()
        self.assertEqual(self.acknowledge(session), [b"1", b"2"])
        session.ok(wire.Rollback(False))
        counts = [(wire_body(packet), packet.delivery_count) for packet in session.received()]
        self.assertEqual(counts, [(b"1", 2), (b"2", 2)])
        session.send(wire.Acknowledge(0, self.ids()[0], False))
        session.ok(wire.Rollback(False))
        self.assertEqual((self.waiting(), self.queue.messages_killed), ([b"2"], 1))
        self.assertEqual(session.bodies(), [b"2"])
        self.assertEqual(self.world.queue("DLQ").message_count, 1)
        self.assertEqual(self.acknowledge(other), [b"1", b"2"])
        session.peer.lose()
        self.assertEqual((self.waiting(), self.queue.messages_killed), ([], 2), "a failed connection is an attempt, too")
        self.assert_empty()

    def ids(self) -> list[int]:
        return [reference.message.message_id for reference in self.queue.references]

    def test_failed_consumers_do_not_add_up(self) -> None:
        self.put(b"1")
        for _ in range(5):
            session = self.consumer()
            self.assertEqual(session.bodies(), [b"1"])
            session.peer.lose()
        self.assertEqual((self.waiting(), self.queue.messages_killed), ([b"1"], 0))

    def test_two_consumers_give_up_the_same_message(self) -> None:
        self.put(b"1")
        sessions = [self.consumer(auto_commit_acks=False) for _ in range(2)]
        for _ in range(2):
            for session in sessions:
                self.acknowledge(session)
                session.ok(wire.Rollback(False))
        self.assertEqual((self.waiting(), self.queue.messages_killed, self.world.queue("DLQ").message_count), ([], 1, 1))
        self.assert_empty()

    def test_a_redelivery_delay(self) -> None:
        self.session.create_queue("slow.q", non_destructive=True)
        session = self.consumer(queue="slow.q", auto_commit_acks=False)
        self.put(b"1", address="slow.q")
        self.acknowledge(session)
        session.ok(wire.Rollback(False))
        self.assertEqual(session.bodies(), [])
        self.world.clock.advance(3)
        self.assertEqual(session.bodies(), [b"1"])

    def test_nobody_waits_for_the_delay_of_a_consumer_that_is_gone(self) -> None:
        self.session.create_queue("slow.q", non_destructive=True)
        for body in (b"1", b"2", b"3"):
            self.put(body, address="slow.q")
        self.consumer(queue="DLQ").peer.lose()
        before = self.world.clock.pending
        session = self.consumer(queue="slow.q")
        self.assertEqual(len(session.received()), 3)
        session.peer.lose()
        self.assertEqual((self.world.clock.pending, self.world.queue("slow.q").delivering), (before, 0))

    def test_expiry(self) -> None:
        session = self.consumer()
        self.put(b"short", expiration=self.world.clock.wall_ms() + 1000)
        self.put(b"long")
        packets = session.received()
        self.world.clock.advance(40)
        self.assertEqual((self.waiting(), self.queue.messages_expired), ([b"long"], 1))
        session.send(wire.Acknowledge(0, message_id(packets[-1]), False))
        self.assertEqual((self.queue.delivering, self.queue.address.memory.messages), (0, 1))
        self.put(b"gone", expiration=self.world.clock.wall_ms() - 1)
        self.assertEqual((session.bodies(), self.queue.messages_expired), ([], 2))

    def test_a_client_that_finds_a_message_expired(self) -> None:
        session = self.consumer()
        self.put(b"1")
        (packet,) = session.received()
        session.send(wire.Expired(0, message_id(packet)))
        self.assertEqual((self.waiting(), self.queue.messages_expired), ([], 1))
        self.assert_empty()


class TransactionTests(NonDestructiveCase):
    def test_a_commit_takes_nothing(self) -> None:
        self.put(b"1")
        session = self.consumer(auto_commit_acks=False)
        self.acknowledge(session)
        session.ok(wire.Commit())
        self.assertEqual((self.waiting(), self.queue.delivering, self.world.store.entries("ack")), ([b"1"], 0, []))

    def test_branches(self) -> None:
        self.put(b"1")
        manager = XASession(self.world.peer())
        manager.session.consume()
        manager.takes("t", prepare=True)
        self.assertEqual(manager.commit("t"), 0)
        self.put(b"2")
        manager.takes("u", prepare=True)
        self.assertEqual(self.queue.delivering, 1)
        self.assertEqual(manager.rollback("u"), 0)
        self.assertEqual(manager.session.bodies(), [b"2"])
        self.assertEqual(self.waiting(), [b"1", b"2"])


class KindTests(NonDestructiveCase):
    settings = {"kept.#": {"default_non_destructive": True, "default_last_value_key": "sym"}}

    def test_a_table_of_last_values(self) -> None:
        self.session.create_queue("kept.q")
        queue = self.world.queue("kept.q")
        session = self.consumer(queue="kept.q")
        for number, key in enumerate("aba"):
            self.put(b"%d" % number, address="kept.q", properties={"sym": (STRING, key)})
        self.assertEqual(self.acknowledge(session), [b"0", b"1", b"2"])
        self.assertEqual(self.consumer(queue="kept.q").bodies(), [b"1", b"2"])
        self.assertEqual((queue.message_count, queue.messages_replaced), (2, 1))

    def test_attributes(self) -> None:
        answer = self.session.call(wire.QueueQuery("q"))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        self.assertTrue(answer.non_destructive)
        made = json.loads(self.call("broker", "createQueue", json.dumps({"name": "m", "non-destructive": True})))
        self.assertTrue(made["non-destructive"])
        self.assertIn("cannot be changed", self.fails("broker", "updateQueue", json.dumps({"name": "m", "non-destructive": False})))

    def test_readers_are_refused(self) -> None:
        with self.assertRaisesRegex(IllegalStateError, "non-destructive"):
            self.world.messaging.readers.open(self.queue, "r", 0, lambda *found: None, lambda error: None)
