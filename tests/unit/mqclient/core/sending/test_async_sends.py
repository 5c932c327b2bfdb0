"""Sends that nobody waits for leave nothing behind."""

from __future__ import annotations

from mqclient.core.sending import async_sends
from mqclient.errors import (
    NotConnectedError,
    ObjectClosedError,
)
from mqclient.wire.packets import (
    NullResponse,
    QueueQuery,
    SessionSend,
)
from tests.support.network import pending
from tests.unit.mqclient.core.connection.test_reconnect import CHANNEL, FailoverTestCase


class MemoryTests(FailoverTestCase):
    def test_senders_wait_when_too_much_is_unanswered(self) -> None:
        self.patch(async_sends, "UNANSWERED_MAX", 1000)
        self.start(confirmation_window_size=1_000_000, block_on_durable_send=False, producer_window_size=-1)
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.silent.add(SessionSend)
        sends = [producer.send(self.session.create_message()) for _ in range(100)]
        self.world.network.stir()
        sent = self.broker.got(SessionSend)
        self.assertTrue(0 < len(sent) < 50)
        self.assertTrue(pending(sends[-1]))
        self.broker.silent.clear()
        for packet in sent:
            self.broker.deliver(CHANNEL, NullResponse(packet.correlation_id))
        self.world.network.stir()
        for send in sends:
            self.world.finish(send)
        self.assertEqual(len(self.broker.got(SessionSend)), 100)

    def test_they_fail_when_the_session_ends(self) -> None:
        self.patch(async_sends, "UNANSWERED_MAX", 10)
        self.start(confirmation_window_size=1_000_000, block_on_durable_send=False, reconnect_attempts=0)
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.silent.add(SessionSend)
        self.world.finish(producer.send(self.session.create_message()))
        waiting = producer.send(self.session.create_message())
        self.cut()
        self.assertRaises((ObjectClosedError, NotConnectedError), self.world.finish, waiting)

    def test_senders_wait_behind_a_call_with_a_long_queue(self) -> None:
        self.start(block_on_durable_send=False, producer_window_size=-1)
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.silent.add(QueueQuery)
        first, second = self.session.queue_query("q"), self.session.queue_query("q")
        sends = [producer.send(self.session.create_message()) for _ in range(2000)]
        self.world.network.stir()
        self.assertEqual((pending(sends[10]), pending(sends[-1])), (False, True))
        self.broker.silent.clear()
        for _ in range(2):
            self.broker.deliver(CHANNEL, self.broker._info("q"))
        for call in (first, second, *sends):
            self.world.finish(call)
        self.assertEqual(len(self.broker.got(SessionSend)), 2000)

    def test_a_new_session_knows_that_the_peer_does_not_read(self) -> None:
        self.start(block_on_durable_send=False)
        self.world.network.link.handler.link_paused()
        session = self.world.session(self.factory)
        producer = self.world.finish(session.create_producer("a"))
        send = producer.send(session.create_message())
        self.world.network.stir()
        self.assertTrue(pending(send))
        self.world.network.link.handler.link_resumed()
        self.world.finish(send)
