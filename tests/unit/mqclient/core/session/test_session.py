"""Sessions over a connection that holds: calls, sends, credits, acknowledgements, transactions, consumers."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import (
    AddressFullError,
    ConnectionTimedOutError,
    IllegalStateError,
    IncompatibleVersionsError,
    MQError,
    NotConnectedError,
    ObjectClosedError,
    QueueDoesNotExistError,
    SecurityError,
    UnblockedError,
)
from mqclient.wire.message import KEY_GROUP_ID
from mqclient.wire.packets import (
    Acknowledge,
    Commit,
    ConsumerClose,
    CreateConsumer,
    CreateProducer,
    CreateSession,
    CreateSessionV2,
    DisconnectConsumer,
    ExceptionResponse,
    Expired,
    FlowToken,
    ForceConsumerDelivery,
    IndividualAcknowledge,
    NullResponse,
    PacketsConfirmed,
    ProducerCredits,
    ProducerFailCredits,
    ProducerRequestCredits,
    QueueQuery,
    SessionSend,
    SubscribeTopologyV2,
)
from tests.unit.mqclient.core_support import WALL_CLOCK_MS, ScriptedBroker, World, message, pending

CHANNEL = 10


class Handler:
    """A send acknowledgement handler that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, type[MQError] | None]] = []

    def send_acknowledged(self, message: ClientMessage) -> None:
        self.told.append((message.get("n"), None))

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        self.told.append((message.get("n"), type(error)))


class ConnectTests(SynchronousTestCase):
    def test_handshake(self) -> None:
        broker = ScriptedBroker()
        world = World(broker, client_id="me")
        session = world.session()
        self.assertEqual(broker.names(), ["SUBSCRIBE_TOPOLOGY_V2", "CREATESESSION_V2"])
        [request] = broker.got(CreateSessionV2)
        self.assertEqual(
            (request.session_channel_id, request.version, request.username, request.window_size, request.client_id),
            (CHANNEL, 136, "user", -1, "me"),
        )
        self.assertEqual((session.version, session.factory.server_version), (136, 136))

    def test_version_goes_down_until_the_broker_agrees_with_a_new_channel_each_time(self) -> None:
        broker = ScriptedBroker(version=131)
        broker.topology[0].server_version = 136
        refused = ExceptionResponse(108, "no")
        broker.answers[CreateSessionV2] = lambda packet: refused if packet.version > 131 else None
        world = World(broker)
        call = world.locator.create_session_factory()
        factory = world.finish(call)
        session_call = factory.create_session("user", "password")
        world.network.stir()
        requests = broker.got(CreateSessionV2)
        self.assertEqual([(r.version, r.session_channel_id) for r in requests], [(136 - n, CHANNEL + n) for n in range(6)])
        session_call.addErrback(lambda _: None)
        world.finish(factory.close())

    def test_no_version_suits(self) -> None:
        broker = ScriptedBroker(version=128)
        broker.topology[0].server_version = 130
        broker.answers[CreateSession] = lambda packet: ExceptionResponse(108, "no")
        world = World(broker)
        factory = world.factory()
        error = self.assertRaises(IncompatibleVersionsError, world.session, factory)
        self.assertIn("129 to 136", str(error))
        self.assertFalse(factory.closed)

    def test_old_broker_gets_the_old_packet_and_layout(self) -> None:
        broker = ScriptedBroker(version=130)
        world = World(broker)
        session = world.session()
        self.assertEqual([type(packet) for packet in broker.got(CreateSession)], [CreateSession])
        producer = world.finish(session.create_producer("a"))
        world.finish(producer.send(session.create_message()))
        self.assertEqual(broker.got(CreateProducer), [])
        self.assertEqual([(p.requires_response, p.correlation_id, p.sender_id) for p in broker.got(SessionSend)], [(True, -2, -1)])

    def test_wrong_password_leaves_the_connection_usable(self) -> None:
        broker = ScriptedBroker()
        broker.answers[CreateSessionV2] = lambda packet: ExceptionResponse(105, "AMQ229031: no")
        world = World(broker)
        factory = world.factory()
        self.assertRaises(SecurityError, world.session, factory)
        broker.answers.clear()
        self.assertFalse(world.session(factory).closed)

    def test_broker_without_topology(self) -> None:
        broker = ScriptedBroker()
        broker.silent.add(SubscribeTopologyV2)
        world = World(broker, call_timeout=2000)
        call = world.locator.create_session_factory()
        world.advance(1.9)
        self.assertTrue(pending(call))
        world.advance(0.2)
        self.assertIn("AMQ219013", str(self.assertRaises(ConnectionTimedOutError, world.finish, call)))
        self.assertTrue(world.network.link.closed_by_client)

    def test_all_connectors_are_tried_in_each_round(self) -> None:
        world = World(ScriptedBroker(), ScriptedBroker(), initial_connect_attempts=3, retry_interval=100, retry_interval_multiplier=2.0)
        world.network.brokers.clear()
        call = world.locator.create_session_factory()
        self.assertEqual(world.network.tried, ["61616", "61617"])
        world.advance(0.11)
        self.assertEqual(len(world.network.tried), 4)
        world.advance(0.15)
        self.assertEqual(len(world.network.tried), 4)
        world.advance(0.1)
        self.assertEqual(len(world.network.tried), 6)
        self.assertRaises(NotConnectedError, world.finish, call)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_second_connector_serves_when_the_first_does_not(self) -> None:
        broker = ScriptedBroker()
        world = World(broker, broker)
        del world.network.brokers["61616"]
        factory = world.factory()
        self.assertEqual(dict(factory.connector.parameters)["port"], "61617")

    def test_closing_while_connecting(self) -> None:
        world = World(ScriptedBroker(), initial_connect_attempts=-1)
        world.network.brokers.clear()
        call = world.locator.create_session_factory()
        world.advance(10)
        self.assertTrue(pending(call))
        world.finish(world.locator.close())
        self.assertRaises(ObjectClosedError, world.finish, call)
        self.assertEqual(world.clock.getDelayedCalls(), [])

    def test_bad_settings_are_refused(self) -> None:
        for setting in ({"call_timeout": 0}, {"retry_interval_multiplier": 0.0}, {"compression_level": 10}):
            [name] = setting
            self.assertIn(name, str(self.assertRaises(ValueError, World, ScriptedBroker(), **setting)))


class CallTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, call_timeout=1000)
        self.session = self.world.session()

    def test_one_call_at_a_time_and_packets_keep_their_order(self) -> None:
        self.broker.silent.add(QueueQuery)
        calls = [self.session.queue_query("one"), self.session.queue_query("two"), self.session.start()]
        self.world.network.stir()
        self.assertEqual([packet.queue_name for packet in self.broker.got(QueueQuery)], ["one"])
        self.broker.silent.clear()
        self.broker.deliver(CHANNEL, self.broker._info("one"))
        self.assertEqual([packet.queue_name for packet in self.broker.got(QueueQuery)], ["one", "two"])
        self.assertEqual([self.world.finish(call).name for call in calls[:2]], ["one", "two"])
        self.assertEqual(self.broker.names(CHANNEL), ["SESS_QUEUEQUERY", "SESS_QUEUEQUERY", "SESS_START"])

    def test_exception_fails_the_call(self) -> None:
        self.broker.answers[CreateConsumer] = lambda packet: ExceptionResponse(100, "AMQ229017: no queue")
        error = self.assertRaises(QueueDoesNotExistError, self.world.finish, self.session.create_consumer("none"))
        self.assertIn("AMQ229017", str(error))
        self.assertEqual(list(self.session.consumers), [])

    def test_call_without_answer_fails_the_connection(self) -> None:
        self.broker.silent.add(QueueQuery)
        call, waiting = self.session.queue_query("q"), self.session.queue_query("q")
        self.world.advance(1.05)
        self.assertIn("SESS_QUEUEQUERY", str(self.assertRaises(ConnectionTimedOutError, self.world.finish, call)))
        self.assertRaises(ConnectionTimedOutError, self.world.finish, waiting)
        self.assertTrue(self.session.closed)
        self.assertRaises(ObjectClosedError, self.world.finish, self.session.queue_query("q"))

    def test_cancelled_call_keeps_its_answer_from_the_next(self) -> None:
        self.broker.silent.add(QueueQuery)
        first: Any = self.session.queue_query("one")
        self.world.network.stir()
        first.cancel()
        self.assertRaises(CancelledError, self.world.finish, first)
        second = self.session.queue_query("two")
        self.world.network.stir()
        self.broker.deliver(CHANNEL, self.broker._info("one"))
        self.assertTrue(pending(second))
        self.broker.deliver(CHANNEL, self.broker._info("two"))
        self.assertEqual(self.world.finish(second).name, "two")

    def test_answer_of_an_asynchronous_request_does_not_answer_a_call(self) -> None:
        """The Java client takes any EXCEPTION, and the answer to a commit it did not wait for, as the answer to the call in progress."""
        self.broker.silent |= {QueueQuery, Commit}
        self.world.finish(self.session.commit(block=False))
        call = self.session.queue_query("q")
        self.world.network.stir()
        self.broker.deliver(CHANNEL, NullResponse(1))
        self.broker.deliver(CHANNEL, ExceptionResponse(111, "rolled back", 1))
        self.assertTrue(pending(call))
        self.assertIn("111", self.world.runtime.warnings[0])
        self.broker.deliver(CHANNEL, self.broker._info("q"))
        self.world.finish(call)

    def test_damaged_packet_ends_the_connection(self) -> None:
        link = self.world.network.link
        link.to_client.append(bytes.fromhex("0000000a" + "4b" + "000000000000000a" + "00"))
        self.world.network.stir()
        self.assertTrue(self.session.closed)
        self.assertTrue(link.closed_by_client)

    def test_close_is_orderly_and_calls_fail_after_it(self) -> None:
        self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.create_producer("q"))
        self.world.finish(self.session.close())
        self.world.finish(self.session.close())
        self.assertEqual(self.broker.names(CHANNEL)[-3:], ["SESS_CONSUMER_CLOSE", "REMOVE_PRODUCER", "SESS_CLOSE"])
        self.assertRaises(ObjectClosedError, self.world.finish, self.session.commit())
        self.world.finish(self.session.factory.close())
        self.assertFalse(self.world.network.link.open)
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_silent_broker_is_noticed(self) -> None:
        world = World(self.broker, connection_ttl=3000, client_failure_check_period=1000)
        session = world.session()
        world.advance(10)
        self.assertFalse(session.closed)
        world.network.stir = lambda: None  # type: ignore[method-assign]  # packets are dropped, nothing is closed
        receive = session.queue_query("q")
        world.advance(4.1)
        self.assertTrue(session.closed)
        self.assertRaises(UnblockedError, world.finish, receive)


class SendTests(SynchronousTestCase):
    def start(self, **settings: object) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **settings)
        self.session = self.world.session()

    def message(self, number: int, size: int = 0, durable: bool = True) -> ClientMessage:
        message = self.session.create_message(4, durable=durable)
        message.body = b"x" * size
        message.put("n", number)
        return message

    def test_which_sends_wait(self) -> None:
        self.start()
        self.broker.silent.add(SessionSend)
        producer = self.world.finish(self.session.create_producer("a"))
        self.world.finish(producer.send(self.message(1, durable=False)))
        durable = producer.send(self.message(2))
        self.world.network.stir()
        self.assertTrue(pending(durable))
        self.broker.deliver(CHANNEL, NullResponse(-2))
        self.world.finish(durable)
        self.assertEqual([(p.requires_response, p.correlation_id) for p in self.broker.got(SessionSend)], [(False, 0), (True, -2)])

    def test_handler_without_window_is_told_at_once(self) -> None:
        self.start()
        handler = Handler()
        self.session.set_send_acknowledgement_handler(handler)
        producer = self.world.finish(self.session.create_producer("a"))
        self.world.finish(producer.send(self.message(7)))
        self.assertEqual(handler.told, [(7, None)])
        self.assertFalse(self.broker.got(SessionSend)[0].requires_response)

    def test_handler_that_fails_is_no_failure_of_the_send(self) -> None:
        """Whoever sent would send again what has gone."""
        self.start(min_large_message_size=200)
        producer = self.world.finish(self.session.create_producer("a"))
        handler = mock.Mock(send_acknowledged=mock.Mock(side_effect=RuntimeError("the application's")))
        for body in (b"", bytes(500)):
            self.world.finish(producer.send(ClientMessage(body=body), acknowledgement_handler=handler))
        self.assertEqual(handler.send_acknowledged.call_count, 2)
        self.assertEqual([type(failure) for failure in self.world.runtime.failures], [RuntimeError] * 2)

    def test_handler_with_window_is_told_once_by_the_answer(self) -> None:
        """A confirmation says that the packet was processed, also when the message was refused: it proves nothing."""
        self.start(confirmation_window_size=10_000)
        self.broker.silent.add(SessionSend)
        handler = Handler()
        producer = self.world.finish(self.session.create_producer("a"))
        for number in range(4):
            self.world.finish(producer.send(self.message(number), acknowledgement_handler=handler))
        self.assertEqual([(p.requires_response, p.correlation_id) for p in self.broker.got(SessionSend)], [(True, n) for n in (1, 2, 3, 4)])
        self.assertEqual(handler.told, [])
        # Commands before the sends: the request for credits and the producer.
        sent_before = len(self.broker.names(CHANNEL)) - 4
        self.broker.deliver(CHANNEL, PacketsConfirmed(sent_before + 2))
        self.assertEqual(handler.told, [])
        self.broker.deliver(CHANNEL, ExceptionResponse(210, "full", 2))
        self.broker.deliver(CHANNEL, NullResponse(1))
        self.assertEqual(handler.told, [(1, AddressFullError), (0, None)])
        self.world.finish(self.session.close())
        self.assertEqual(handler.told[2:], [(2, ObjectClosedError), (3, ObjectClosedError)])

    def test_handler_is_told_by_a_confirmation_where_answers_name_no_message(self) -> None:
        self.broker = ScriptedBroker(128)
        self.world = World(self.broker, confirmation_window_size=10_000)
        self.session = self.world.session()
        self.broker.silent.add(SessionSend)
        handler = Handler()
        producer = self.world.finish(self.session.create_producer("a"))
        self.world.finish(producer.send(self.message(0), acknowledgement_handler=handler))
        self.broker.deliver(CHANNEL, PacketsConfirmed(len(self.broker.names(CHANNEL)) - 1))
        self.assertEqual(handler.told, [(0, None)])

    def test_received_packets_are_confirmed(self) -> None:
        self.start(confirmation_window_size=0)
        self.world.finish(self.session.queue_query("q"))
        self.world.finish(self.session.queue_query("q"))
        self.assertEqual([packet.command_id for packet in self.broker.got(PacketsConfirmed)], [0, 1])

    def test_confirmations_wait_for_the_window_or_the_ping(self) -> None:
        self.start(confirmation_window_size=100_000)
        self.world.finish(self.session.queue_query("q"))
        self.assertEqual(self.broker.got(PacketsConfirmed), [])
        self.world.advance(31, step=1)
        self.assertEqual([packet.command_id for packet in self.broker.got(PacketsConfirmed)], [0])

    def test_credits(self) -> None:
        self.start(producer_window_size=1000)
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.credits = False
        self.world.finish(producer.send(self.message(1, 100, durable=False)))
        self.assertEqual([packet.credits for packet in self.broker.got(ProducerRequestCredits)], [500])
        big = producer.send(self.message(2, 3000, durable=False))
        behind = producer.send(self.message(3, durable=False))
        self.world.network.stir()
        self.assertTrue(pending(big))
        asked = sum(packet.credits for packet in self.broker.got(ProducerRequestCredits)[1:])
        self.broker.deliver(CHANNEL, ProducerCredits(asked, "a"))
        self.world.finish(big)
        self.broker.deliver(CHANNEL, ProducerCredits(asked, "a"))
        self.world.finish(behind)
        self.assertEqual(len(self.broker.got(SessionSend)), 3)

    def test_no_window_no_credits(self) -> None:
        self.start(producer_window_size=-1)
        producer = self.world.finish(self.session.create_producer("a"))
        self.world.finish(producer.send(self.message(1, 100_000)))
        self.world.finish(producer.close())
        self.assertEqual(self.broker.got(ProducerRequestCredits), [])

    def test_full_address_with_policy_fail(self) -> None:
        self.start(producer_window_size=1000)
        self.broker.credits = False
        producer = self.world.finish(self.session.create_producer("a"))
        send = producer.send(self.message(1, durable=False))
        self.world.network.stir()
        self.broker.deliver(CHANNEL, ProducerFailCredits(500, "a"))
        self.assertRaises(AddressFullError, self.world.finish, send)
        self.broker.credits = True
        self.world.finish(producer.send(self.message(2, durable=False)))
        self.assertEqual(len(self.broker.got(SessionSend)), 1)

    def test_blocked_send_ends_with_its_producer_or_session_after_the_call_timeout(self) -> None:
        self.start(call_timeout=2000)
        self.broker.credits = False
        producer = self.world.finish(self.session.create_producer("a"))
        other = self.world.finish(self.session.create_producer())
        sends = [producer.send(self.message(1)), other.send(self.message(2), "b")]
        self.world.network.stir()
        for close, send in ((producer.close, sends[0]), (self.session.close, sends[1])):
            closing: Any = close()
            self.world.advance(1.9)
            self.assertTrue(pending(closing) and pending(send))
            self.world.advance(0.2)
            self.world.finish(closing)
            self.assertRaises(ObjectClosedError, self.world.finish, send)
        self.assertEqual(len([text for text in self.world.runtime.warnings if "1 messages cannot be sent" in text]), 2)

    def test_addresses(self) -> None:
        self.start()
        anonymous = self.world.finish(self.session.create_producer())
        bound = self.world.finish(self.session.create_producer("a"))
        self.assertRaises(ValueError, anonymous.send, self.message(1))
        self.assertRaises(ValueError, bound.send, self.message(1), "b")
        self.world.finish(anonymous.send(self.message(1), "b"))
        self.assertEqual([(p.producer_id, p.address) for p in self.broker.got(CreateProducer)], [(1, None), (2, "a")])

    def test_groups_and_rate(self) -> None:
        self.start(group_id="g", producer_max_rate=2)
        producer = self.world.finish(self.session.create_producer("a"))
        first = self.message(0, durable=False)
        sends = [producer.send(first), *(producer.send(self.message(n, durable=False)) for n in (1, 2))]
        self.world.network.stir()
        self.assertEqual(len(self.broker.got(SessionSend)), 2)
        self.world.advance(1.05)
        self.assertEqual(len(self.broker.got(SessionSend)), 3)
        self.assertEqual(first.get(KEY_GROUP_ID), "g")
        self.assertTrue(all(send.called for send in sends))

    def test_back_pressure(self) -> None:
        self.start()
        producer = self.world.finish(self.session.create_producer("a"))
        self.world.network.link.handler.link_paused()
        send = producer.send(self.message(1))
        self.world.network.stir()
        self.assertTrue(pending(send))
        self.world.network.link.handler.link_resumed()
        self.world.finish(send)


class ConsumerTests(SynchronousTestCase):
    def start(self, session: dict[str, Any] | None = None, consumer: dict[str, Any] | None = None, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **settings)
        self.session = self.world.session(**(session or {}))
        self.consumer = self.world.finish(self.session.create_consumer("q", **(consumer or {})))
        self.world.finish(self.session.start())

    def credits(self) -> list[int]:
        return [packet.credits for packet in self.broker.got(FlowToken)]

    def acknowledged(self) -> list[tuple[str, int]]:
        return [(packet.NAME, packet.message_id) for packet in self.broker.got(Acknowledge, IndividualAcknowledge)]

    def take(self) -> ClientMessage:
        found: ClientMessage | None = self.world.finish(self.consumer.receive(0))
        assert found is not None
        return found

    def test_receive_waits_and_returns_none_after_asking_the_broker(self) -> None:
        self.start()
        call = self.consumer.receive(500)
        self.world.advance(0.45)
        self.assertTrue(pending(call))
        self.assertEqual(self.broker.got(ForceConsumerDelivery), [])
        self.world.advance(0.1)
        self.assertIsNone(self.world.finish(call))
        self.assertEqual(len(self.broker.got(ForceConsumerDelivery)), 1)

    def test_marker_that_never_comes_fails_the_connection(self) -> None:
        self.start(call_timeout=1000)
        self.broker.silent.add(ForceConsumerDelivery)
        call = self.consumer.receive_immediate()
        self.world.advance(1.05)
        self.assertRaises(ConnectionTimedOutError, self.world.finish, call)
        self.assertTrue(self.session.closed)

    def test_endless_receive_ends_when_closed_or_cancelled(self) -> None:
        self.start()
        cancelled, closed = self.consumer.receive(), self.consumer.receive()
        self.world.advance(100, step=5)
        cancelled.cancel()
        self.assertRaises(CancelledError, self.world.finish, cancelled)
        self.broker.deliver(CHANNEL, message(1))
        self.assertEqual(self.world.finish(closed).message_id, 1)
        last = self.consumer.receive()
        self.world.finish(self.session.close())
        self.assertIsNone(self.world.finish(last))
        self.assertRaises(ObjectClosedError, self.world.finish, self.consumer.receive())

    def test_priorities(self) -> None:
        self.start()
        for number, priority in enumerate((4, 9, 0, 9, 4)):
            self.broker.deliver(CHANNEL, message(number, priority=priority))
        self.assertEqual([self.take().message_id for _ in range(5)], [1, 3, 0, 4, 2])

    def test_credits_return_at_half_the_window(self) -> None:
        self.start(consumer={"window_size": 1000})
        self.assertEqual(self.credits(), [1000])
        self.broker.deliver(CHANNEL, message(1, body=b"x" * 300))
        self.broker.deliver(CHANNEL, message(2, body=b"x" * 300))
        self.assertEqual(self.credits(), [1000])
        first, second = self.take(), self.take()
        self.assertEqual(self.credits(), [1000, first.frame_size + second.frame_size])

    def test_window_kinds(self) -> None:
        for window, expected in ((-1, [-1]), (1, [1]), (1024 * 1024, [7777])):
            self.start(consumer={"window_size": window})
            if window == 1024 * 1024:
                self.broker.queue_info["default_consumer_window_size"] = 7777
                self.world.finish(self.consumer.close())
                self.world.finish(self.session.create_consumer("q"))
                self.assertEqual(self.credits()[1:], expected)
            else:
                self.assertEqual(self.credits(), expected)
        self.start(consumer={"window_size": 1})
        self.broker.deliver(CHANNEL, message(1))
        size = self.take().frame_size
        self.assertEqual(self.credits(), [1, size])

    def test_window_zero_asks_for_each_message(self) -> None:
        self.start(consumer_window_size=0)
        self.assertEqual(self.credits(), [])
        call = self.consumer.receive(1000)
        self.world.network.stir()
        self.assertEqual(self.credits(), [1])
        self.broker.deliver(CHANNEL, message(1))
        received = self.world.finish(call)
        self.assertEqual(self.credits(), [1, received.frame_size - 1])
        self.assertIsNone(self.world.finish(self.consumer.receive_immediate()))
        self.assertEqual(self.credits()[2:], [1, 0])

    def test_acknowledgements_are_batched(self) -> None:
        self.start(ack_batch_size=200)
        for number in range(5):
            self.broker.deliver(CHANNEL, message(number, body=b"x" * 40))
        for _ in range(4):
            self.world.finish(self.take().acknowledge())
        self.assertEqual(self.acknowledged(), [("SESS_ACKNOWLEDGE", 2)])
        self.world.finish(self.session.flush_acknowledgements())
        self.assertEqual(self.acknowledged()[1:], [("SESS_ACKNOWLEDGE", 3)])
        self.world.finish(self.consumer.close())
        self.assertEqual(len(self.acknowledged()), 2)

    def test_mixed_priorities_are_acknowledged_one_by_one(self) -> None:
        self.start(ack_batch_size=10_000)
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.take().acknowledge())
        for number, priority in ((2, 4), (3, 8)):
            self.broker.deliver(CHANNEL, message(number, priority=priority))
        self.assertEqual(self.acknowledged(), [("SESS_ACKNOWLEDGE", 1)])
        first, second = self.take(), self.take()
        self.assertEqual((first.message_id, second.message_id), (3, 2))
        self.world.finish(second.acknowledge())
        self.assertEqual(self.acknowledged()[1:], [("SESS_INDIVIDUAL_ACKNOWLEDGE", 3), ("SESS_INDIVIDUAL_ACKNOWLEDGE", 2)])

    def test_acknowledging_twice_or_in_a_browser_sends_nothing(self) -> None:
        self.start(ack_batch_size=0)
        self.broker.deliver(CHANNEL, message(1))
        received = self.take()
        self.world.finish(received.individual_acknowledge())
        self.world.finish(received.acknowledge())
        self.assertEqual(len(self.acknowledged()), 1)
        self.start(ack_batch_size=0, consumer={"browse_only": True})
        self.broker.deliver(CHANNEL, message(1, delivery_count=0))
        self.world.finish(self.take().acknowledge())
        self.assertEqual(self.acknowledged(), [])
        self.start(ack_batch_size=0, pre_acknowledge=True)
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.take().acknowledge())
        self.assertEqual(self.acknowledged(), [])

    def test_blocking_acknowledgement(self) -> None:
        self.start(ack_batch_size=0, block_on_acknowledge=True)
        self.broker.answers[Acknowledge] = lambda packet: ExceptionResponse(104, "unknown message")
        self.broker.deliver(CHANNEL, message(1))
        self.assertRaises(IllegalStateError, self.world.finish, self.take().acknowledge())

    def test_expired_message(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, message(1, expiration=WALL_CLOCK_MS - 1))
        self.broker.deliver(CHANNEL, message(2, expiration=WALL_CLOCK_MS + 60_000))
        self.assertEqual(self.take().message_id, 2)
        self.assertEqual([packet.message_id for packet in self.broker.got(Expired)], [1])

    def test_handler(self) -> None:
        self.start()
        seen: list[int] = []

        def handle(received: ClientMessage) -> None:
            seen.append(received.message_id)
            if received.message_id == 1:
                raise RuntimeError("the application's")

        self.consumer.set_message_handler(handle)
        for number in (1, 2):
            self.broker.deliver(CHANNEL, message(number))
        self.assertEqual(seen, [1, 2])
        self.assertEqual([str(error) for error in self.world.runtime.failures], ["the application's"])
        self.assertRaises(IllegalStateError, self.world.finish, self.consumer.receive())
        self.consumer.set_message_handler(None)
        self.broker.deliver(CHANNEL, message(3))
        self.assertEqual(self.take().message_id, 3)

    def test_slow_handler_is_waited_for_when_closing(self) -> None:
        self.start(on_message_close_timeout=1000)
        turn = self.world.runtime.create_future()
        self.consumer.set_message_handler(lambda received: turn)
        self.broker.deliver(CHANNEL, message(1))
        close = self.consumer.close()
        self.world.advance(0.5)
        self.assertEqual(self.broker.got(ConsumerClose), [])
        self.world.advance(0.6)
        self.world.finish(close)
        self.assertEqual(len(self.broker.got(ConsumerClose)), 1)
        self.assertIn("onMessageCloseTimeout", self.world.runtime.warnings[0])

    def test_handler_may_close_its_session(self) -> None:
        self.start()
        closes = []
        self.consumer.set_message_handler(lambda received: closes.append(self.session.close()))
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(closes[0])

    def test_handler_with_window_zero(self) -> None:
        self.start(consumer_window_size=0)
        turn = self.world.runtime.create_future()
        self.consumer.set_message_handler(lambda received: turn)
        self.world.network.stir()
        delivery = message(1)
        self.broker.deliver(CHANNEL, delivery)
        self.assertEqual(len(self.credits()), 2)
        self.world.runtime.resolve(turn, None)
        self.world.network.stir()
        size = 13 + len(delivery.message) + 12
        self.assertEqual(self.credits(), [1, size - 1, 1])

    def test_stopped_session_gives_nothing(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, message(1))
        self.world.finish(self.session.stop())
        call = self.consumer.receive(100)
        self.world.advance(0.2)
        self.assertIsNone(self.world.finish(call))
        self.assertEqual(self.broker.got(ForceConsumerDelivery), [])
        waiting = self.consumer.receive()
        self.world.finish(self.session.start())
        self.assertEqual(self.world.finish(waiting).message_id, 1)

    def test_rate(self) -> None:
        self.start(consumer_max_rate=1)
        for number in (1, 2):
            self.broker.deliver(CHANNEL, message(number))
        self.take()
        call = self.consumer.receive(5000)
        self.world.advance(0.9)
        self.assertTrue(pending(call))
        self.world.advance(0.2)
        self.assertEqual(self.world.finish(call).message_id, 2)

    def test_destroyed_queue_closes_the_consumer(self) -> None:
        self.start()
        call = self.consumer.receive()
        self.broker.deliver(CHANNEL, DisconnectConsumer(0))
        self.assertIn("queue was deleted", str(self.assertRaises(ObjectClosedError, self.world.finish, call)))
        self.assertRaises(ObjectClosedError, self.world.finish, self.consumer.receive())
        self.assertTrue(self.consumer.closed)
        self.assertEqual(len(self.broker.got(ConsumerClose)), 1)

    def test_consumer_of_a_cancelled_call_is_closed_again(self) -> None:
        self.start()
        self.broker.silent.add(CreateConsumer)
        create: Any = self.session.create_consumer("q")
        self.world.network.stir()
        create.cancel()
        self.assertRaises(CancelledError, self.world.finish, create)
        self.broker.deliver(CHANNEL, self.broker._info("q"))
        self.assertEqual([packet.consumer_id for packet in self.broker.got(ConsumerClose)], [1])

    def test_packets_for_unknown_consumers_are_passed_over(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, message(1, consumer_id=99))
        self.assertFalse(self.session.closed)
