"""The greeting of a broker to another, and its cluster channel."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import (
    ClusterSecurityError,
    ConnectionTimedOutError,
    MQError,
)
from mqclient.protocol.topology import Topology, TopologyMember
from mqclient.wire.frames import CLUSTER_CHANNEL, REPLICATION_CHANNEL
from mqclient.wire.packets import (
    BackupRegistrationFailed,
    ClusterConnect,
    ClusterConnectReply,
    DisconnectV3,
    NodeAnnounce,
    SubscribeTopologyV2,
)
from tests.support.network import NODE_ID, ScriptedBroker, World, connector, pending
from tests.unit.mqclient.core.sending.test_encoded_sends import link_world


class GreetingTests(SynchronousTestCase):
    def test_brokers_are_greeted_before_the_subscription(self) -> None:
        broker = ScriptedBroker()
        link_world(broker).factory()
        self.assertEqual(broker.names(), ["CLUSTER_CONNECT", "NODE_ANNOUNCE", "SUBSCRIBE_TOPOLOGY_V2"])
        [subscription] = broker.got(SubscribeTopologyV2)
        self.assertTrue(subscription.cluster_connection)
        self.assertEqual([channel for channel, packet in broker.received_packets if isinstance(packet, NodeAnnounce)], [3])

    def test_other_clients_say_nothing_on_the_cluster_channel(self) -> None:
        broker = ScriptedBroker()
        World(broker).factory()
        [subscription] = broker.got(SubscribeTopologyV2)
        self.assertFalse(subscription.cluster_connection)
        self.assertEqual(broker.names(), ["SUBSCRIBE_TOPOLOGY_V2"])

    def test_a_greeting_that_fails_fails_the_connection(self) -> None:
        broker = ScriptedBroker()
        world = link_world(broker)
        broker.answers[ClusterConnect] = lambda packet: ClusterConnectReply(False)
        with self.assertRaises(ClusterSecurityError):
            world.factory()
        self.assertTrue(world.network.link.closed_by_client)

    def test_a_peer_that_does_not_answer_the_greeting_is_given_up(self) -> None:
        broker = ScriptedBroker()
        world = link_world(broker, call_timeout=1000)
        broker.silent.add(ClusterConnect)
        opening = world.locator.create_session_factory()
        world.advance(0.9)
        self.assertTrue(pending(opening))
        world.advance(0.2)
        self.failureResultOf(opening, ConnectionTimedOutError)

    def test_a_connection_lost_while_it_is_greeted_fails_the_call(self) -> None:
        broker = ScriptedBroker()
        world = link_world(broker)
        broker.silent.add(ClusterConnect)
        opening = world.locator.create_session_factory()
        world.network.stir()
        world.network.link.cut()
        self.failureResultOf(opening, MQError)

    def test_announcements_go_into_the_topology_that_was_given(self) -> None:
        topology = Topology()
        topology.up(TopologyMember("known before", 1, connector(1)))
        world = link_world(ScriptedBroker(), topology)
        world.factory()
        self.assertEqual([member.node_id for member in topology], ["known before", NODE_ID])
        self.assertIs(world.locator.topology, topology)

    def test_a_link_is_not_moved_to_where_the_broker_sends_its_clients(self) -> None:
        broker = ScriptedBroker()
        world = link_world(broker)
        factory = world.factory()
        session = world.session(factory)
        broker.deliver(0, DisconnectV3(NODE_ID, 0, None, connector(61700)))
        self.assertTrue(session.closed)
        self.assertEqual(world.network.tried, ["61616"])
        disconnect = factory.disconnect
        assert disconnect is not None and disconnect.connector is not None
        self.assertEqual((disconnect.node_id, disconnect.reason), (NODE_ID, 0))


class Frames:
    """The handler of a channel between brokers."""

    def __init__(self) -> None:
        self.types: list[int] = []

    def frame_received(self, packet_type: int, frame: bytes) -> None:
        self.types.append(packet_type)

    def flush_confirmations(self) -> None: ...

    def link_paused(self) -> None: ...

    def link_resumed(self) -> None: ...


class BetweenBrokersTests(SynchronousTestCase):
    def test_a_broker_may_listen_for_packets_that_answer_no_call_and_on_other_channels(self) -> None:
        broker = ScriptedBroker()
        world = link_world(broker)
        connection = world.factory().connection
        assert connection is not None
        refusals: list[BackupRegistrationFailed] = []
        frames = Frames()
        connection.cluster_channel.listen(BackupRegistrationFailed, refusals.append)
        connection.open_channel(REPLICATION_CHANNEL, frames)
        broker.deliver(CLUSTER_CHANNEL, BackupRegistrationFailed(2))
        broker.deliver(CLUSTER_CHANNEL, NodeAnnounce("n", None, False, 1, None))  # nobody listens for it
        broker.deliver(REPLICATION_CHANNEL, BackupRegistrationFailed(0))
        self.assertEqual((refusals, frames.types), ([BackupRegistrationFailed(2)], [BackupRegistrationFailed.TYPE]))
