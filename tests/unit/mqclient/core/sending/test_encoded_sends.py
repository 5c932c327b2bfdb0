"""What links between brokers ask of the client core: greeting, the cluster channel, one topology, encoded sends."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.connection.connection import Connection
from mqclient.core.factories.locator import Locator
from mqclient.core.sending import encoded_sends
from mqclient.core.session.session import Session
from mqclient.errors import (
    AddressFullError,
    ClusterSecurityError,
    IllegalStateError,
    LargeMessageInterruptedError,
    MQError,
)
from mqclient.protocol.topology import Topology
from mqclient.wire.message import CoreMessage, decode_message, encode_headers, encode_message
from mqclient.wire.packets import (
    ClusterConnect,
    ClusterConnectReply,
    CreateProducer,
    ExceptionResponse,
    NodeAnnounce,
    NullResponse,
    PacketsConfirmed,
    ProducerCredits,
    ProducerFailCredits,
    ProducerRequestCredits,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
)
from tests.support.network import ScriptedBroker, World, connector

CHANNEL = 10


async def greet(connection: Connection) -> None:
    reply = await connection.cluster_channel.call(ClusterConnect("user", "password"), ClusterConnectReply)
    if not reply.authorized:
        raise ClusterSecurityError("refused")
    connection.cluster_channel.send(NodeAnnounce("me", None, False, 1, connector()))


def link_world(broker: ScriptedBroker, topology: Topology | None = None, **settings: Any) -> World:
    world = World(broker)
    broker.answers[ClusterConnect] = lambda packet: ClusterConnectReply(packet.cluster_password == "password")
    world.locator = Locator(
        world.runtime,
        [connector()],
        LocatorSettings(**{"ha": True, "confirmation_window_size": 100_000, **settings}),
        topology=topology,
        greet=greet,
        cluster_connection=True,
        follow=False,
    )
    return world


def encoded(text: str, size: int = 0) -> bytes:
    return encode_message(CoreMessage(1, "a", body=text.encode().ljust(size)))


class EncodedSendTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()
        self.told: list[tuple[str, type[MQError] | None]] = []
        self.rooms = 0

    def open(self, **settings: Any) -> Session:
        self.world = link_world(self.broker, **settings)
        session = self.world.session(self.world.factory())
        session.open_encoded_sends().on_room = self.room
        return session

    def room(self) -> None:
        self.rooms += 1

    def done(self, name: str) -> Any:
        return lambda error: self.told.append((name, None if error is None else type(error)))

    def send(self, session: Session, text: str, size: int = 0) -> bool:
        data = encoded(text, size)
        return session.send_encoded((data[:5], data[5:]), len(data), self.done(text), address="a")

    def settle(self) -> None:
        self.world.clock.advance(0)
        self.world.network.stir()

    def test_each_message_gets_its_answer_over_an_anonymous_producer(self) -> None:
        session = self.open()
        self.assertTrue(self.send(session, "one"))
        self.assertTrue(self.send(session, "two"))
        self.assertEqual(self.told, [])
        self.settle()
        self.assertEqual(self.told, [("one", None), ("two", None)])
        self.assertEqual(self.broker.got(CreateProducer), [CreateProducer(1, None)])
        sends = self.broker.got(SessionSend)
        self.assertEqual([(send.correlation_id, send.sender_id, send.requires_response) for send in sends], [(1, 1, True), (2, 1, True)])
        self.assertEqual([decode_message(send.message).body for send in sends], [b"one", b"two"])

    def test_messages_of_one_turn_leave_in_one_piece_before_a_later_packet(self) -> None:
        session = self.open()
        self.settle()
        self.send(session, "one")
        self.send(session, "two")
        session.create_producer("b")  # asks for credits
        self.assertEqual([data.count(b"one") + data.count(b"two") for data in self.world.network.link.to_broker], [2, 0, 0])
        self.settle()
        self.assertEqual(self.broker.names(CHANNEL)[1:4], ["SESS_SEND", "SESS_SEND", "SESS_PRODUCER_REQUEST_CREDITS"])

    def test_a_refusal_is_told_and_a_confirmation_of_it_is_no_success(self) -> None:
        self.broker.answers[SessionSend] = lambda packet: None
        session = self.open()
        self.send(session, "one")
        self.settle()
        self.broker.deliver(CHANNEL, PacketsConfirmed(10))
        self.assertEqual(self.told, [])
        self.broker.deliver(CHANNEL, ExceptionResponse(AddressFullError.code, "full", 1))
        self.assertEqual(self.told, [("one", AddressFullError)])

    def test_confirmations_answer_for_brokers_whose_answers_name_no_send(self) -> None:
        self.broker = ScriptedBroker(version=129)
        session = self.open()
        self.send(session, "one")
        self.send(session, "two")
        self.settle()
        self.assertEqual(self.told, [])
        self.broker.deliver(CHANNEL, PacketsConfirmed(0))
        self.assertEqual(self.told, [("one", None)])
        self.broker.deliver(CHANNEL, PacketsConfirmed(1))
        self.assertEqual(self.told, [("one", None), ("two", None)])

    def test_an_old_broker_without_confirmations_is_refused(self) -> None:
        self.broker = ScriptedBroker(version=129)
        self.world = link_world(self.broker, confirmation_window_size=-1)
        session = self.world.session(self.world.factory())
        self.assertRaises(IllegalStateError, session.open_encoded_sends)

    def test_what_was_sent_is_not_kept(self) -> None:
        self.broker.answers[SessionSend] = lambda packet: None
        session = self.open()
        self.send(session, "one", 50_000)
        self.settle()
        window = session.channel.protocol.window
        assert window is not None
        self.assertLess(window.cached_bytes, 100)

    def test_the_end_of_the_connection_ends_every_send(self) -> None:
        self.broker.answers[SessionSend] = lambda packet: None
        session = self.open()
        self.send(session, "one")
        self.settle()
        self.send(session, "two")
        self.world.network.link.cut()
        self.assertEqual([name for name, _ in self.told], ["one", "two"])
        self.assertTrue(all(error is not None for _, error in self.told))
        self.assertFalse(self.send(session, "three"))
        self.assertIsNotNone(self.told[2][1])

    def test_credits_start_with_a_window_of_ones_own_and_are_asked_for_by_halves(self) -> None:
        self.broker.credits = False
        session = self.open(producer_window_size=10_000)
        size = len(encoded("x", 1000))
        sent = 0
        while self.send(session, "x", 1000):
            sent += 1
        self.settle()
        self.assertEqual(sent, 10_000 // size)
        self.assertEqual(self.broker.got(ProducerRequestCredits), [ProducerRequestCredits(5000, "a")])
        self.assertEqual(self.rooms, 0)
        self.broker.deliver(CHANNEL, ProducerCredits(5000, "a"))
        self.assertEqual(self.rooms, 1)
        self.assertTrue(self.send(session, "x", 100))

    def test_credits_that_are_used_up_to_the_last_byte_are_asked_for(self) -> None:
        size = len(encoded("x", 1000))
        for more in (0, 1):
            self.setUp()
            session = self.open(producer_window_size=2 * size + more)
            self.assertTrue(self.send(session, "x", 1000))
            self.send(session, "x", 1000)
            self.settle()
            self.assertTrue(session.open_encoded_sends().room, more)

    def test_one_message_greater_than_the_window_passes_and_is_paid_for(self) -> None:
        session = self.open(producer_window_size=1000)
        self.assertFalse(self.send(session, "x", 3000))
        self.settle()
        self.assertEqual(self.rooms, 1)
        self.assertTrue(self.send(session, "y", 10))

    def test_the_credits_of_an_address_in_use_outlive_those_of_many_that_are_used_once(self) -> None:
        """As temporary queues are: each new one must not give the busy address a new window that the broker has not granted."""
        self.patch(encoded_sends, "ADDRESSES_MAX", 3)
        self.broker.credits = False
        session = self.open(producer_window_size=1000)
        for number in range(9):
            session.send_encoded([bytes(100)], 100, self.done("busy"), address="busy")
            session.send_encoded([bytes(10)], 10, self.done("once"), address=f"once {number}")
        credits = session.open_encoded_sends().credits()
        self.assertEqual((credits["busy"], len(credits)), (100, 3))

    def test_without_flow_control_nothing_is_asked_for(self) -> None:
        session = self.open(producer_window_size=-1)
        self.assertTrue(self.send(session, "x", 100_000))
        self.settle()
        self.assertEqual(self.broker.got(ProducerRequestCredits), [])

    def test_credits_that_are_refused_fail_the_link(self) -> None:
        session = self.open(producer_window_size=1000)
        self.broker.answers[ProducerRequestCredits] = lambda packet: ProducerFailCredits(packet.credits, packet.address)
        self.broker.answers[SessionSend] = lambda packet: None
        self.send(session, "x", 3000)
        self.settle()
        self.assertTrue(session.closed)
        self.assertEqual(len(self.told), 1)

    def test_a_peer_that_does_not_read_stops_the_sender(self) -> None:
        session = self.open()
        self.world.network.link.handler.link_paused()
        self.assertFalse(self.send(session, "x"))
        self.world.network.link.handler.link_resumed()
        self.assertEqual(self.rooms, 1)

    # --- large messages

    def large(self, session: Session, body: bytes, headers: bytes = b"") -> bool:
        headers = headers or encode_headers(CoreMessage(1, "a"))
        return session.send_large_encoded(headers, lambda at, size: body[at : at + size], len(body), self.done("large"), address="a")

    def test_a_large_message_goes_in_chunks_and_its_last_answer_counts(self) -> None:
        session = self.open(min_large_message_size=1000)
        body = bytes(range(250)) * 10
        self.assertTrue(self.large(session, body))
        self.assertEqual(self.told, [])
        self.settle()
        self.assertEqual(self.told, [("large", None)])
        self.assertEqual(len(self.broker.got(SessionSendLarge)), 1)
        chunks = self.broker.got(SessionSendContinuation)
        self.assertEqual(b"".join(chunk.chunk for chunk in chunks), body)
        self.assertEqual([chunk.continues for chunk in chunks], [True, True, False])
        self.assertEqual(chunks[-1].message_body_size, 2500)
        self.assertEqual([chunk.requires_response for chunk in chunks], [True] * 3)

    def test_the_size_of_a_body_that_was_large_already_is_left_to_its_properties(self) -> None:
        session = self.open()
        session.send_large_encoded(
            encode_headers(CoreMessage(1, "a")), lambda at, size: bytes(size), 10, self.done("large"), was_large=True
        )
        self.settle()
        self.assertEqual([chunk.message_body_size for chunk in self.broker.got(SessionSendContinuation)], [-1])

    def test_an_empty_body_is_one_chunk(self) -> None:
        session = self.open()
        self.large(session, b"")
        self.settle()
        self.assertEqual(self.told, [("large", None)])

    def test_the_body_is_read_as_the_peer_takes_it(self) -> None:
        self.broker.answers[SessionSendContinuation] = lambda packet: None
        session = self.open(min_large_message_size=100_000, producer_window_size=-1)
        self.assertFalse(self.large(session, bytes(5_000_000)))
        self.settle()
        sent = len(self.broker.got(SessionSendContinuation))
        self.assertEqual(sent, 11)
        with self.assertRaises(IllegalStateError):
            self.large(session, b"second")
        for correlation in range(1, 6):
            self.broker.deliver(CHANNEL, NullResponse(correlation))
        self.settle()
        self.assertEqual(len(self.broker.got(SessionSendContinuation)), sent + 5)
        self.assertEqual(self.rooms, 0)

    def test_large_messages_wait_for_credits(self) -> None:
        self.broker.credits = False
        session = self.open(min_large_message_size=1000, producer_window_size=2000)
        self.assertFalse(self.large(session, bytes(5000)))
        self.settle()
        self.assertEqual(len(self.broker.got(SessionSendContinuation)), 2)
        self.broker.credits = True
        self.broker.deliver(CHANNEL, ProducerCredits(1000, "a"))
        for _ in range(5):
            self.settle()
        self.assertEqual(self.told, [("large", None)])
        self.assertEqual(self.rooms, 1)

    def test_a_body_that_cannot_be_read_fails_the_message_and_the_connection(self) -> None:
        session = self.open(min_large_message_size=1000)
        headers = encode_headers(CoreMessage(1, "a"))

        def read(offset: int, size: int) -> bytes:
            if offset:
                raise OSError("damaged")
            return bytes(size)

        session.send_large_encoded(headers, read, 5000, self.done("large"), address="a")
        self.assertEqual(self.told, [("large", LargeMessageInterruptedError)])
        self.assertTrue(session.closed)

    def test_a_body_that_ends_too_early_cannot_be_read(self) -> None:
        session = self.open(min_large_message_size=1000)
        session.send_large_encoded(encode_headers(CoreMessage(1, "a")), lambda at, size: b"", 10, self.done("large"))
        self.assertEqual(self.told, [("large", LargeMessageInterruptedError)])

    def test_a_large_message_that_is_refused_on_its_way_is_told_once(self) -> None:
        self.broker.answers[SessionSendContinuation] = lambda packet: None
        session = self.open(min_large_message_size=100_000, producer_window_size=-1)
        self.large(session, bytes(5_000_000))
        self.settle()
        self.broker.deliver(CHANNEL, ExceptionResponse(AddressFullError.code, "full", 1))
        self.broker.deliver(CHANNEL, NullResponse(2))
        self.assertEqual(self.told, [("large", AddressFullError)])
        self.assertEqual(self.rooms, 1)

    def test_a_large_message_ends_with_its_connection(self) -> None:
        self.broker.answers[SessionSendContinuation] = lambda packet: None
        session = self.open(min_large_message_size=100_000, producer_window_size=-1)
        self.large(session, bytes(5_000_000))
        self.settle()
        self.world.network.link.cut()
        self.assertEqual([name for name, _ in self.told], ["large"])
        self.assertIsNotNone(self.told[0][1])

    def test_a_defect_of_one_owner_keeps_no_answer_from_others(self) -> None:
        session = self.open()
        data = encoded("bad")

        def bad(error: MQError | None) -> None:
            raise RuntimeError("defect")

        session.send_encoded((data,), len(data), bad, address="a")
        self.send(session, "good")
        self.settle()
        self.assertEqual(self.told, [("good", None)])
        self.assertEqual([type(failure) for failure in self.world.runtime.failures], [RuntimeError])
