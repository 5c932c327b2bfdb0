"""Numbers and sizes of a queue's messages, as metrics and management show them: sums, whatever happens to the messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.observation.figures import BrokerFigures
from mqclient.wire import packets as wire
from mqclient.wire.properties import LONG
from tests.support.broker import World, message_id

NAMES = ("message.count", "durable.message.count", "persistent.size", "durable.persistent.size")
SCHEDULED = ("scheduled.durable.message.count", "scheduled.persistent.size", "scheduled.durable.persistent.size")


class QueueSizeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        self.session.take()

    def figures(self, names: tuple[str, ...] = NAMES, queue: str = "q") -> tuple[float, ...]:
        found = {name: figures for _, name, figures in BrokerFigures(self.world.server, lambda: 0.0, lambda: None).queues()}[queue]
        return tuple(found[name] for name in names)

    def size(self) -> int:
        (reference,) = self.world.queue("q").references
        return len(reference.message.buffer)

    def test_from_sending_to_acknowledgement(self) -> None:
        self.session.publish(b"one")
        one = self.size()
        self.session.publish(b"other", durable=False)
        self.assertEqual(self.figures(), (2, 1, 2 * one + 2, one))
        self.session.consume()
        durable, other = self.session.received()
        self.assertEqual(self.figures(), (2, 1, 2 * one + 2, one))
        self.session.send(wire.IndividualAcknowledge(0, message_id(durable), False))
        self.assertEqual(self.figures(), (1, 0, one + 2, 0))
        self.session.send(wire.IndividualAcknowledge(0, message_id(other), False))
        self.assertEqual(self.figures(), (0, 0, 0, 0))

    def test_given_back_and_purged(self) -> None:
        self.session.publish()
        before = self.figures()
        consumer = self.world.peer().open()
        consumer.consume()
        self.assertEqual(self.figures(), before)
        consumer.peer.lose()
        self.assertEqual(self.figures(), before)
        self.world.messaging.removal.purge(self.world.queue("q"))
        self.assertEqual(self.figures(), (0, 0, 0, 0))

    def test_a_large_body_counts(self) -> None:
        self.session.begin_large()
        self.session.chunk(bytes(5000), 5000)
        self.assertEqual(self.figures(), (1, 1, self.size() + 5000, self.size() + 5000))

    def test_scheduled_ones(self) -> None:
        later = self.world.clock.wall_ms() + 1000
        self.session.publish(properties={"_AMQ_SCHED_DELIVERY": (LONG, later)})
        size = self.figures()[2]
        self.assertEqual(self.figures(SCHEDULED), (1, size, size))
        self.assertEqual(self.figures(), (1, 1, size, size))
        self.world.clock.advance(2)
        self.assertEqual(self.figures(SCHEDULED), (0, 0, 0))
        self.assertEqual(self.figures(), (1, 1, size, size))

    def test_a_queue_that_does_not_survive_has_no_durable_ones(self) -> None:
        self.session.create_queue("t", "t", durable=False)
        self.session.publish(address="t")
        count, durable, size, durable_size = self.figures(queue="t")
        self.assertEqual((count, durable, durable_size), (1, 0, 0))
        self.assertGreater(size, 0)
