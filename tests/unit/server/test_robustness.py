"""Sessions, connections and management in the cases where something is late, odd or missing."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration, ResourceLimit
from mqclient.wire import packets as wire
from mqclient.wire.bodies import encode_text
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY, TYPE_TEXT, CoreMessage, encode_headers, encode_message
from mqclient.wire.properties import LONG, STRING, TypedValue
from tests.forms import pure_only
from tests.support.broker import Session, World, message_id, of_kind


def manage(session: Session, resource: str, operation: str, *parameters: Any, large: bool = False) -> None:
    """Ask for an operation; the reply goes to the queue ``replies``."""
    properties: dict[str, TypedValue] = {
        "_AMQ_ResourceName": (STRING, resource),
        "_AMQ_OperationName": (STRING, operation),
        "JMSReplyTo": (STRING, "queue://replies"),
    }
    body = encode_text(json.dumps(list(parameters)))
    content = CoreMessage(address="activemq.management", type=TYPE_TEXT, properties=properties, body=body)
    if large:
        content.body = b""
        session.send(wire.SessionSendLarge(encode_headers(content)))
        session.chunk(body, len(body))
    else:
        session.send(wire.SessionSend(encode_message(content), False, 0))


class ManagementTests(SynchronousTestCase):
    def test_changing_the_priority_of_a_scheduled_message_leaves_the_others_alone(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("q")
        session.create_queue("replies")
        queue = world.queue("q")
        session.publish(b"waiting")
        due = world.clock.wall_ms() + 60_000
        session.publish(b"later", properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
        scheduled = next(iter(queue.scheduled)).message.message_id
        manage(session, "queue.q", "changeMessagePriority", scheduled, 4)
        session.consume()
        world.clock.advance(120)
        self.assertEqual(sorted(session.bodies()), [b"later", b"waiting"])
        self.assertEqual(queue.message_count, 2)

    def test_who_waits_for_an_address_goes_on_when_it_is_deleted(self) -> None:
        """Nobody could unblock it any more, and what filled it may be held by an XA branch for long."""
        for operation in ("block", None):
            self.waits(operation)

    def waits(self, operation: str | None) -> None:
        settings = {"q": {"max_size_bytes": 100, "address_full_policy": "BLOCK"}}
        world = World(Configuration(security_enabled=False, address_settings=settings))
        session = world.peer().open(auto_commit_sends=False)
        session.create_queue("q")
        session.create_queue("replies")
        if operation is not None:
            manage(session, "address.q", operation)
        else:
            session.publish(b"x" * 100)
        producer = world.peer().open()
        producer.send(wire.ProducerRequestCredits(1000, "q"))
        self.assertEqual(of_kind(producer.take(), wire.ProducerCredits), [])
        manage(world.peer().open(), "broker", "deleteAddress", "q", True)
        self.assertEqual(len(of_kind(producer.take(), wire.ProducerCredits)), 1)

    def test_changing_the_priority_on_one_queue_does_not_damage_another(self) -> None:
        world = World()
        session = world.peer().open()
        for name in ("a", "b"):
            session.create_queue(name, "t", routing_type=0)
        session.create_queue("replies")
        session.publish(b"1", "t", routing_type=0)
        session.publish(b"2", "t", routing_type=0)
        first = next(iter(world.queue("a").references)).message.message_id
        manage(session, "queue.a", "changeMessagePriority", first, 9)
        session.consume("b")
        self.assertEqual(sorted(session.bodies()), [b"1", b"2"])
        self.assertEqual(len(list(world.queue("b").references)), 0)

    def test_the_reply_waits_until_what_was_done_is_stored(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("replies")
        world.store.held = True
        manage(session, "broker", "createQueue", json.dumps({"name": "new", "routing-type": "ANYCAST"}))
        self.assertEqual(world.queue("replies").message_count, 0)
        world.store.sync()
        self.assertEqual(world.queue("replies").message_count, 1)

    def test_a_message_sent_by_management_is_stored_before_success_is_told(self) -> None:
        world = World()
        session = world.peer().open()
        for name in ("replies", "q"):
            session.create_queue(name)
        world.store.held = True
        manage(session, "address.q", "sendMessage", {}, 3, "x", True, None, None)
        self.assertEqual(world.queue("replies").message_count, 0)

    def test_the_body_of_a_large_request_is_let_go(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("replies")
        manage(session, "broker", "listAddresses", ",", large=True)
        self.assertEqual([body.holders for body in world.store.bodies.values()], [0])


class LargeMessageTests(SynchronousTestCase):
    def test_a_large_message_with_damaged_headers_leaves_no_body_behind(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("q")
        headers = encode_headers(session.message(b""))
        session.send(wire.SessionSendLarge(headers[:-3]))
        session.chunk(b"x", 1)
        self.assertEqual([body.holders for body in world.store.bodies.values()], [0] * len(world.store.bodies))

    def test_many_small_large_messages_and_a_forced_delivery_do_not_exhaust_the_stack(self) -> None:
        world = World()
        session = world.peer().open(min_large_message_size=10)
        session.create_queue("q")
        for _ in range(400):
            session.begin_large()
            session.chunk(b"x", 1)
        session.send(wire.CreateConsumer(0, "q", None, requires_response=False))
        session.send(wire.SessionStart())
        consumer = session.server_session.consumers.by_id[0]
        session.peer.connection.pause_output()
        session.send(wire.FlowToken(0, -1))
        session.send(wire.ForceConsumerDelivery(0, 1))
        session.peer.connection.resume_output()
        self.flushLoggedErrors(RecursionError)
        self.assertFalse(session.peer.connection.closed)
        self.assertEqual(len(consumer.unacknowledged), 400)

    def test_a_body_that_cannot_be_read_stops_its_consumer_and_nobody_else(self) -> None:
        world = World()
        session = world.peer().open()
        for name in ("big", "q"):
            session.create_queue(name)
        session.begin_large("big")
        session.chunk(b"x" * 10, 10)

        def damaged(offset: int, size: int) -> bytes:
            raise OSError("damaged")

        next(iter(world.store.bodies.values())).read = damaged
        reader, other, feeder = world.peer().open(), world.peer().open(), world.peer().open()
        other.consume("q")

        def one_turn() -> None:
            reader.consume("big")
            feeder.publish(b"one")

        try:
            world.server.turn.run(one_turn)
        except OSError:
            pass
        feeder.publish(b"two")
        self.flushLoggedErrors(OSError)
        self.assertFalse(feeder.peer.connection.closed)
        self.assertEqual(other.bodies(), [b"one", b"two"])


class SessionTests(SynchronousTestCase):
    def test_packets_behind_a_close_that_waits_for_the_disk_have_no_effect(self) -> None:
        world = World()
        session = world.peer().open()
        session.create_queue("q")
        world.store.held = True
        session.publish()
        session.send(wire.SessionClose())
        session.consume()
        world.store.sync()
        world.clock.advance(1)
        self.assertEqual(world.queue("q").consumer_count, 0)
        self.assertEqual(world.queue("q").delivering, 0)

    def test_a_session_is_closed_once_its_acknowledgements_are_stored(self) -> None:
        """Nobody waits for each of them: who closes and is told so may rely on all of them."""
        for many in (False, True):
            world = World()
            session = world.peer().open()
            session.create_queue("q")
            session.consume()
            for number in range(2):
                session.publish(str(number).encode())
            ids = [message_id(packet) for packet in session.received()]
            session.take()
            world.store.held = True
            if many:
                session.peer.feed(b"".join(session.frame(wire.Acknowledge(0, each, False)) for each in ids))
            else:
                session.send(wire.IndividualAcknowledge(0, ids[0], False))
            session.send(wire.SessionClose())
            self.assertEqual(session.take(), [])
            world.store.sync()
            world.clock.advance(1)
            self.assertEqual(len(of_kind(session.take(), wire.NullResponse)), 1)

    def test_a_refused_send_is_told_although_the_session_closes_meanwhile(self) -> None:
        world = World(Configuration(security_enabled=False, address_settings={"no": {"auto_create_addresses": False}}))
        session = world.peer().open(window_size=1 << 20)
        session.create_queue("q")
        session.take()
        world.store.held = True
        session.publish(reply=True, number=1)
        session.publish(address="no", reply=True, number=2)
        session.send(wire.SessionClose())
        world.store.sync()
        world.clock.advance(1)
        self.assertEqual(len(of_kind(session.take(), wire.ExceptionResponse)), 1)

    def test_a_queue_of_another_kind_under_the_name_of_the_address_is_an_error_not_a_loss(self) -> None:
        world = World()
        session = world.peer().open()
        session.send(wire.CreateAddress("q", (0, 1), True, False))
        session.take()
        session.create_queue("q", routing_type=0)
        session.publish(reply=True, routing_type=1)
        (answer,) = session.take()
        self.assertIsInstance(answer, wire.ExceptionResponse)

    def test_shared_queues_count_towards_the_limit_of_their_user(self) -> None:
        configuration = Configuration(security_enabled=False, resource_limits={"bob": ResourceLimit(max_queues=1)})
        world = World(configuration)
        session = world.peer().open(username="bob")
        session.ok(wire.CreateSharedQueueV2("t", "s1", durable=True, routing_type=0))
        session.error(wire.CreateSharedQueueV2("t", "s2", durable=True, routing_type=0))

    def test_a_producer_that_tries_again_and_again_at_a_full_address_is_not_disconnected(self) -> None:
        settings = {"q": {"max_size_bytes": 1, "address_full_policy": "FAIL"}}
        world = World(Configuration(security_enabled=False, address_settings=settings))
        session = world.peer().open()
        session.create_queue("q")
        session.publish()
        for _ in range(10_001):
            session.send(wire.ProducerRequestCredits(1, "q"))
        self.assertFalse(session.peer.connection.closed)

    def test_a_temporary_queue_that_was_replaced_is_not_removed_with_its_first_owner(self) -> None:
        world = World()
        owner = world.peer().open()
        owner.create_queue("x", durable=False, temporary=True)
        other = world.peer().open()
        other.ok(wire.DeleteQueue("x"))
        other.create_queue("x")
        other.publish(b"kept", "x")
        owner.peer.lose()
        self.assertEqual(world.queue("x").message_count, 1)


class FailureTests(SynchronousTestCase):
    """A dead letter address that leads nowhere must not break the end of a session."""

    def world(self) -> World:
        settings = {"q": {"max_delivery_attempts": 1, "dead_letter_address": "dead.q"}}
        world = World(Configuration(security_enabled=False, address_settings=settings))
        session = world.peer().open()
        session.create_queue("q")
        session.create_queue("graves", "dead.#", routing_type=0)
        session.publish(b"x")
        return world

    def test_the_end_of_a_connection_is_complete_when_one_message_cannot_be_moved(self) -> None:
        world = self.world()
        reader = world.peer().open()
        reader.consume()
        try:
            reader.peer.lose()
        except Exception:
            pass
        self.flushLoggedErrors(Exception)
        self.assertNotIn(reader.name, world.server.sessions.by_name)
        self.assertNotIn(reader.peer.connection.connection_id, world.server.connections)

    def test_who_comes_back_and_goes_at_once_leaves_the_old_connection_as_it_was(self) -> None:
        world = World()
        session = world.peer().open(window_size=1 << 20)
        session.create_queue("q")
        session.take()
        world.store.held = True
        session.publish(b"1")
        other = world.peer()
        other.send(wire.ReattachSession(session.name, -1), SESSION_CHANNEL)
        other.lose()
        world.store.sync()
        world.clock.advance(1)
        session.publish(b"2", reply=True)
        world.store.sync()
        world.clock.advance(1)
        self.assertEqual(len(of_kind(session.take(), wire.NullResponse)), 1)
        self.assertTrue(session.peer.transport.reading)

    @pure_only
    def test_the_end_of_a_session_is_complete_when_its_work_cannot_be_undone(self) -> None:
        """A consumer that stayed behind would be given messages for ever."""
        world = World()
        session = world.peer().open(auto_commit_acks=False)
        session.create_queue("q")
        session.consume()

        def fails(transaction: object) -> int:
            raise LookupError("nothing found")

        self.patch(world.messaging.settlement, "rollback", fails)
        session.peer.lose()
        self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        self.assertEqual((world.queue("q").consumer_count, list(world.server.sessions.by_name)), (0, []))

    def test_a_stop_sends_everybody_away_also_after_a_failure(self) -> None:
        world = World()
        peers = [world.peer().open().peer for _ in range(3)]

        def fails() -> None:
            raise LookupError("nothing found")

        peers[1].transport.loseConnection = fails  # type: ignore[method-assign]
        world.server.stop()
        self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        self.assertEqual([peer.transport.closed for peer in peers], [True, False, True])
        self.assertEqual((world.server.connections, world.server.sessions.by_name), ({}, {}))

    def test_the_check_of_connections_goes_on_after_a_failure(self) -> None:
        world = self.world()
        reader = world.peer().open()
        reader.peer.ping(1000)
        reader.consume()
        idle = world.peer().open()
        idle.peer.ping(10_000)
        for _ in range(20):
            try:
                world.clock.advance(2)
            except Exception:
                pass
        self.flushLoggedErrors(Exception)
        self.assertTrue(idle.peer.connection.closed)


class NotificationTests(SynchronousTestCase):
    def test_a_full_notification_address_does_not_break_what_is_told(self) -> None:
        settings = {"activemq.notifications": {"max_size_bytes": 1, "address_full_policy": "FAIL"}}
        world = World(Configuration(security_enabled=False, address_settings=settings))
        session = world.peer().open()
        session.create_queue("watch", "activemq.notifications", routing_type=0)
        # The notification about this very queue has filled the address.
        session.send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        answers = session.take()
        self.assertEqual([type(answer) for answer in answers], [wire.NullResponse])
        self.assertIn(("queue", "q"), world.store.entries("queue"))


class ReattachTests(SynchronousTestCase):
    def test_the_connection_that_was_left_is_closed(self) -> None:
        """The old socket may never be reported as lost: its other end has vanished."""
        world = World()
        old = world.peer()
        session = old.open(window_size=1024)
        new = world.peer()
        new.version = old.version
        new.send(wire.ReattachSession(session.name, -1), SESSION_CHANNEL)
        answers = of_kind(new.take(SESSION_CHANNEL), wire.ReattachSessionResponse)
        self.assertEqual([answer.reattached for answer in answers], [True])
        self.assertTrue(old.transport.closed)

    def test_a_session_name_is_unique_also_while_logins_are_checked(self) -> None:
        waiting: list[tuple[Deferred[Any], Any, tuple[Any, ...]]] = []

        def later(function: Any, *args: Any) -> Deferred[Any]:
            result: Deferred[Any] = Deferred()
            waiting.append((result, function, args))
            return result

        world = World(Configuration(), defer_to_thread=later)
        peers = [world.peer(), world.peer()]
        for peer in peers:
            peer.session(name="same", username="admin", password="secret")
        while waiting:
            result, function, args = waiting.pop(0)
            result.callback(function(*args))
        self.assertEqual(
            [len(peer.connection.sessions) for peer in peers], [0, 1], "the first one is that of a try whose connection has failed"
        )
        self.assertEqual([session.connection for session in world.server.sessions.by_name.values()], [peers[1].connection])


class ConfirmationTests(SynchronousTestCase):
    def test_a_peer_that_confirms_nothing_costs_bounded_memory(self) -> None:
        world = World()
        session = world.peer().open(window_size=1024)
        session.create_queue("q")
        session.consume()
        server_session = session.server_session
        body = bytes(1 << 20)
        sender = world.peer().open()
        for _ in range(200):
            sender.publish(body, durable=False)
            received = session.received()
            if not received:
                break
            session.send(wire.Acknowledge(0, message_id(received[-1]), False))
        held = sum(map(len, server_session.window.unconfirmed()))
        self.assertLess(held, 150 << 20)
