"""The login at other brokers, and the announcement to them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.locators import REFUSERS_MAX, MemberLocators
from mqbroker.cluster.membership.topology import ClusterTopology
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.errors import ClusterSecurityError
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply, NodeAnnounce
from mqclient.wire.primitives import TransportConfiguration
from tests.support.clock import START_MS, FakeClock
from tests.unit.cluster.support import connector, member

OWN = "own"


class Peer:
    """A connection to a broker that takes the password or does not."""

    def __init__(self, port: int, takes: bool = True) -> None:
        self.connector: TransportConfiguration = connector(port)
        self.cluster_channel = self
        self.error: Exception | None = None
        self.sent: list[object] = []
        self._takes = takes

    async def call(self, packet: ClusterConnect, _: type[ClusterConnectReply]) -> ClusterConnectReply:
        return ClusterConnectReply(self._takes)

    def send(self, packet: object) -> None:
        self.sent.append(packet)


def announcements(peer: Peer) -> list[NodeAnnounce]:
    return [packet for packet in peer.sent if isinstance(packet, NodeAnnounce)]


class GreetingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.topology = ClusterTopology(OWN, FakeClock())
        runtime: Any = None
        configuration = ClusterConnectionConfiguration("c", "self", call_timeout=7)
        self.locators = MemberLocators(configuration, runtime, ClusterCredentials("u", "p"), self.topology, connector(1))

    def greet(self, peer: Peer) -> Deferred[None]:
        connection: Any = peer
        return Deferred.fromCoroutine(self.locators.greet(connection))

    def test_a_broker_that_takes_the_password_is_told_of_this_one(self) -> None:
        self.topology.own(connector(1), scale_down_group_name="g", attempts=0)
        self.topology.backup_announced(TopologyMember(OWN, 2, backup=connector(4)), 2)
        peer = Peer(2)
        self.successResultOf(self.greet(peer))
        (packet,) = peer.sent
        assert isinstance(packet, NodeAnnounce)
        self.assertEqual((packet.node_id, packet.backup, packet.connector), (OWN, False, connector(1)))
        self.assertEqual((packet.backup_connector, packet.scale_down_group_name), (connector(4), "g"))

    def test_who_was_told_of_this_broker_is_told_again_when_its_event_id_is_raised(self) -> None:
        """A member that knows a later announcement, of another place, opens no link to this broker, by which it would hear of changes."""
        self.topology.own(connector(1), attempts=0)
        there, gone, refuses = Peer(2), Peer(3), Peer(4, takes=False)
        for peer in (there, gone):
            self.successResultOf(self.greet(peer))
        self.failureResultOf(self.greet(refuses), ClusterSecurityError)
        gone.error = ClusterSecurityError("lost")
        self.topology.up(member(OWN, START_MS + 20_000, port=5))
        self.topology.clear_rival()
        self.assertEqual([packet.event_id for packet in announcements(there)], [START_MS, START_MS + 20_001])
        self.assertEqual((len(gone.sent), refuses.sent), (1, []))

    def test_a_broker_without_an_announcement_of_its_own_only_logs_in(self) -> None:
        peer = Peer(2)
        self.successResultOf(self.greet(peer))
        self.assertEqual(peer.sent, [])

    def test_each_broker_that_refuses_is_named_once_and_not_without_end(self) -> None:
        self.topology.own(connector(1), attempts=0)
        with capturedLogs() as events:
            for _ in range(2):
                for number in range(REFUSERS_MAX + 1):
                    peer = Peer(1000 + number, takes=False)
                    self.failureResultOf(self.greet(peer), ClusterSecurityError)
                    self.assertEqual(peer.sent, [])
        self.assertEqual([event["place"] for event in events], [f"127.0.0.1:{1000 + number}" for number in range(REFUSERS_MAX)])

    def test_the_options_of_the_cluster_connection_hold_for_its_connections(self) -> None:
        settings = self.locators.settings()
        self.assertEqual((settings.call_timeout, settings.ha, settings.reconnect_attempts), (7, True, 0))
