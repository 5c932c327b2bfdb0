"""Prefixes of addresses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.transport.naming import Naming
from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import World


class PrefixTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.session = self.world.peer(Naming(("queue/",), ("topic/",))).open()

    def test_prefixes_choose_the_routing_type_and_are_taken_off(self) -> None:
        self.session.publish(b"q", "queue/a", routing_type=None)
        self.session.publish(b"t", "topic/b", routing_type=None)
        core = self.world.messaging.core
        self.assertEqual({name: set(address.routing_types) for name, address in core.addresses.items()}, {"a": {1}, "b": {0}})
        self.session.consume("queue/a")
        (message,) = self.session.received()
        self.assertEqual(decode_message(message.message).address, "a")

    def test_queries_and_credits_use_the_same_names(self) -> None:
        self.session.create_queue("a")
        answer = self.session.call(wire.QueueQuery("queue/a"))
        self.assertEqual((answer.exists, answer.name), (True, "a"))  # type: ignore[attr-defined]
        self.session.send(wire.ProducerRequestCredits(10, "queue/a"))
        self.assertEqual(self.session.take(), [wire.ProducerCredits(10, "queue/a")])

    def test_without_prefixes_the_names_are_plain(self) -> None:
        session = self.world.session()
        session.publish(b"x", "queue/a")
        self.assertIn("queue/a", self.world.messaging.core.addresses)
