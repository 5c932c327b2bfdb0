"""Messages that arrive, before anybody takes them."""

from __future__ import annotations

from mqclient.wire.packets import (
    Expired,
)
from tests.support.network import WALL_CLOCK_MS, message
from tests.unit.mqclient.core.connection.test_connection import CHANNEL
from tests.unit.mqclient.core.consuming.test_consumers import ConsumerCase


class ArrivalTests(ConsumerCase):
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

    def test_expired_message(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, message(1, expiration=WALL_CLOCK_MS - 1))
        self.broker.deliver(CHANNEL, message(2, expiration=WALL_CLOCK_MS + 60_000))
        self.assertEqual(self.take().message_id, 2)
        self.assertEqual([packet.message_id for packet in self.broker.got(Expired)], [1])

    def test_packets_for_unknown_consumers_are_passed_over(self) -> None:
        self.start()
        self.broker.deliver(CHANNEL, message(1, consumer_id=99))
        self.assertFalse(self.session.closed)
