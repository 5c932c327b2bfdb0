"""Whatever a peer sends on the cluster channel costs only its own connection."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.topology import CONNECTOR_LENGTH_MAX, NAME_LENGTH_MAX
from mqbroker.cluster.membership.votes import FAILOVER_VOTE
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, PING_CHANNEL, frame
from mqclient.wire.primitives import TransportConfiguration
from tests.support.broker import Peer, World
from tests.unit.cluster.support import cluster_world, connector, joined, subscribed

TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(("\ud800", "x" * (NAME_LENGTH_MAX + 1), "a\0b")))
VALUES = st.one_of(TEXTS, st.booleans(), st.integers(-(2**31), 2**31 - 1), st.just("v" * CONNECTOR_LENGTH_MAX))
CONNECTORS = st.none() | st.builds(TransportConfiguration, TEXTS, TEXTS, st.lists(st.tuples(TEXTS, VALUES), max_size=4).map(tuple))
EVENTS = st.integers(-(2**63), 2**63 - 1)
PACKETS = st.one_of(
    st.builds(wire.ClusterConnect, TEXTS, TEXTS),
    st.builds(wire.NodeAnnounce, TEXTS, st.none() | TEXTS, st.booleans(), EVENTS, CONNECTORS, CONNECTORS, st.none() | TEXTS),
    st.builds(wire.QuorumVote, st.sampled_from((FAILOVER_VOTE, "RequestBackupQuorumVote", "")), st.binary(max_size=12)),
    st.builds(wire.ScaleDownAnnouncement, TEXTS, TEXTS),
    st.builds(wire.ClusterConnectReply, st.booleans()),
    st.builds(wire.BackupRegistration, TEXTS, TEXTS, st.booleans(), st.just(connector(1))),
)
FRAMES = st.one_of(
    PACKETS.map(lambda packet: frame(packet.TYPE, CLUSTER_CHANNEL, wire.encode_packet(packet, 136))),
    st.builds(frame, st.sampled_from((125, 126, 111, 115, 116, 127, -1, -2, -3, -6)), st.just(CLUSTER_CHANNEL), st.binary(max_size=30)),
    st.builds(frame, st.sampled_from((112, 113)), st.just(PING_CHANNEL), st.binary(max_size=6)),
)


class HostileTests(SynchronousTestCase):
    @settings(max_examples=60, deadline=None)
    @given(st.booleans(), st.lists(FRAMES, max_size=12))
    def test_anything_on_the_channel(self, member: bool, frames: list[bytes]) -> None:
        world, cluster = cluster_world()
        cluster.topology.own(connector(61616), attempts=0)
        hostile = joined(world) if member else world.peer()
        for data in frames:
            if not hostile.transport.closed:
                hostile.feed(data)
        world.clock.advance(1)
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertIsNotNone(cluster.topology.get(world.server.node_id))
        if not member:
            self.assertEqual(len(cluster.topology), 1)
        self.check_others(world)

    def check_others(self, world: World) -> None:
        other: Peer = subscribed(world)
        told = other.take(PING_CHANNEL)
        self.assertTrue(told)
        self.assertEqual([packet.last for packet in told][-1], True)  # type: ignore[attr-defined]
        joined(world)
