"""Consumers that are made, refused and closed."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from tests.support.broker import World


class CreationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q", max_consumers=1)

    def test_a_qualified_name_without_a_queue_means_none(self) -> None:
        for name in ("q::", "::", "q::missing"):
            self.assertEqual(self.session.error(wire.CreateConsumer(1, name)), 100, name)
        self.session.consume("::q", 1)

    def test_errors(self) -> None:
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "missing")), 100)
        self.assertEqual(self.session.error(wire.CreateConsumer(0, "q", "a = ")), 103)
        self.session.consume()
        self.assertEqual(self.session.error(wire.CreateConsumer(1, "q")), 214)
        answer = self.session.call(wire.CreateConsumer(1, "q", browse_only=True))
        self.assertIsInstance(answer, wire.QueueQueryResponseV3)

    def test_the_answer_describes_the_queue_with_its_new_consumer(self) -> None:
        answer = self.session.call(wire.CreateConsumer(0, "q"))
        assert isinstance(answer, wire.QueueQueryResponseV3)
        self.assertEqual((answer.name, answer.consumer_count, answer.max_consumers), ("q", 1, 1))

    def test_a_failed_silent_request_is_not_answered_and_its_consumer_is_ended(self) -> None:
        self.session.send(wire.CreateConsumer(0, "missing", requires_response=False))
        self.assertEqual(self.session.take(), [wire.DisconnectConsumer(0)])
        self.session.send(wire.ForceConsumerDelivery(0, 1))
        self.assertEqual(self.session.take(), [])

    def test_a_consumer_that_is_made_twice_lives_on(self) -> None:
        self.session.call(wire.CreateConsumer(0, "q"))
        self.session.send(wire.CreateConsumer(0, "q", requires_response=False))
        self.assertEqual(self.session.take(), [])

    def test_closing_an_unknown_consumer_is_answered(self) -> None:
        self.session.ok(wire.ConsumerClose(42))
