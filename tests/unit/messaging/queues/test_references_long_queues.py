"""Queues that are so long that most of their messages wait without a reference: nobody sees a difference."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.administration.selection import waiting
from mqbroker.messaging.queues import references
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import decode_message
from tests.support.broker import Session, World, message_id


class LongQueueTests(SynchronousTestCase):
    def setUp(self) -> None:
        for name, value in (("REFERENCES_AHEAD", 3), ("MADE_TOGETHER", 2)):
            self.patch(references, name, value)
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.queue = self.world.queue("q")

    def put(self, count: int, session: Session | None = None, **headers: int) -> list[bytes]:
        bodies = [b"%d" % (self.queue.messages_added + number) for number in range(count)]
        for body in bodies:
            (session or self.session).publish(body, **headers)
        return bodies

    def made(self) -> int:
        """How many references there are."""
        count = 0
        for level in self.queue.references._levels:
            reference = level.head
            while reference is not None:
                count += 1
                reference = reference.following
        return count

    def test_references_are_made_when_their_turn_comes_near(self) -> None:
        sent = self.put(20)
        self.assertEqual((self.queue.message_count, self.made()), (20, 3))
        self.session.consume(credits=1)
        received: list[bytes] = []
        for left in range(19, -1, -1):
            (packet,) = self.session.received()
            received.append(decode_message(packet.message).body)
            self.assertEqual(self.queue.references.count, left)
            self.assertLessEqual(self.made(), 4)
            self.session.send(wire.Acknowledge(0, message_id(packet), False))
            self.session.send(wire.FlowToken(0, len(frame(packet.TYPE, 0, wire.encode_packet(packet, 136)))))
        self.assertEqual(received, sent)
        memory = self.queue.address.memory
        self.assertEqual((self.queue.message_count, self.queue.persistent_size, memory.size, memory.messages), (0, 0, 0, 0))

    def test_priorities_and_transactions(self) -> None:
        low = self.put(6, priority=1)
        transacted = self.world.session(auto_commit_sends=False)
        normal = self.put(6, transacted)
        transacted.ok(wire.Commit())
        high = self.put(6, priority=9)
        self.assertEqual(self.made(), 5)  # the first of each priority is always there
        self.session.consume()
        self.assertEqual(self.session.bodies(), high + normal + low)

    def test_what_comes_back_is_first_again(self) -> None:
        sent = self.put(12)
        other = self.world.session()
        other.consume()
        self.assertEqual(other.bodies(), sent)
        more = self.put(5)
        self.assertEqual(other.bodies(), more)
        other.peer.lose()
        more += self.put(5)
        self.session.consume()
        self.assertEqual(self.session.bodies(), sent + more)

    def test_filters_and_browsers_see_all(self) -> None:
        sent = self.put(5) + self.put(5, priority=7)
        self.session.consume(filter="AMQPriority = 7", browse_only=True)
        self.assertEqual(self.session.bodies(), sent[5:])
        self.assertEqual(self.queue.message_count, 10)
        other = self.world.session()
        other.consume(filter="AMQPriority = 4")
        self.assertEqual(other.bodies(), sent[:5])

    def test_expired_messages_behind_others_leave(self) -> None:
        self.put(6)
        soon = self.world.clock.wall_ms() + 1000
        self.put(3, expiration=soon)
        self.put(2)
        self.world.clock.advance(self.world.configuration.message_expiry_scan_period / 1000 + 2)
        self.assertEqual((self.queue.message_count, self.queue.messages_expired), (8, 3))

    def test_a_changed_priority(self) -> None:
        sent = self.put(10)
        *_, last = waiting(self.queue)
        assert last is not None
        self.queue.references.remove(last)
        last.priority = 8
        self.queue.references.append(last)
        self.session.consume()
        self.assertEqual(self.session.bodies(), [sent[-1], *sent[:-1]])

    def test_a_topic_with_several_queues(self) -> None:
        for name in ("one", "two"):
            self.session.create_queue(name, "news", routing_type=0)
        for number in range(8):
            self.session.publish(b"%d" % number, "news", routing_type=0)
        for number, name in enumerate(("one", "two")):
            self.session.consume(name, number + 1)
            self.assertEqual(self.session.bodies(), [b"%d" % each for each in range(8)])
        for consumer in (1, 2):
            self.session.ok(wire.ConsumerClose(consumer))
        self.assertEqual(self.world.queue("one").message_count, 8)

    def test_purging_and_deleting(self) -> None:
        self.put(9)
        self.assertEqual(self.world.messaging.removal.purge(self.queue), 9)
        self.put(9)
        self.session.ok(wire.DeleteQueue("q"))
        while self.world.clock.pending and self.queue.address.memory.messages:
            self.world.clock.advance(0)
        self.assertEqual((self.queue.address.memory.messages, self.queue.address.memory.size), (0, 0))
