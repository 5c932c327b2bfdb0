"""Queues that go while work on their messages goes on."""

from __future__ import annotations

from mqclient.wire import packets as wire
from tests.unit.messaging.turns.test_steps import COUNT, STEP, QueueCase


class RemovalTests(QueueCase):
    def test_a_target_that_is_deleted_meanwhile(self) -> None:
        self.ask("moveMessages", None, "other")
        self.world.session().ok(wire.DeleteQueue("other"))
        self.world.clock.advance(0.001)
        ((succeeded, text),) = self.answers()
        self.assertFalse(succeeded)
        self.assertIn("no longer exists", text)
        self.assertGreater(self.queue.message_count, 0)

    def test_the_queue_is_deleted_meanwhile(self) -> None:
        self.ask("removeAllMessages")
        self.world.session().ok(wire.DeleteQueue("q"))
        self.world.clock.advance(0.001)
        self.assertEqual(self.answers(), [(True, STEP)])

    def test_a_deleted_queue_is_gone_at_once_and_its_messages_are_let_go_in_steps(self) -> None:
        memory = self.queue.address.memory
        full = memory.size
        self.session.ok(wire.DeleteQueue("q"))
        self.assertNotIn("q", self.world.messaging.core.queues)
        self.assertEqual(self.queue.message_count, 0)
        self.assertTrue(0 < memory.size < full)
        self.world.clock.advance(0.001)
        self.assertEqual((memory.size, memory.messages), (0, 0))

    def test_the_last_consumer_of_a_queue_that_is_purged_then(self) -> None:
        self.world.messaging.administration.update_queue(self.queue, purge_on_no_consumers=True)
        consumer = self.world.session()
        consumer.consume(credits=0)
        consumer.peer.lose()
        self.assertEqual(self.queue.message_count, COUNT - STEP)
        self.world.clock.advance(0.001)
        self.assertEqual(self.queue.message_count, 0)

    def test_a_consumer_that_comes_before_the_purge_has_begun(self) -> None:
        self.world.messaging.administration.update_queue(self.queue, purge_on_no_consumers=True)
        consumer = self.world.session()
        consumer.consume(credits=0)
        self.ask("countMessages", "n < 0", resource="queue.q")
        consumer.peer.lose()
        another = self.world.session()
        another.consume(credits=0)
        another.publish(b"new")
        self.world.clock.advance(0.001)
        self.assertEqual(self.queue.message_count, COUNT + 1)
        another.peer.lose()
        self.world.clock.advance(0.001)
        self.assertEqual(self.queue.message_count, 0)

    def test_a_consumer_that_comes_during_the_purge(self) -> None:
        self.world.messaging.administration.update_queue(self.queue, purge_on_no_consumers=True)
        consumer = self.world.session()
        consumer.consume(credits=0)
        consumer.peer.lose()
        another = self.world.session()
        another.consume(credits=0)
        self.world.clock.advance(0.001)
        self.assertEqual(self.queue.message_count, COUNT - STEP)
