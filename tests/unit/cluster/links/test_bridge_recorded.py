"""The links that real brokers opened to each other, played to this broker packet by packet."""

from __future__ import annotations

import itertools
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE
from mqclient.wire.message import decode_message
from tests.support.broker import Peer, World
from tests.unit.cluster.support import Clustered, cluster_world, connector
from tests.unit.mqclient.wire.vectors import VECTORS, load

UNTIMED = ("PING", "PACKETS_CONFIRMED", "CLUSTER_TOPOLOGY_V4", "CLUSTER_TOPOLOGY_V2", "DISCONNECT_V3", "SESS_RECEIVE_MSG")
"""What is sent by time, or because of what others do."""


class RecordedBridgeTests(SynchronousTestCase):
    def play(self, recorded: dict[str, Any]) -> tuple[World, Clustered, Peer, list[tuple[int, wire.Packet]]]:
        """Send everything that the other broker sent."""
        world, cluster = cluster_world(cluster_user="clusterUser", cluster_password="clusterSecret")
        for name in ("DLQ", "ExpiryQueue"):
            world.session(username="admin", password="secret").create_queue(name)
        cluster.topology.own(connector(61616))
        peer = world.peer(handshake=False)
        peer.feed(PREAMBLE)
        for entry in recorded["frames"]:
            if entry["dir"] == "c2s":
                peer.feed(bytes.fromhex(entry["hex"]))
                world.clock.advance(0)
        return world, cluster, peer, peer.read()

    def links(self, scenario: str) -> list[dict[str, Any]]:
        """The links with two sessions, as they were before they were closed."""
        found: list[dict[str, Any]] = []
        for connection in load(VECTORS / "cluster-2.44.0" / f"{scenario}.json")["connections"]:
            open_until = itertools.takewhile(lambda entry: entry["name"] not in ("SESS_CLOSE", "SESS_CONSUMER_CLOSE"), connection["frames"])
            frames = list(open_until)
            if {"CLUSTER_CONNECT", "CREATE_QUEUE_V2"} <= {entry["name"] for entry in frames}:
                found.append({"name": connection["name"], "frames": frames})
        return found

    def test_links_are_served_as_recorded(self) -> None:
        played = 0
        for scenario in ("cluster-formation", "cluster-forwarding", "cluster-redistribution", "udp-discovery"):
            for recorded in self.links(scenario):
                world, cluster, peer, answers = self.play(recorded)
                self.assertFalse(peer.transport.closed, (scenario, recorded["name"]))
                for channel in (1, 3, 10, 11):
                    expected = [
                        entry["name"]
                        for entry in recorded["frames"]
                        if entry["dir"] == "s2c" and entry["channel"] == channel and entry["name"] not in UNTIMED
                    ]
                    found = [packet.NAME for at, packet in answers if at == channel and packet.NAME not in UNTIMED]
                    self.assertEqual(found, expected, (scenario, recorded["name"], channel))
                self.check_announcement(recorded, cluster)
                self.check_topology(world, answers)
                self.check_queue_info(world, answers)
                played += 1
        self.assertGreater(played, 5)

    def check_announcement(self, recorded: dict[str, Any], cluster: Clustered) -> None:
        (data,) = (bytes.fromhex(entry["hex"]) for entry in recorded["frames"] if entry["name"] == "NODE_ANNOUNCE")
        announced = wire.decode_packet(111, data[13:], 136)
        assert isinstance(announced, wire.NodeAnnounce)
        found = cluster.topology.get(announced.node_id)
        assert found is not None
        self.assertEqual((found.unique_event_id, found.primary), (announced.event_id, announced.connector))

    def check_topology(self, world: World, answers: list[tuple[int, wire.Packet]]) -> None:
        told: list[Any] = [packet for at, packet in answers if at == PING_CHANNEL and packet.NAME == "CLUSTER_TOPOLOGY_V4"]
        self.assertEqual(sum(packet.last for packet in told), 1)
        self.assertIn(world.server.node_id, {packet.node_id for packet in told})

    def check_queue_info(self, world: World, answers: list[tuple[int, wire.Packet]]) -> None:
        kinds: list[object] = []
        for at, packet in answers:
            if at == 11 and isinstance(packet, wire.SessionReceive):
                values = {name: value for name, (_, value) in decode_message(packet.message).properties.items()}
                kinds.append((values.get("_AMQ_NotifType") or next(iter(values)), values.get("_AMQ_RoutingName")))
        begin = kinds.index(("_AMQ_RESET_QUEUE_DATA", None))
        self.assertEqual(
            kinds[begin + 1 : begin + 4],
            [("BINDING_ADDED", "DLQ"), ("BINDING_ADDED", "ExpiryQueue"), ("_AMQ_RESET_QUEUE_DATA_COMPLETE", None)],
        )
