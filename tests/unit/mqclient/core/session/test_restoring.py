"""Sessions that go on after a lost connection, reattached or made again."""

from __future__ import annotations

from typing import Any

from mqclient.errors import (
    MQError,
    UnblockedError,
)
from mqclient.wire.frames import SESSION_CHANNEL
from mqclient.wire.packets import (
    Acknowledge,
    CreateSession,
    CreateSessionResponse,
    PacketsConfirmed,
    Ping,
    ReattachSession,
    ReattachSessionResponse,
    SessionSend,
    SessionStart,
)
from tests.support.network import message
from tests.unit.mqclient.core.connection.test_reconnect import CHANNEL, FailoverTestCase

CHECK_MS = 2000
"""Between two pings; shorter than the time of a call."""


class ReattachTests(FailoverTestCase):
    def start(self, **settings: Any) -> None:
        super().start(confirmation_window_size=100_000, client_failure_check_period=CHECK_MS, **settings)
        self.broker.reattaches = ReattachSessionResponse(-1, True)

    def test_unconfirmed_packets_are_sent_again_and_the_call_completes(self) -> None:
        self.start()
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.silent.add(SessionSend)
        send = producer.send(self.session.create_message())
        self.world.network.stir()
        before = [packet for number, packet in self.broker.received_packets if number == CHANNEL]
        self.broker.silent.clear()
        self.broker.reattaches = ReattachSessionResponse(0, True)
        self.cut()
        self.world.finish(send)
        after = [packet for number, packet in self.broker.received_packets if number == CHANNEL]
        self.assertEqual(after, before[1:])

    def test_what_is_sent_again_before_the_answer_may_be_long(self) -> None:
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())

        def reattach(packet: ReattachSession) -> ReattachSessionResponse:
            self.broker.send(self.world.network.link, self.session.channel_id, message(7, body=bytes(80_000)))
            return ReattachSessionResponse(-1, True)

        self.broker.answers[ReattachSession] = reattach
        self.cut()
        received = self.world.finish(consumer.receive_immediate())
        self.assertEqual(len(received.body), 80_000)

    def test_session_whose_creation_was_not_answered_is_not_reattached_to(self) -> None:
        """The broker may have made it, and it knows neither consumers nor that it was started."""
        self.start()
        self.world.finish(self.session.start())
        self.broker.reattaches = ReattachSessionResponse(-1, False)
        name = self.session.name
        self.broker.silent.add(CreateSession)
        self.cut()
        self.broker.silent.clear()
        self.assertEqual(len(self.broker.got(CreateSession)), 1)
        self.cut()
        self.world.advance(1.1)
        self.assertEqual([packet.name for packet in self.broker.got(ReattachSession)][-1], name)
        self.assertEqual(len(self.broker.got(SessionStart)), 1)

    def test_packets_of_a_lost_session_are_not_confirmed_in_the_new_one(self) -> None:
        """Its broker would take them for as many packets of its own, and send these again when the session is reattached later."""
        self.start()
        self.world.finish(self.session.queue_query("q"))
        self.broker.reattaches = ReattachSessionResponse(-1, False)
        self.broker.silent.add(CreateSession)
        self.cut()
        self.world.advance(1.1 * CHECK_MS / 1000)
        self.assertTrue(self.broker.got(Ping))
        self.assertEqual(self.broker.got(PacketsConfirmed), [])
        self.broker.deliver(SESSION_CHANNEL, CreateSessionResponse(self.broker.version))
        self.world.finish(self.session.queue_query("q"))
        self.world.advance(1.1 * CHECK_MS / 1000)
        self.assertEqual([packet.command_id for packet in self.broker.got(PacketsConfirmed)], [0])

    def test_packets_of_the_broker_that_were_seen_are_told(self) -> None:
        self.start()
        self.world.finish(self.session.queue_query("q"))
        self.cut()
        self.assertEqual([packet.last_confirmed_command_id for packet in self.broker.got(ReattachSession)], [0])
        self.assertEqual(self.broker.got(CreateSession), [])

    def test_consumer_keeps_what_it_has(self) -> None:
        self.start(ack_batch_size=0)
        consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())
        self.broker.deliver(CHANNEL, message(1))
        self.away()
        received = self.world.finish(consumer.receive())
        self.world.finish(received.acknowledge())
        self.back()
        self.assertEqual([packet.message_id for packet in self.broker.got(Acknowledge)], [1])

    def test_handlers_of_sends_are_told_of_a_lost_session(self) -> None:
        self.start()
        told: list[Any] = []

        class Handler:
            def send_acknowledged(self, message: Any) -> None:
                told.append("yes")

            def send_failed(self, message: Any, error: MQError) -> None:
                told.append(type(error))

        self.broker.silent.add(SessionSend)
        producer = self.world.finish(self.session.create_producer("a"))
        self.world.finish(producer.send(self.session.create_message(), acknowledgement_handler=Handler()))
        self.broker.reattaches = None
        self.cut()
        self.assertEqual(told, [UnblockedError])
