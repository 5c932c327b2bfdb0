"""Connections in the hands of management."""

from __future__ import annotations

from mqclient.wire import packets as wire
from tests.unit.server.management.test_service import ManagementCase


class ConnectionTests(ManagementCase):
    def test_clients_are_listed_by_their_address(self) -> None:
        self.assertEqual(self.call("broker", "listRemoteAddresses"), ["127.0.0.1:5000"])
        self.assertEqual(self.call("broker", "listRemoteAddresses", "127.0.0.1"), ["127.0.0.1:5000"])
        self.assertEqual(self.call("broker", "listRemoteAddresses", "10.0.0.1"), [])

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
