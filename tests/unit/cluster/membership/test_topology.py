"""The topology of a broker: its guard, its limits, and what subscribers are told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership import topology as limits
from mqbroker.cluster.membership.topology import ClusterTopology
from mqclient.protocol.topology import MEMBERS_MAX, Topology, TopologyMember
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL
from mqclient.wire.primitives import TransportConfiguration
from tests.support.broker import Peer
from tests.support.clock import START_MS, FakeClock
from tests.unit.cluster.support import cluster_world, connector, joined, member, subscribed


class MemberTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.topology = ClusterTopology("me", self.clock)

    def test_the_own_entry_is_repeated_by_the_wall_clock(self) -> None:
        told: list[int] = []
        self.topology.add_listener(lambda member, up: told.append(member.unique_event_id))
        self.topology.own(connector(1), attempts=2, interval_ms=1000)
        self.clock.advance(10)
        self.assertEqual(told, [START_MS, START_MS + 1000, START_MS + 2000])
        self.assertEqual(self.clock.pending, 0)

    def test_a_repeat_keeps_the_backup_and_the_own_connector(self) -> None:
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS + 1, backup=2))
        self.clock.advance(1)
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual((own.primary, own.backup), (connector(1), connector(2)))

    def test_stopped_it_repeats_no_more(self) -> None:
        self.topology.own(connector(1))
        self.topology.stop()
        self.assertEqual(self.clock.pending, 0)

    def test_another_node_at_the_own_place_is_one_that_this_broker_has_been(self) -> None:
        """It was taken over and is another node now; others may still announce it, and clients would find two nodes here."""
        self.topology.up(member("former", START_MS, port=1))
        self.topology.up(member("other", START_MS, port=2))
        self.topology.own(connector(1))
        self.assertFalse(self.topology.up(member("former", START_MS + 5000, port=1)))
        self.assertEqual({each.node_id for each in self.topology}, {"me", "other"})

    def waits(self, node_id: str, place: int) -> Any:
        """A backup of this node announces itself, and waits; returns its connection."""
        connection: Any = object()
        self.topology.backup_waits(connection, TopologyMember(node_id, START_MS, backup=connector(place)), START_MS)
        return connection

    def backup_of(self, node_id: str) -> TransportConfiguration | None:
        found = self.topology.get(node_id)
        return None if found is None else found.backup

    def test_a_backup_that_waits_is_that_of_a_primary_which_is_back(self) -> None:
        for place in (2, 3):  # the later one counts: the first may be lost, and nobody has noticed yet
            waiting = self.waits("other", place)
        self.topology.lost("other")
        self.topology.up(member("other", START_MS + 5000))
        self.assertEqual(self.backup_of("other"), connector(3))
        self.topology.unsubscribe(waiting)
        self.topology.lost("other")
        self.topology.up(member("other", START_MS + 10_000))
        self.assertEqual(self.backup_of("other"), connector(2))

    def test_a_backup_of_this_broker_that_has_gone_is_told_no_more(self) -> None:
        """Its connection may be there for a while."""
        self.topology.own(connector(1))
        self.waits("me", 2)
        self.assertEqual(self.backup_of("me"), connector(2))
        self.topology.backup_left(connector(2))
        self.assertIsNone(self.backup_of("me"))

    def test_the_own_node_never_leaves(self) -> None:
        self.topology.own(connector(1))
        self.assertFalse(self.topology.down("me", START_MS + 99999))
        self.assertFalse(self.topology.lost("me"))
        self.assertIsNotNone(self.topology.get("me"))

    def test_who_is_said_to_have_left_says_that_it_is_there(self) -> None:
        """Later than the departure: who believes that would refuse the announcement otherwise, until this clock has caught up."""
        self.topology.own(connector(1))
        self.topology.down("me", START_MS + 99999)
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual(own.unique_event_id, START_MS + 100_000)
        self.topology.down("me", START_MS)
        self.assertIs(self.topology.get("me"), own)
        self.clock.advance(1)
        repeated = self.topology.get("me")
        assert repeated is not None
        self.assertEqual(repeated.unique_event_id, START_MS + 100_000)

    def test_a_departure_is_later_than_the_announcement_also_of_a_member_whose_clock_is_ahead(self) -> None:
        """With equal event ids both would be accepted in turn, by everybody, for ever."""
        ahead = member("b", START_MS + 10**9)
        self.topology.up(ahead)
        self.topology.lost("b")
        self.assertEqual(self.topology.left_at("b"), START_MS + 10**9 + 1)
        self.assertFalse(self.topology.up(ahead))
        self.assertFalse(self.topology.up(replace(ahead, unique_event_id=START_MS + 10**9 + 1)))

    def test_a_link_that_is_back_counts_more_than_a_departure_by_a_clock_that_is_ahead(self) -> None:
        self.topology.up(member("b", START_MS))
        self.topology.down("b", START_MS + 10**9)
        self.assertFalse(self.topology.up(member("b", START_MS + 5)))
        self.assertTrue(self.topology.found_again(member("b", START_MS + 5)))
        self.topology.down("b", START_MS + 2 * 10**9)
        self.assertTrue(self.topology.announced(member("b", START_MS + 6)))
        found = self.topology.get("b")
        assert found is not None
        self.assertEqual(found.unique_event_id, START_MS + 2 * 10**9 + 1)

    def test_nobody_else_gets_the_own_place(self) -> None:
        self.topology.own(connector(1))
        self.assertFalse(self.topology.up(member("me", START_MS + 2, port=2)))
        self.assertTrue(self.topology.up(member("me", START_MS + 3, port=None, backup=4)))
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual((own.primary, own.backup), (connector(1), connector(4)))

    def test_another_broker_with_the_own_node_id_is_noticed(self) -> None:
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS - 1, port=2))
        self.topology.up(member("me", START_MS + 1, port=1))
        self.topology.up(member("me", START_MS + 2, port=None, backup=3))
        self.assertIsNone(self.topology.rival)
        with capturedLogs() as events:
            self.topology.up(member("me", START_MS + 3, port=2))
        self.assertEqual([formatEvent(event) for event in events], [f"AMQ222294: {self.topology.rival}"])
        self.assertIn("'127.0.0.1:2' is announced with the node id of this one, me", str(self.topology.rival))
        self.topology.own(connector(1))
        self.assertIsNone(self.topology.rival)

    def own_event(self) -> int:
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual(own.primary, connector(1))
        return own.unique_event_id

    def test_the_taker_goes_on_above_the_id_of_a_dead_broker_whose_clock_was_ahead(self) -> None:
        """Others would drop its announcements until its clock has caught up, and name the place of the dead one."""
        raised: list[int] = []
        self.topology.raised.subscribe(lambda: raised.append(self.own_event()))
        self.topology.own(connector(1))
        ahead = member("me", START_MS + 20_000, port=2)
        for told in (ahead, replace(ahead, unique_event_id=START_MS + 10_000)):
            self.assertFalse(self.topology.up(told))
        self.assertEqual((raised, self.own_event()), ([], START_MS))  # not before the place was visited
        for _ in range(2):
            self.topology.clear_rival()
        self.assertEqual((raised, self.topology.rival), ([START_MS + 20_001], None))
        self.clock.advance(2)
        self.assertEqual(self.own_event(), START_MS + 20_001)
        self.assertFalse(self.topology.up(ahead))
        self.assertIsNone(self.topology.rival)

    def test_two_that_do_not_reach_each_other_do_not_outdo_each_other_for_ever(self) -> None:
        raised: list[int] = []
        self.topology.raised.subscribe(lambda: raised.append(self.own_event()))
        for activation in range(1, 3):
            self.topology.own(connector(1))
            for _ in range(limits.RAISES_MAX + 5):
                self.topology.up(member("me", self.own_event() + 1000, port=2))
                self.topology.clear_rival()
            self.assertEqual(len(raised), activation * limits.RAISES_MAX)

    def test_who_has_caught_up_tells_those_who_dropped_its_announcement(self) -> None:
        raised: list[int] = []
        self.topology.raised.subscribe(lambda: raised.append(self.own_event()))
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS + 500, port=2))
        self.clock.advance(1)
        self.topology.clear_rival()
        self.assertEqual((raised, self.own_event()), ([START_MS + 1000], START_MS + 1000))

    def test_so_does_who_was_said_to_have_left_meanwhile(self) -> None:
        """Whoever lost the dead broker has forgotten this one, and nobody links to a broker that is unknown."""
        raised: list[int] = []
        self.topology.raised.subscribe(lambda: raised.append(self.own_event()))
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS + 500, port=2))
        self.topology.down("me", START_MS + 700)
        self.topology.clear_rival()
        self.assertEqual(raised, [START_MS + 701])

    def test_who_leaves_outdoes_nobody(self) -> None:
        raised: list[int] = []
        self.topology.raised.subscribe(lambda: raised.append(self.own_event()))
        self.topology.own(connector(1))
        self.topology.up(member("me", START_MS + 5000, port=2))
        self.topology.stop()
        self.topology.clear_rival()
        self.assertEqual((raised, self.own_event()), ([], START_MS))

    def test_who_contradicts_its_departure_tells_its_subscribers_alone(self) -> None:
        """A member that has given up a broken link would take it up again at once, and for ever."""
        raised: list[int] = []
        self.topology.raised.subscribe(lambda: raised.append(self.own_event()))
        self.topology.own(connector(1))
        self.topology.down("me", START_MS + 99_999)
        self.assertEqual((raised, self.own_event()), ([], START_MS + 100_000))

    def test_a_lost_member_goes_however_far_its_clock_is_ahead(self) -> None:
        self.topology.up(member("b", START_MS + 10**9))
        self.assertFalse(self.topology.down("b", START_MS))
        self.assertTrue(self.topology.lost("b"))
        self.assertFalse(self.topology.up(member("b", START_MS)))
        self.assertTrue(self.topology.found_again(member("b", START_MS + 10**9)))
        self.assertFalse(self.topology.lost("c"))

    def test_an_event_id_that_is_no_time_is_not_believed(self) -> None:
        """What follows it could not be told to anybody: event ids have 64 bits."""
        latest = (1 << 63) - 1
        self.topology.own(connector(1))
        self.assertFalse(self.topology.up(member("b", latest)))
        self.assertFalse(self.topology.announced(member("b", latest)))
        self.topology.up(member("b", START_MS))
        self.assertFalse(self.topology.down("b", latest))
        self.topology.down("me", latest)
        own = self.topology.get("me")
        assert own is not None
        self.assertEqual(own.unique_event_id, START_MS)

    def test_the_latest_that_is_believed_leaves_room_for_later_ones(self) -> None:
        self.topology.own(connector(2))
        self.topology.down("me", limits.EVENT_ID_MAX)
        self.assertTrue(self.topology.up(member("b", limits.EVENT_ID_MAX)))
        for _ in range(3):
            self.assertTrue(self.topology.lost("b"))
            self.assertTrue(self.topology.found_again(member("b", 1)))
        self.assertTrue(self.topology.lost("b"))
        self.assertTrue(self.topology.announced(member("b", 1)))
        self.assertTrue(all(each.unique_event_id < 1 << 63 for each in self.topology))

    def test_limits(self) -> None:
        long = "x" * (limits.NAME_LENGTH_MAX + 1)
        many = TransportConfiguration("c", "f", tuple((str(n), "v") for n in range(limits.PARAMETERS_MAX + 1)))
        big = TransportConfiguration("c", "f", (("k", "v" * limits.CONNECTOR_LENGTH_MAX),))
        fine = member("b", 1)
        for refused in (
            replace(fine, node_id=long),
            replace(fine, node_id=""),
            replace(fine, backup_group_name=long),
            replace(fine, scale_down_group_name=long),
            replace(fine, primary=many),
            replace(fine, primary=big),
            replace(fine, backup=connector(1, long)),
        ):
            self.assertFalse(self.topology.up(refused), refused)
            self.topology.backup_announced(refused, 5)
        self.assertEqual(len(self.topology), 0)
        for number in range(MEMBERS_MAX):
            self.topology.up(member(f"n{number}", 1))
        self.assertFalse(self.topology.up(member("one more", 1)))
        self.assertTrue(self.topology.up(member("n0", 2)))
        self.topology.backup_announced(member("one more", 1), 5)
        self.assertEqual(len(self.topology), MEMBERS_MAX)


def told(peer: Peer) -> list[Any]:
    """What the peer is told on channel 0."""
    peer.world.clock.advance(0)
    return peer.take(PING_CHANNEL)


class ManagementTests(SynchronousTestCase):
    def test_the_network_topology(self) -> None:
        world, cluster = cluster_world()
        cluster.topology.up(member("b", 1, 61617, 61618))
        cluster.topology.up(replace(member("c", 1), primary=TransportConfiguration("c", "f")))
        self.assertTrue(world.registry.attribute("broker", "Clustered"))
        self.assertEqual(
            json.loads(world.registry.invoke("broker", "listNetworkTopology", [])),
            [
                {"nodeID": "b", "primary": "127.0.0.1:61617", "live": "127.0.0.1:61617", "backup": "127.0.0.1:61618"},
                {"nodeID": "c", "primary": "localhost:61616", "live": "localhost:61616"},
            ],
        )


class StandInTests(SynchronousTestCase):
    """Each member stands in for another one: clients are told so, members are not."""

    def setUp(self) -> None:
        self.world, self.cluster = cluster_world()
        self.topology = self.cluster.topology = ClusterTopology(self.world.server.node_id, self.world.clock, stand_ins=True)
        for number, name in enumerate("abc"):
            self.topology.up(member(name, 10, number + 1))
        self.client, self.other = subscribed(self.world), joined(self.world)
        self.other.send(wire.SubscribeTopologyV2(True, 136), PING_CHANNEL)

    def told(self, peer: Peer) -> dict[str, str | None]:
        """Node ids of the news with the port of the backup; "left" for those that have left."""
        found: dict[str, str | None] = {}
        self.world.clock.advance(0)
        for packet in peer.take(PING_CHANNEL):
            if isinstance(packet, wire.ClusterTopologyV4):
                found[packet.node_id] = None if packet.backup is None else str(dict(packet.backup.parameters)["port"])
            elif isinstance(packet, wire.ClusterTopologyV2):
                found[packet.node_id] = "left"
        return found

    def test_the_table(self) -> None:
        self.assertEqual(self.told(self.client), {"a": "2", "b": "3", "c": "1"})
        self.assertEqual(self.told(self.other), {"a": None, "b": None, "c": None})

    def test_a_departure_changes_the_one_before(self) -> None:
        self.told(self.client), self.told(self.other)
        self.topology.lost("b")
        self.assertEqual(self.told(self.client), {"b": "left", "a": "3"})
        self.assertEqual(self.told(self.other), {"b": "left"})

    def test_so_does_an_arrival(self) -> None:
        self.told(self.client), self.told(self.other)
        self.topology.up(member("ab", 10, 7))
        self.assertEqual(self.told(self.client), {"ab": "2", "a": "7"})
        self.assertEqual(self.told(self.other), {"ab": None})

    def test_who_is_left_out_is_no_backup(self) -> None:
        self.told(self.client), self.told(self.other)
        self.topology.leave_out(["b"])
        self.assertEqual(self.told(self.client)["a"], "3")
        self.assertEqual(self.told(self.other), {})
        self.topology.leave_out(["b"])
        self.assertEqual(self.told(self.client), {})
        self.topology.lost("c")
        self.assertEqual(self.told(self.client), {"c": "left", "b": "1", "a": "2"})
        self.topology.leave_out([])
        self.assertEqual(self.told(self.client)["a"], "2")

    def test_a_client_of_a_broker_that_was_taken_over_finds_its_node_here(self) -> None:
        own = self.world.server.node_id
        self.topology.own(connector(9))
        self.told(self.client)
        [connection] = [each for each in self.world.server.connections.values() if not each.cluster_authorized]
        self.topology.appear_as(connection, own)
        self.assertEqual(self.told(self.client), {})
        self.topology.appear_as(connection, "lost")
        self.assertEqual(list(self.told(self.client)), ["lost"])
        self.topology.leave_out(["a"])
        told = self.told(self.client)
        self.assertIn("lost", told)
        self.assertNotIn(own, told)
        late = subscribed(self.world)
        self.assertIn(own, self.told(late))
        self.topology.unsubscribe(connection)
        self.assertEqual(self.topology._appears, {})


class TakenOverTests(SynchronousTestCase):
    """The broker "c" has taken over "b", and a client of "b" comes to it; "a" and "d" are the other members."""

    def setUp(self) -> None:
        self.world, self.cluster = cluster_world()
        self.topology = self.cluster.topology = ClusterTopology("c", self.world.clock, stand_ins=True)
        self.topology.own(connector(3), attempts=0)
        for number, name in ((1, "a"), (2, "b"), (4, "d")):
            self.topology.up(member(name, self.world.clock.wall_ms() + number, number))
        self.known = Topology()
        """What the client knows."""
        self.heed(subscribed(self.world))
        self.world.clock.advance(5)
        self.topology.lost("b")

    def come(self) -> Peer:
        peer = self.world.peer()
        self.topology.appear_as(peer.connection, "b")
        peer.version = 136
        peer.send(wire.SubscribeTopologyV2(False, 136), PING_CHANNEL)
        return peer

    def heed(self, peer: Peer) -> None:
        self.world.clock.advance(0)
        for packet in peer.take(PING_CHANNEL):
            if isinstance(packet, wire.ClusterTopologyV4):
                self.known.up(TopologyMember(packet.node_id, packet.unique_event_id, packet.primary, packet.backup))
            elif isinstance(packet, wire.ClusterTopologyV2):
                self.known.down(packet.node_id, packet.unique_event_id)

    @property
    def pair(self) -> list[str | None]:
        """The ports of the client's node and of who stands in for it, as the client knows them."""
        found = self.known.get("b")
        assert found is not None
        return [None if each is None else str(dict(each.parameters)["port"]) for each in (found.primary, found.backup)]

    def test_the_client_heeds_that_its_node_is_here(self) -> None:
        self.assertEqual(self.pair, ["2", "3"])
        self.heed(self.come())
        self.assertEqual(self.pair, ["3", "4"])

    def test_it_does_so_after_a_refusal_during_the_takeover(self) -> None:
        self.world.clock.advance(1)
        self.known.up(member("b", self.world.clock.wall_ms(), 2))
        self.heed(self.come())
        self.assertEqual(self.pair, ["3", "4"])

    def test_it_does_so_when_it_has_heard_that_its_node_has_left(self) -> None:
        self.known.down("b", self.topology.left_at("b"))
        self.world.clock.seconds -= 10
        self.heed(self.come())
        self.assertEqual(self.pair, ["3", "4"])

    def test_it_hears_who_stands_in_next(self) -> None:
        peer = self.come()
        self.heed(peer)
        self.topology.lost("d")
        self.heed(peer)
        self.assertEqual(self.pair, ["3", "1"])

    def test_it_hears_nothing_of_the_lost_node_itself(self) -> None:
        peer = self.come()
        self.heed(peer)
        late = member("b", self.world.clock.wall_ms() + 10_000, 2)
        self.topology.announced(late)
        self.heed(peer)
        self.topology.subscribe(peer.connection)
        self.heed(peer)
        self.topology.lost("b")
        self.heed(peer)
        self.assertEqual(self.pair, ["3", "4"])
