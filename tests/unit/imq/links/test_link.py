"""What the link to a member carries, from its first connection to its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.bridge import Bridge
from mqbroker.cluster.membership.member import Member
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeLoads
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.errors import NotConnectedError
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.frames import CLUSTER_CHANNEL
from mqclient.wire.packets import NodeAnnounce
from tests.support.broker import World
from tests.support.clock import START_MS, FakeClock
from tests.support.held_store import HeldStore
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.cluster.support import cluster_world, connector, joined, member
from tests.unit.imq.support import node_id


class Factory:
    """A connection whose sessions are what they were asked for."""

    def __init__(self) -> None:
        self.connector = connector(7)
        self.connection = Mock()

    async def create_session(self, *args: Any, **more: Any) -> Any:
        return args, more


class LinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.links = HomeLinks()
        self.told: list[tuple[str, bool]] = []
        self.links.linked.subscribe(lambda found: self.told.append(("linked", found.up)))
        self.links.unlinked.subscribe(lambda found: self.told.append(("unlinked", found.up)))
        clock = FakeClock()
        locators = SimpleNamespace(credentials=ClusterCredentials("cu", "cp"), topology=None, greet=None)
        self.owner: Any = SimpleNamespace(
            name="imq",
            configuration=ClusterConnectionConfiguration("imq", "self"),
            runtime=MemoryRuntime(clock),
            locators=locators,
            topology=ClusterTopology("a", clock),
        )
        self.load = HomeLoads(self.links, lambda there: 3 if there == "b" else 0).load(self.owner, member("b", 1))
        self.factory: Any = Factory()

    def connect(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.load.connected(self.factory)))
        self.load.started()

    def test_it_is_kept_up_by_a_bridge_that_takes_no_messages(self) -> None:
        link = self.load.make_link(Mock(node_id="b", connectors=lambda: [connector(7)]))
        assert isinstance(link, Bridge)
        self.assertEqual((link.name, self.load.waiting, list(self.load.rows())), ("imq.b", 0, []))
        self.assertNotIn("messagesForwarded", link.figures())

    def test_a_member_is_linked_while_the_link_is_up(self) -> None:
        self.assertEqual(self.links.members, {})
        self.connect()
        self.assertEqual([found.name for found in self.links.members.values()], ["127.0.0.1:7"])
        self.load.disconnected()
        self.load.disconnected()
        self.assertEqual((self.told, self.links.members), ([("linked", True), ("unlinked", False)], {}))

    def test_it_ends_with_the_member_and_with_this_brokers_part_in_the_cluster(self) -> None:
        for end in (self.load.end, lambda: self.load.move_to("c") or self.load.end(), lambda: self.load.forgotten(False)):
            self.connect()
            end()
            self.assertEqual(self.links.members, {})

    def test_sessions_are_those_of_the_cluster_user(self) -> None:
        self.connect()
        found = self.links.members["b"]
        args, more = self.successResultOf(Deferred.fromCoroutine(found.open_session(xa=True)))
        self.assertEqual((args, more["xa"], more["pre_acknowledge"], more["auto_commit_acks"]), (("cu", "cp"), True, False, True))
        _, transacted = self.successResultOf(Deferred.fromCoroutine(found.open_session(transacted=True)))
        self.assertFalse(transacted["auto_commit_acks"] or transacted["auto_commit_sends"])
        self.load.disconnected()
        self.failureResultOf(Deferred.fromCoroutine(found.open_session()), NotConnectedError)

    def test_a_link_whose_peer_cannot_be_trusted_is_given_up(self) -> None:
        self.connect()
        found = self.links.members["b"]
        found.fail(NotConnectedError("odd"))
        self.factory.connection.fail.assert_called_once()
        self.load.disconnected()
        found.fail(NotConnectedError("again"))
        self.factory.connection.fail.assert_called_once()

    def test_its_figures(self) -> None:
        self.assertEqual(self.load.figures(), {"remoteConsumers": 3})
        self.assertEqual([(name, read()) for name, _, read in self.load.series()], [("cluster.link.remote.consumers", 3)])


class ReturnTests(SynchronousTestCase):
    """A member at port 1, to which an attempt is made every 5 s; its own links arrive at this broker."""

    def setUp(self) -> None:
        self.world, cluster = cluster_world()
        self.clock = self.world.clock
        store = HeldStore()
        self.node_id = store.node_id = node_id(2)
        self.there = World(clock=self.clock, store=store)
        self.runtime = MemoryRuntime(self.clock)
        self.links = HomeLinks()
        self.topology = cluster.topology
        locators = SimpleNamespace(credentials=ClusterCredentials("cu", "cp"), topology=self.topology, greet=None)
        owner: Any = SimpleNamespace(
            name="imq",
            configuration=ClusterConnectionConfiguration("imq", "self", retry_interval=5000, max_retry_interval=5000),
            runtime=self.runtime,
            locators=locators,
            topology=self.topology,
            clock=self.clock,
            turn=self.world.server.turn,
            member_up=self.topology.found_again,
            member_gone=lambda gone: gone.load.forgotten(True),
            link_stopping=lambda stopped: None,
        )
        announced = TopologyMember(self.node_id, START_MS, connector(1))
        self.topology.up(announced)
        self.member = Member(owner, announced, HomeLoads(self.links, lambda there: 0).load(owner, announced))

    def stir(self) -> None:
        for _ in range(1000):
            self.clock.advance(0)
            busy = [link.move(1 << 20) for link in list(self.runtime.links)]
            if not any(busy) and not self.clock.due:
                return
        raise AssertionError("the brokers talk without end")

    def start(self, *, reachable: bool) -> None:
        self.reach(reachable)
        self.member.start()
        self.stir()

    def reach(self, reachable: bool) -> None:
        self.runtime.targets = {"1": self.there} if reachable else {}

    def arrive(self, of: str | None = None) -> None:
        """A link of a member arrives."""
        announcement = NodeAnnounce(of or self.node_id, None, False, START_MS, connector(1))
        joined(self.world).send(announcement, CLUSTER_CHANNEL)

    @property
    def attempts(self) -> int:
        return len(self.runtime.tried)

    def test_a_member_whose_link_arrives_is_linked_in_the_next_turn(self) -> None:
        self.start(reachable=False)
        self.clock.advance(1)
        self.reach(True)
        self.arrive()
        self.assertEqual(self.attempts, 1)
        self.stir()
        self.assertEqual((self.attempts, list(self.links.members)), (2, [self.node_id]))
        self.assertEqual(self.clock.seconds, 1)

    def test_so_is_one_whose_link_was_lost(self) -> None:
        self.start(reachable=True)
        self.runtime.links[-1].cut()
        self.stir()
        self.assertEqual(list(self.links.members), [])
        self.arrive()
        self.stir()
        self.assertEqual((self.attempts, list(self.links.members)), (2, [self.node_id]))

    def test_nothing_happens_while_the_link_is_made_or_up(self) -> None:
        self.reach(True)
        self.member.start()
        self.arrive()
        self.stir()
        self.assertEqual((self.attempts, self.member.state), (1, "connected"))
        self.arrive()
        self.stir()
        self.clock.advance(60)
        self.assertEqual((self.attempts, self.member.connections), (1, 1))

    def test_nothing_happens_for_another_member(self) -> None:
        self.start(reachable=False)
        self.arrive("somebody else")
        self.arrive(self.world.server.node_id)
        self.stir()
        self.assertEqual(self.attempts, 1)
        self.clock.advance(5)
        self.assertEqual(self.attempts, 2)

    def test_one_that_cannot_be_reached_is_dialed_twice_in_5_s_at_most_however_often_its_links_arrive(self) -> None:
        self.start(reachable=False)
        for _ in range(600):
            self.arrive()
            self.stir()
            self.clock.advance(0.1)
        self.assertLessEqual(self.attempts, 1 + 2 * 12)
        self.assertGreater(self.attempts, 12)

    def test_nobody_listens_for_a_member_that_is_forgotten(self) -> None:
        self.start(reachable=False)
        self.member.stop()
        self.arrive()
        self.stir()
        self.assertEqual((self.attempts, self.topology.heard_from.listeners), (1, []))
