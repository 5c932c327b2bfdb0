"""What the control of the broker tells and does."""

from __future__ import annotations

import json
from types import SimpleNamespace

from mqbroker.server.management.broker_control import BrokerControl
from mqbroker.server.management.queue_control import QueueControl
from mqclient.wire import packets as wire
from tests.unit.server.management.test_service import REPLIES, ManagementCase


class BrokerControlTests(ManagementCase):
    def test_every_attribute_can_be_read(self) -> None:
        for name in BrokerControl.ATTRIBUTES:
            self.attribute("broker", name)
        for name in QueueControl.ATTRIBUTES:
            self.attribute("queue.q", name)
        self.assertEqual(self.attribute("broker", "ThreadPoolMaxSize"), 30)

    def test_names_of_queues_of_a_routing_type(self) -> None:
        self.session.create_queue("m", routing_type=0)
        self.assertEqual(self.call("broker", "getQueueNames"), ["m", "q", REPLIES])
        self.assertEqual(self.call("broker", "getQueueNames", "multicast"), ["m"])
        self.assertIn("ANYCAST or MULTICAST", self.fails("broker", "getQueueNames", "none"))

    def test_consumers_and_producers_in_the_older_lists(self) -> None:
        self.session.send(wire.CreateProducer(0, "q"))
        (consumer,) = json.loads(self.call("broker", "listAllConsumersAsJSON"))
        self.assertEqual((consumer["queueName"], consumer["messagesInTransit"], consumer["status"]), (REPLIES, 0, "OK"))
        (producer,) = json.loads(self.call("broker", "listProducersInfoAsJSON"))
        self.assertEqual((producer["sessionID"], producer["destination"]), (self.session.name, "q"))

    def test_a_failover_is_answered_before_it_begins(self) -> None:
        asked: list[bool] = []
        self.world.server.others = SimpleNamespace(fail_over=lambda: asked.append(True))
        self.assertIsNone(self.call("broker", "forceFailover"))
        self.assertEqual(asked, [True])
