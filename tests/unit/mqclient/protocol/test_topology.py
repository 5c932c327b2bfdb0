"""The topology of a cluster as a client knows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.topology import Topology, TopologyMember, distinct, same_connector, same_place
from mqclient.wire.primitives import TransportConfiguration

A, B = (TransportConfiguration(name, "netty", (("host", "h"), ("port", port))) for name, port in (("a", "1"), ("b", "2")))


class TopologyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.topology = Topology()
        self.told: list[tuple[str, bool]] = []
        self.topology.add_listener(lambda member, up: self.told.append((member.node_id, up)))

    def test_newer_replaces_and_keeps_what_is_missing(self) -> None:
        self.assertTrue(self.topology.up(TopologyMember("n", 5, A, B)))
        self.assertTrue(self.topology.up(TopologyMember("n", 6, B)))
        member = self.topology.get("n")
        assert member is not None
        self.assertEqual((member.unique_event_id, member.primary, member.backup), (6, B, B))
        self.assertFalse(self.topology.up(TopologyMember("n", 6, A)))

    def test_the_connectors_of_a_member_begin_with_that_of_its_primary(self) -> None:
        members = (TopologyMember("n", 1, A, B), TopologyMember("n", 1, None, B), TopologyMember("n", 1))
        self.assertEqual([member.connectors for member in members], [[A, B], [B], []])

    def test_connectors_to_the_same_place_count_once(self) -> None:
        again = TransportConfiguration("c", "netty", (("port", 1), ("host", "h")))
        self.assertEqual(distinct([A, again, B]), [A, B])

    def test_older_fills_in_silently(self) -> None:
        self.topology.up(TopologyMember("n", 5, A))
        self.assertFalse(self.topology.up(TopologyMember("n", 4, A, B)))
        self.assertEqual(self.topology.pairs(), [(A, B)])
        self.topology.up(TopologyMember("m", 5, None, B))
        self.assertTrue(self.topology.up(TopologyMember("m", 3, A)))
        member = self.topology.get("m")
        assert member is not None
        self.assertEqual((member.unique_event_id, member.primary, member.backup), (5, A, B))

    def test_departure(self) -> None:
        self.topology.up(TopologyMember("n", 5, A))
        self.assertFalse(self.topology.down("n", 4))
        self.assertTrue(self.topology.down("n", 5))
        self.assertFalse(self.topology.down("n", 9))
        self.assertFalse(self.topology.up(TopologyMember("n", 4, A)))
        self.assertFalse(self.topology.up(TopologyMember("n", 5, A)))  # else a departure and it would chase each other for ever
        self.assertTrue(self.topology.up(TopologyMember("n", 6, A)))
        self.assertEqual(self.told, [("n", True), ("n", False), ("n", True)])

    def test_departures_are_forgotten_when_somebody_is_asked_anew(self) -> None:
        self.topology.up(TopologyMember("n", 5, A))
        self.topology.down("n", 7)
        self.topology.forget_departures()
        self.assertTrue(self.topology.up(TopologyMember("n", 5, A)))

    def test_backup_and_own_activation_always_count(self) -> None:
        self.topology.up(TopologyMember("n", 50, A))
        self.topology.backup_announced(TopologyMember("n", 1, None, B), 7)
        self.assertEqual(self.topology.pairs(), [(A, B)])
        self.topology.activated(TopologyMember("n", 1, B), 3)
        self.assertEqual(self.topology.pairs(), [(B, None)])
        self.assertEqual(len(self.told), 3)

    @given(st.permutations([TopologyMember("n", event, A if event % 2 else B) for event in (1, 2, 3)]))
    def test_order_of_announcements_does_not_matter(self, members: list[TopologyMember]) -> None:
        topology = Topology()
        for member in members:
            topology.up(member)
        found = topology.get("n")
        assert found is not None
        self.assertEqual((found.unique_event_id, found.primary), (3, A))

    def test_same_connector(self) -> None:
        self.assertTrue(same_connector(A, TransportConfiguration("x", "netty", (("port", 1), ("host", "h")))))
        self.assertFalse(same_connector(A, B))
        self.assertTrue(same_connector(None, None))
        self.assertFalse(same_connector(A, None))

    def test_same_place(self) -> None:
        here = TransportConfiguration("x", "netty", (("host", "127.0.0.1"),))
        self.assertTrue(same_place(here, TransportConfiguration("y", "in-vm", (("host", "localhost"), ("port", 61616)))))
        self.assertFalse(same_place(here, A))
        inside = [TransportConfiguration("x", "in-vm", (("serverId", number),)) for number in ("0", "1", 1)]
        self.assertEqual([same_place(inside[1], each) for each in (*inside, here)], [False, True, True, False])
        self.assertFalse(same_place(here, None))
        self.assertFalse(same_place(None, None))
