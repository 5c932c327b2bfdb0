"""A client that finds its brokers by their announcements, and what it makes of a topology that changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.factories.locator import Locator
from mqclient.errors import ConnectionTimedOutError, NotConnectedError, ObjectClosedError
from mqclient.protocol.discovery import (
    DiscoveryGroupConfiguration,
    Endpoint,
    UdpEndpoint,
    check_endpoint,
    encode_announcement,
)
from mqclient.wire.packets import ClusterTopologyV4, DisconnectV3
from mqclient.wire.primitives import TransportConfiguration
from tests.support.network import NODE_ID, FakeRuntime, ScriptedBroker, World, connector, pending
from tests.unit.mqclient.core.discovery.support import Ether, EtherLink

GROUP = UdpEndpoint("231.7.7.7", 9876)
OTHER_NODE = "22222222-2222-11ee-8888-000000000002"
THIRD_NODE = "33333333-2222-11ee-8888-000000000003"


class EtherRuntime(FakeRuntime):
    ether: Ether

    def open_broadcast(self, endpoint: Endpoint, received: Callable[[bytes, str], None] | None) -> EtherLink:
        check_endpoint(endpoint)
        if self.ether.refusal is not None:
            raise NotConnectedError(self.ether.refusal)
        return EtherLink(self.ether, endpoint, received)


class DiscoveryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **settings: Any) -> None:
        self.brokers = [ScriptedBroker() for _ in range(3)]
        self.world = World(*self.brokers)
        self.ether = Ether()
        runtime = EtherRuntime(self.world.clock, self.world.network)
        runtime.ether = self.ether
        self.world.runtime = runtime
        self.world.locator = Locator(runtime, DiscoveryGroupConfiguration(GROUP, 10000, 3000), LocatorSettings(**settings))

    def announce(self, node_id: str, *connectors: TransportConfiguration) -> None:
        self.ether.send(GROUP, encode_announcement(node_id, "u", connectors))
        self.world.network.stir()

    def failure(self, call: Any) -> Any:
        return self.failureResultOf(call).value

    def test_it_listens_from_the_first_connection_on(self) -> None:
        self.assertEqual(self.ether.links, [])
        call = self.world.locator.create_session_factory()
        self.assertEqual(len(self.ether.links), 1)
        self.assertTrue(pending(call))
        self.announce(NODE_ID, connector(61617))
        self.assertEqual(self.world.finish(call).connector, connector(61617))
        self.assertEqual(self.world.network.tried, ["61617"])
        self.assertEqual(list(self.world.locator.connectors), [connector(61617)])

    def test_it_does_not_wait_when_a_broker_is_known(self) -> None:
        call = self.world.locator.create_session_factory()
        self.announce(NODE_ID, connector(61616))
        self.world.finish(call)
        self.announce(OTHER_NODE, connector(61617))
        self.world.factory()
        self.assertEqual(len(self.world.network.tried), 2)

    def test_of_several_connectors_the_first_is_taken(self) -> None:
        call = self.world.locator.create_session_factory()
        self.announce(NODE_ID, connector(61618), connector(61617))
        self.assertEqual(self.world.finish(call).connector, connector(61618))

    def test_nobody_announces_himself(self) -> None:
        call = self.world.locator.create_session_factory()
        self.world.advance(2.9)
        self.assertTrue(pending(call))
        self.world.advance(0.2)
        error = self.failure(call)
        self.assertIsInstance(error, ConnectionTimedOutError)
        self.assertIn("AMQ219012", str(error))

    def test_it_waits_once_for_each_initial_attempt(self) -> None:
        self.start(initial_connect_attempts=3)
        call = self.world.locator.create_session_factory()
        self.world.advance(8.9)
        self.assertTrue(pending(call))
        self.world.advance(0.2)
        self.assertIsInstance(self.failure(call), ConnectionTimedOutError)

    def test_without_end(self) -> None:
        self.start(initial_connect_attempts=-1)
        call = self.world.locator.create_session_factory()
        self.world.advance(100, step=1.0)
        self.announce(NODE_ID, connector(61616))
        self.world.finish(call)

    def test_a_broker_that_is_not_open_yet_and_one_that_appears_meanwhile(self) -> None:
        self.start(initial_connect_attempts=5)
        call = self.world.locator.create_session_factory()
        self.announce(NODE_ID, connector(7777))
        self.assertTrue(pending(call))
        self.announce(OTHER_NODE, connector(61617))
        self.world.advance(2.1)
        self.assertEqual(self.world.finish(call).connector, connector(61617))

    def test_the_system_refuses(self) -> None:
        self.ether.refusal = "no such device"
        error = self.failure(self.world.locator.create_session_factory())
        self.assertIsInstance(error, NotConnectedError)
        self.assertIn("no such device", str(error))

    def test_the_system_refuses_for_a_while(self) -> None:
        self.start(initial_connect_attempts=2)
        self.ether.refusal = "no such device"
        call = self.world.locator.create_session_factory()
        self.ether.refusal = None
        self.world.advance(2.0)
        self.announce(NODE_ID, connector(61616))
        self.world.finish(call)

    def test_closing_while_it_waits(self) -> None:
        call = self.world.locator.create_session_factory()
        self.world.finish(self.world.locator.close())
        self.assertIsInstance(self.failure(call), ObjectClosedError)
        self.assertEqual(self.ether.links, [])
        self.assertEqual(self.world.clock.getDelayedCalls(), [])

    def test_closing_ends_the_listening(self) -> None:
        call = self.world.locator.create_session_factory()
        self.announce(NODE_ID, connector(61616))
        self.world.finish(call)
        self.world.finish(self.world.locator.close())
        self.assertEqual(self.ether.links, [])
        self.assertEqual(list(self.world.locator.connectors), [])

    def test_a_broker_that_falls_silent_is_forgotten(self) -> None:
        call = self.world.locator.create_session_factory()
        self.announce(NODE_ID, connector(61616))
        self.world.finish(call)
        self.world.advance(10.1, step=1.0)
        self.assertEqual(list(self.world.locator.connectors), [])

    def test_the_topology_takes_over_and_needs_no_announcement(self) -> None:
        self.brokers[0].topology = [
            ClusterTopologyV4(False, NODE_ID, 1, primary=connector(61616), server_version=136),
            ClusterTopologyV4(False, OTHER_NODE, 1, primary=connector(61617), last=True, server_version=136),
        ]
        call = self.world.locator.create_session_factory()
        self.announce(NODE_ID, connector(61616))
        self.world.finish(call)
        self.world.advance(11, step=1.0)
        self.world.factory()
        self.assertEqual(set(self.world.network.tried), {"61616", "61617"})

    def test_a_group_that_cannot_be_used(self) -> None:
        reserved = DiscoveryGroupConfiguration(UdpEndpoint("224.0.0.0", 9876))
        self.assertIn("reserved", str(self.assertRaises(ValueError, Locator, self.world.runtime, reserved)))


class ChangingTopologyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.brokers = [ScriptedBroker() for _ in range(3)]
        self.brokers[0].topology = [
            ClusterTopologyV4(False, NODE_ID, 1, primary=connector(61616), server_version=136),
            ClusterTopologyV4(False, OTHER_NODE, 1, primary=connector(61617), server_version=136),
            ClusterTopologyV4(False, THIRD_NODE, 1, primary=connector(61618), last=True, server_version=136),
        ]

    def start(self, **settings: Any) -> None:
        settings = {"reconnect_attempts": 2, "retry_interval": 100, "ha": True, **settings}
        self.world = World(*self.brokers, **settings)
        self.session = self.world.session()
        self.world.network.tried.clear()

    def scaled_down(self, target: str | None) -> None:
        self.brokers[0].deliver(0, DisconnectV3(NODE_ID, 2, target))
        self.world.network.stir()

    def test_after_a_scale_down_the_target_is_tried_first(self) -> None:
        self.start()
        self.scaled_down(THIRD_NODE)
        self.assertEqual(self.world.network.tried, ["61618"])
        self.assertEqual(self.session.factory.connector, connector(61618))

    def test_also_where_only_other_nodes_are_asked_for(self) -> None:
        self.start(reconnect_attempts=0, failover_attempts=1)
        self.scaled_down(THIRD_NODE)
        self.assertEqual(self.world.network.tried, ["61618"])

    def test_a_target_that_nobody_knows(self) -> None:
        self.start()
        self.scaled_down("somewhere else")
        self.assertEqual(self.world.network.tried, ["61616"])

    def test_a_target_that_is_not_there(self) -> None:
        self.start()
        del self.world.network.brokers["61618"]
        self.scaled_down(THIRD_NODE)
        self.assertEqual(self.world.network.tried, ["61618", "61616"])

    def test_the_target_is_forgotten_once_it_was_reached(self) -> None:
        self.start()
        self.scaled_down(THIRD_NODE)
        self.world.finish(self.session.queue_query("q"))
        self.world.advance(1)
        self.world.network.tried.clear()
        del self.world.network.brokers["61618"]
        self.world.network.link.cut()
        self.world.network.stir()
        self.assertEqual(self.world.network.tried, ["61618", "61616"], "the connection in use, then those before it")

    def test_a_node_that_lives_elsewhere_by_now(self) -> None:
        self.start()
        moved = ClusterTopologyV4(False, NODE_ID, 9, primary=TransportConfiguration("n", "netty", (("host", "x"), ("port", "61618"))))
        moved.server_version = 136
        self.brokers[0].deliver(0, moved)
        del self.world.network.brokers["61616"]
        self.world.network.link.cut()
        self.world.network.stir()
        self.assertEqual(self.world.network.tried, ["61616", "61618"])

    def test_other_nodes_are_those_of_the_topology_of_the_moment(self) -> None:
        self.start(reconnect_attempts=0, failover_attempts=1)
        self.brokers[0].deliver(0, ClusterTopologyV4(True, OTHER_NODE, 9))
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        self.world.network.stir()
        self.assertEqual(self.world.network.tried, ["61618"])

    def test_topology_listeners(self) -> None:
        self.start()
        told: list[tuple[str, bool]] = []

        def listener(member: Any, up: bool) -> None:
            told.append((member.node_id, up))

        self.world.locator.add_topology_listener(listener)
        self.assertEqual(told, [(NODE_ID, True), (OTHER_NODE, True), (THIRD_NODE, True)])
        self.scaled_down(THIRD_NODE)
        self.assertIn((NODE_ID, False), told)
        count = len(told)
        self.world.locator.remove_topology_listener(listener)
        self.brokers[2].deliver(0, ClusterTopologyV4(False, "another", 9, primary=connector(1), server_version=136))
        self.assertEqual(len(told), count)
        self.assertRaises(ValueError, self.world.locator.remove_topology_listener, listener)

    def test_a_topology_listener_that_fails_does_no_harm(self) -> None:
        self.start()

        def listener(member: Any, up: bool) -> None:
            raise KeyError("of the application")

        self.world.locator.add_topology_listener(listener)
        self.brokers[0].deliver(0, ClusterTopologyV4(True, OTHER_NODE, 9))
        self.assertEqual(len(self.world.runtime.failures), 4)
        self.assertFalse(self.session.closed)
        self.assertIsNone(self.world.locator.topology.get(OTHER_NODE))

    def test_without_the_topology_only_the_own_connectors_count(self) -> None:
        self.brokers.pop()
        self.start(use_topology_for_load_balancing=False)
        for _ in range(4):
            self.world.factory()
        self.assertEqual(set(self.world.network.tried), {"61616", "61617"})

    def test_a_policy_of_the_application(self) -> None:
        self.start(connection_load_balancing_policy_class_name="tests.unit.mqclient.protocol.test_retry.LastElement")
        for _ in range(3):
            self.world.factory()
        self.assertEqual(self.world.network.tried, ["61618"] * 3)
