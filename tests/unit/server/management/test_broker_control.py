"""What the control of the broker tells and does."""

from __future__ import annotations

import json

from mqbroker.server.management.broker_control import BrokerControl
from mqbroker.server.management.queue_control import QueueControl
from mqclient.urls import TransportUri
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

    def test_connectors_are_told_without_their_passwords(self) -> None:
        self.world.configuration.connectors["c"] = TransportUri("tcp", "h", 7, {"keyStorePassword": "p"})
        found = json.loads(self.attribute("broker", "ConnectorsAsJSON"))
        self.assertEqual(found, [{"name": "c", "params": {"host": "h", "port": "7"}}])

    def test_clients_are_listed_by_their_address(self) -> None:
        self.assertEqual(self.call("broker", "listRemoteAddresses"), ["127.0.0.1:5000"])
        self.assertEqual(self.call("broker", "listRemoteAddresses", "127.0.0.1"), ["127.0.0.1:5000"])
        self.assertEqual(self.call("broker", "listRemoteAddresses", "10.0.0.1"), [])

    def test_queues_are_made_described_and_destroyed(self) -> None:
        text = self.call("broker", "createQueue", json.dumps({"name": "new", "routing-type": "ANYCAST", "max-consumers": 3}))
        self.assertEqual((json.loads(text)["name"], json.loads(text)["max-consumers"]), ("new", 3))
        self.assertIn("AMQ229019", self.fails("broker", "createQueue", json.dumps({"name": "new"})))
        self.assertIn("AMQ229229", self.fails("broker", "createQueue", "{}"))
        self.assertIn("JSON", self.fails("broker", "createQueue", "{"))
        self.call("broker", "destroyQueue", "new")
        self.assertIn("AMQ229017", self.fails("broker", "destroyQueue", "new"))

    def test_a_stuck_consumer_is_closed_by_name(self) -> None:
        self.fill()
        stuck = self.open()
        stuck.consume("q", 5)
        self.assertEqual(len(stuck.received()), 3)
        consumer = stuck.server_session.consumers.by_id[5]
        self.assertTrue(self.call("broker", "closeConsumerWithID", stuck.name, str(consumer.sequential_id)))
        self.assertEqual(stuck.take(), [wire.DisconnectConsumer(5)])
        self.assertEqual(self.world.queue("q").references.count, 3)

    def test_a_stuck_connection_is_closed_by_name(self) -> None:
        stuck = self.open()
        self.assertTrue(self.call("broker", "closeConnectionWithID", stuck.peer.connection.connection_id))
        self.assertTrue(stuck.peer.transport.closed)
        self.assertNotIn(stuck.name, self.world.server.sessions.by_name)
        self.assertFalse(self.call("broker", "closeConnectionWithID", "nobody"))

    def test_connections_with_consumers_on_an_address_are_closed(self) -> None:
        stuck, other = self.open(), self.open()
        stuck.consume("q", 5)
        self.assertFalse(self.call("broker", "closeConsumerConnectionsForAddress", "nowhere"))
        self.assertTrue(self.call("broker", "closeConsumerConnectionsForAddress", "q"))
        self.assertEqual((stuck.peer.transport.closed, other.peer.transport.closed), (True, False))

    def test_sessions_are_listed_by_their_connection(self) -> None:
        other = self.open()
        self.assertEqual(self.call("broker", "listSessions", other.peer.connection.connection_id), [other.name])
        self.assertEqual(self.call("broker", "listSessions", "nobody"), [])
