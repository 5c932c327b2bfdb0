"""The clients that a hosted backup serves."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.ha.colocated.own_clients import SCALED_DOWN_MAX, OwnClients
from mqclient.protocol.topology import TopologyMember
from tests.support.clock import FakeClock
from tests.unit.cluster.support import connector, member


class OwnClientsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.topology = ClusterTopology("own", FakeClock())
        self.topology.own(connector(161), attempts=0)
        self.clients = OwnClients(self.topology)

    def test_a_client_of_another_node_that_had_its_backup_here_before_is_told_where_that_is(self) -> None:
        elsewhere = member("other", 5, port=2, backup=162)
        self.topology.up(elsewhere)
        self.assertTrue(self.clients.serves("own"))
        self.assertFalse(self.clients.serves("other"))
        self.assertEqual(self.clients.successor_of("other"), elsewhere)
        self.assertFalse(self.clients.has("own") or self.clients.has("other"))

    def test_nobody_is_told_of_a_node_that_is_nowhere(self) -> None:
        self.topology.backup_announced(TopologyMember("waits", 1, backup=connector(162)), 1)
        for node_id in ("waits", "unknown"):
            self.assertFalse(self.clients.serves(node_id))
            self.assertIsNone(self.clients.successor_of(node_id))

    def test_clients_of_a_member_that_has_scaled_down_are_served(self) -> None:
        """Their messages may be here; their own broker comes no more, or is a member again."""
        self.topology.scaled_down("first")
        self.assertTrue(self.clients.serves("first"))
        for number in range(SCALED_DOWN_MAX):
            self.topology.scaled_down(f"n{number}")
        self.assertFalse(self.clients.serves("first"))
        self.assertTrue(self.clients.serves("n0"))
        self.topology.up(member("n0", 5, port=2))
        self.assertFalse(self.clients.serves("n0"))
