"""Producers: addresses, credits, durable and non-durable sends."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import (
    AddressFullError,
    MQError,
    ObjectClosedError,
)
from mqclient.wire.message import KEY_GROUP_ID
from mqclient.wire.packets import (
    CreateProducer,
    ExceptionResponse,
    NullResponse,
    PacketsConfirmed,
    ProducerCredits,
    ProducerFailCredits,
    ProducerRequestCredits,
    QueueQuery,
    SessionSend,
)
from tests.support.network import ScriptedBroker, World, pending
from tests.unit.mqclient.core.connection.test_connection import CHANNEL


class Handler:
    """A send acknowledgement handler that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, type[MQError] | None]] = []

    def send_acknowledged(self, message: ClientMessage) -> None:
        self.told.append((message.get("n"), None))

    def send_failed(self, message: ClientMessage, error: MQError) -> None:
        self.told.append((message.get("n"), type(error)))


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

    def test_so_it_is_for_a_send_that_waited_behind_a_call(self) -> None:
        self.broker = ScriptedBroker(129)
        self.world = World(self.broker, confirmation_window_size=10_000)
        self.session = self.world.session()
        self.broker.silent |= {QueueQuery, SessionSend}
        handler = Handler()
        producer = self.world.finish(self.session.create_producer("a"))
        calls = [self.session.queue_query("q") for _ in range(2)]
        send = producer.send(self.message(0), acknowledgement_handler=handler)
        self.world.network.stir()
        self.assertEqual(self.broker.got(SessionSend), [])
        for call in calls:
            self.broker.deliver(CHANNEL, self.broker._info("q"))
            self.world.finish(call)
        self.world.finish(send)
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
