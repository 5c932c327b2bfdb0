"""Browsers of a queue."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from mqclient.wire.properties import INT
from tests.support.broker import World, message_id


class BrowserTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.session()
        self.session.create_queue("q")
        for number in range(3):
            self.session.publish(b"%d" % number, properties={"n": (INT, number)})
        self.session.take()

    def test_a_browser_takes_nothing_and_needs_no_start(self) -> None:
        self.session.consume(browse_only=True, start=False)
        packets = self.session.received()
        self.assertEqual([decode_message(packet.message).body for packet in packets], [b"0", b"1", b"2"])
        self.assertEqual([packet.delivery_count for packet in packets], [0, 0, 0])
        queue = self.world.queue("q")
        self.assertEqual((queue.references.count, queue.delivering, queue.consumer_count), (3, 0, 0))

    def test_a_browser_with_a_filter(self) -> None:
        self.session.consume(browse_only=True, filter="n <> 1")
        self.assertEqual(self.session.bodies(), [b"0", b"2"])

    def test_a_browser_sees_what_comes_later_when_it_asks(self) -> None:
        self.session.consume(browse_only=True)
        self.session.bodies()
        self.session.publish(b"new")
        self.session.send(wire.ForceConsumerDelivery(0, 0))
        self.assertEqual(self.session.bodies()[0], b"new")

    def test_acknowledgements_of_a_browser_are_ignored(self) -> None:
        self.session.consume(browse_only=True)
        (first, *_) = self.session.received()
        self.session.ok(wire.Acknowledge(0, message_id(first), True))
        self.assertEqual(self.world.queue("q").references.count, 3)

    def test_a_browser_of_a_deleted_queue_is_told(self) -> None:
        self.session.consume(browse_only=True)
        self.session.take()
        self.session.ok(wire.DeleteQueue("q"))
        self.session.send(wire.ForceConsumerDelivery(0, 0))
        self.assertEqual(len(self.session.take()), 1)
