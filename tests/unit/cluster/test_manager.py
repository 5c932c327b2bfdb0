"""All cluster connections of a broker, as its server asks them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.manager import ClusterManager
from mqclient.protocol.topology import TopologyMember
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, SESSION_CHANNEL
from tests.support.broker import World
from tests.unit.cluster.bridge_support import connector
from tests.unit.cluster.support import KnownOthers


class PlayedTopology:
    rival = None

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.told.append((name, args[0] if args else None))


class PlayedConnection:
    """A cluster connection whose end the test brings about."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.topology = PlayedTopology()
        self.contested_by: list[str] = []
        self.started = False
        self.stopped: Deferred[None] = Deferred()

    def start(self) -> None:
        self.started = True

    def stop(self) -> list[Deferred[None]]:
        return [self.stopped]


class ManagerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.first, self.second = PlayedConnection("first"), PlayedConnection("second")
        self.ways_stopped: list[bool] = []
        ways: Any = SimpleNamespace(stop=lambda: self.ways_stopped.append(True))
        connections: Any = [self.first, self.second]
        self.manager = ClusterManager(World().server, connections, ways)

    def test_a_peer_hears_of_the_topology_that_its_acceptor_names_else_of_the_first(self) -> None:
        for name, expected in (("second", self.second), ("first", self.first), (None, self.first), ("unknown", self.first)):
            peer: Any = SimpleNamespace(cluster_connection=name)
            self.manager.subscribe(peer)
            self.manager.writable(peer)
            self.manager.ended(peer)
            self.assertEqual(expected.topology.told[-3:], [("subscribe", peer), ("writable", peer), ("unsubscribe", peer)])

    def test_all_are_started_and_their_ends_are_waited_for(self) -> None:
        self.manager.start()
        self.assertTrue(self.first.started and self.second.started)
        stopped = self.manager.stop()
        self.first.stopped.callback(None)
        self.assertNoResult(stopped)
        self.second.stopped.errback(ValueError("failed on its way"))
        self.successResultOf(stopped)
        self.assertEqual(self.ways_stopped, [True])

    def test_a_rival_with_the_same_node_id_is_a_problem_of_health(self) -> None:
        self.assertIsNone(self.manager.problem())
        self.second.contested_by = ["h:1", "h:2"]
        self.assertEqual(self.manager.problem(), "another broker has the node id of this one: h:1, h:2")


class SuccessorTests(SynchronousTestCase):
    """Which clients of other nodes go on here (B10.7)."""

    def answer(self, node_id: str | None, served: bool, successor: TopologyMember | None = None) -> list[Any]:
        world = World()
        successors: Any = SimpleNamespace(serves=lambda node: served, has=lambda node: False, successor_of=lambda node: successor)
        connections: Any = [PlayedConnection("first")]
        self.manager = ClusterManager(world.server, connections, SimpleNamespace(), successors)  # type: ignore[arg-type]
        world.server.others = KnownOthers(cluster=self.manager)
        peer = world.peer()
        peer.send(wire.CheckForFailover(node_id), SESSION_CHANNEL)
        return [*peer.take(PING_CHANNEL), *peer.take(SESSION_CHANNEL)]

    def test_a_client_of_a_node_whose_data_are_here_goes_on(self) -> None:
        self.assertEqual(self.answer("node", True), [wire.CheckForFailoverReply(True)])
        self.assertEqual(self.answer(None, False), [wire.CheckForFailoverReply(True)])

    def test_another_one_is_refused_and_told_who_has_them(self) -> None:
        self.assertEqual(self.answer("node", False), [wire.CheckForFailoverReply(False)])
        taker = connector(3)
        told, refusal = self.answer("node", False, TopologyMember("node", 7, taker))
        self.assertEqual(refusal, wire.CheckForFailoverReply(False))
        self.assertEqual((told.exit, told.node_id, told.unique_event_id, told.primary), (False, "node", 7, taker))
