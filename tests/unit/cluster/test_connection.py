"""A cluster connection from its start to its end, with links that the test plays."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster import connection as connection_module
from mqbroker.cluster.connection import ClusterConnection
from mqbroker.cluster.membership.discovery import DiscoveryGroup
from mqbroker.cluster.membership.load import LinkedTo, LoadOwner
from mqbroker.cluster.membership.member import Member
from mqbroker.cluster.membership.store_and_forward import StoreAndForwardLoad, StoreAndForwardLoads
from mqbroker.cluster.remote_queues.ways import Ways
from mqbroker.config.model.cluster import ClusterConnectionConfiguration, DiscoveryGroupConfiguration
from mqbroker.messaging.queues.queue import Queue
from mqclient.errors import DisconnectedError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.protocol.discovery import encode_announcement
from mqclient.protocol.topology import place
from mqclient.wire.packets import REASON_SCALE_DOWN
from tests.support.broker import World
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.cluster.flow_support import OTHER, PEER, reset
from tests.unit.cluster.support import connector, member
from tests.unit.mqclient.core.discovery.support import GROUP


class PlayedLink:
    """A bridge that says what the test wants."""

    def __init__(self, told: LinkedTo) -> None:
        self.member = told
        self.stopped = False

    def start(self) -> None: ...

    def stop(self) -> object:
        self.stopped = True
        return self

    def figures(self) -> dict[str, Any]:
        return {}


def carried(found: Member) -> StoreAndForwardLoad:
    """What the link to the member carries."""
    assert isinstance(found.load, StoreAndForwardLoad)
    return found.load


class ConnectionTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.world = World(clock=self.clock)
        self.runtime = MemoryRuntime(self.clock)
        self.links: dict[str, PlayedLink] = {}
        self.static = [connector(2)]
        messaging = self.world.server.messaging
        self.core = messaging.core
        configuration = ClusterConnectionConfiguration("c", "self")
        ways = Ways(messaging.core, lambda binding: None)
        self.loads = StoreAndForwardLoads(
            self.world.server, configuration, ways, messaging.redistribution.consumer_appeared, make_link=self.make_link
        )
        self.connection = ClusterConnection(
            self.world.server,
            configuration,
            connector(1),
            self.static,
            None,
            self.runtime,
            self.loads,
        )
        self.connection.start()

    def tearDown(self) -> None:
        self.connection.stop()
        self.assertEqual(self.runtime.failures, [])

    def make_link(self, connection: LoadOwner, queue: Queue, told: LinkedTo) -> PlayedLink:
        link = self.links[told.node_id] = PlayedLink(told)
        return link

    def appear(self, node_id: str, event_id: int) -> Member:
        """A member is announced, and the link to it comes up."""
        self.connection.topology.up(member(node_id, event_id, 3))
        found = self.connection.members[node_id]
        carried(found).flow.begin()
        carried(found).flow.handle(reset())
        found.started(None)  # type: ignore[arg-type]
        return found

    def scale_down(self, leaving: Member, target: str) -> None:
        notice = DisconnectReceived(leaving.node_id, reason=REASON_SCALE_DOWN, target_node_id=target, connector=None)
        leaving.lost(DisconnectedError("it has left"), notice)


class StopTests(ConnectionTestCase):
    def test_the_end_of_the_broker_waits_for_links_that_management_is_stopping(self) -> None:
        self.appear(PEER, 1)
        waited_for = self.connection.stop()
        self.assertEqual(waited_for, [self.links[PEER]])
        self.assertEqual(self.connection.stop(), waited_for)


class ScaleDownTests(ConnectionTestCase):
    def test_only_a_member_that_leaves_its_messages_to_another_one_leaves_for_good(self) -> None:
        told: list[str] = []
        self.connection.topology.scaled_down.subscribe(told.append)
        leaving, stopping = self.appear(PEER, 1), self.appear(OTHER, 1)
        stop = DisconnectReceived(OTHER, reason=REASON_SCALE_DOWN, target_node_id=None, connector=None)
        stopping.lost(DisconnectedError("it has left"), stop)
        self.scale_down(leaving, OTHER)
        self.assertEqual(told, [PEER])


class PlaceTests(ConnectionTestCase):
    def test_places_without_a_member(self) -> None:
        """Where this broker is, and primaries and backups of members, nobody needs to look."""
        self.static[:] = [connector(number) for number in range(1, 6)]
        self.connection.topology.up(member(PEER, 1, 3, 4))
        self.connection.topology.up(member(OTHER, 1, None, 5))
        self.assertEqual(self.connection.unknown_places(), [connector(2)])

    def test_a_thousand_members_at_a_thousand_places(self) -> None:
        looked_at: list[object] = []
        self.patch(connection_module, "place", lambda each: looked_at.append(each) or place(each))
        self.static[:] = [connector(number) for number in range(1000, 2000)]
        for number in range(900):
            self.connection.topology.up(member(f"node {number}", 1, None, 3000 + number))
        self.assertEqual(len(self.connection.unknown_places()), 1000)
        self.assertLess(len(looked_at), 2000)


class RestartTests(ConnectionTestCase):
    """Stopped and started again by management."""

    def setUp(self) -> None:
        super().setUp()
        self.connection.stop()
        self.connection.start()

    def test_it_has_links_to_the_members_from_before(self) -> None:
        self.appear(PEER, 1)
        self.connection.stop()
        self.assertTrue(self.links.pop(PEER).stopped)
        self.connection.start()
        self.assertEqual(list(self.links), [PEER])

    def test_it_looks_for_members_again(self) -> None:
        self.connection.scanner.look()
        self.clock.advance(0.6)
        self.assertEqual(self.connection.scanner.rounds, 1)

    def test_it_looks_for_brokers_with_its_node_id_again(self) -> None:
        self.connection.topology.contested(connector(7))
        self.clock.advance(1)
        self.assertIn("7", self.runtime.tried)

    def test_it_visits_again_whom_it_suspected_before(self) -> None:
        """Else it would say for ever that there is another broker with its node id, although that has gone meanwhile."""
        self.connection.topology.contested(connector(7))
        self.connection.stop()
        self.clock.advance(1)
        self.assertNotIn("7", self.runtime.tried)
        self.connection.start()
        self.clock.advance(1)
        self.assertIn("7", self.runtime.tried)


class RivalTests(ConnectionTestCase):
    def test_a_discovered_broker_with_the_own_node_id_contests_it_until_the_stop(self) -> None:
        self.connection.stop()
        group = DiscoveryGroup("g", DiscoveryGroupConfiguration("g", GROUP), self.runtime, self.world.server.node_id, "own")  # type: ignore[arg-type]
        self.connection._discovery = group
        places: list[Any] = []
        self.connection.topology.contested.subscribe(lambda connector: places.append(place(connector)))
        self.connection.start()
        hear = group.discovered.received
        for unique_id, port in (("own", 1), ("former life", 1), ("rival", 2)):
            hear(encode_announcement(self.world.server.node_id, unique_id, [connector(port)]), "10.0.0.1:3001", 0.0)
        self.assertEqual(places, [place(connector(2))])
        self.assertEqual(self.connection.contested_by, ["a place that was discovered, and has not answered"])
        self.connection.stop()
        hear(encode_announcement(self.world.server.node_id, "rival", [connector(2)]), "10.0.0.1:3001", 1.0)
        self.assertEqual(len(places), 1)


class PartingTests(ConnectionTestCase):
    """Members that there is to be no link to."""

    def test_a_link_that_was_given_up_is_not_made_again_before_the_member_announces_itself_anew(self) -> None:
        self.appear(PEER, 1)
        self.connection.part(PEER)
        self.assertTrue(self.links[PEER].stopped)
        self.connection.topology.up(member(PEER, 1, 3))
        self.assertEqual(list(self.connection.members), [])
        self.connection.topology.up(member(PEER, 2, 3))
        self.assertEqual(list(self.connection.members), [PEER])

    def test_nothing_is_known_of_a_member_that_is_not_there(self) -> None:
        self.connection.part(PEER)
        self.connection.topology.up(member(PEER, 1, 3))
        self.assertEqual(list(self.connection.members), [PEER])

    def test_other_places_end_links_to_members_elsewhere_and_make_those_that_were_given_up(self) -> None:
        self.appear(PEER, 1)
        self.connection.topology.up(member(OTHER, 1, 4))
        self.connection.part(OTHER)
        self.connection.change_static([connector(4), connector(5)])
        self.assertEqual(list(self.connection.members), [OTHER])
        self.assertEqual([each.node_id for each in self.connection.topology if each.node_id == PEER], [])
        self.assertEqual(self.connection.unknown_places(), [connector(5)])
        self.assertTrue(self.links[PEER].stopped)
