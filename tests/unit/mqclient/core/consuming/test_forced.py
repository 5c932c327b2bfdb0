"""Forced delivery: asking the broker for what is there."""

from __future__ import annotations

from mqclient.errors import (
    ConnectionTimedOutError,
)
from mqclient.wire.packets import (
    ForceConsumerDelivery,
)
from tests.support.network import message, pending
from tests.unit.mqclient.core.connection.test_connection import CHANNEL
from tests.unit.mqclient.core.consuming.test_consumers import ConsumerCase


class ForcedTests(ConsumerCase):
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
