"""What a start may forget."""

from __future__ import annotations

from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.imq.administration.resets import DURABLES, MESSAGES, reset
from tests.unit.imq.administration.support import ImqCase


class ResetTests(ImqCase):
    def setUp(self) -> None:
        super().setUp()
        self.ask("createDestination", "t", "news")
        self.ask("createDestination", "q", "orders")
        self.world.messaging.definitions.create_queue(QueueConfiguration("c1.sub", "news", 0))
        session = self.world.peer().open(name="s")
        session.publish(b"1", address="news", routing_type=0)
        session.publish(b"2", address="orders")

    def counts(self) -> dict[str, int]:
        return {name: queue.message_count for name, queue in self.world.messaging.core.queues.items() if name in ("orders", "c1.sub")}

    def test_messages_are_forgotten_and_destinations_stay(self) -> None:
        self.assertEqual(self.counts(), {"orders": 1, "c1.sub": 1})
        reset(self.world.messaging, MESSAGES)
        self.assertEqual(self.counts(), {"orders": 0, "c1.sub": 0})

    def test_subscriptions_are_forgotten_and_messages_of_queues_stay(self) -> None:
        reset(self.world.messaging, DURABLES)
        self.assertEqual(self.counts(), {"orders": 1})
