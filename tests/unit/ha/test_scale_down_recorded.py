"""A real broker that leaves, as recorded, gives its messages to this one."""

from __future__ import annotations

import struct
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text
from mqclient.wire.frames import PREAMBLE
from mqclient.wire.message import KEY_DUPLICATE_ID, KEY_ROUTE_TO, decode_message
from mqclient.wire.properties import STRING, bytes_property
from tests.support.broker import Peer, World
from tests.support.held_store import HeldStore
from tests.unit.cluster.support import CONNECTIONS, Clustered
from tests.unit.mqclient.wire.vectors import VECTORS, load

TARGET = "9b3b19f6-e542-11f1-bd0d-e7691674723e"
RECORDED_QUEUE_ID = 89
UNTIMED = ("PING", "CLUSTER_TOPOLOGY_V4", "CLUSTER_TOPOLOGY_V2", "SESS_PRODUCER_CREDITS", "SESS_RECEIVE_MSG")
"""What other members have told the recorded broker, and what may be a little earlier or later."""


class RecordedScaleDownTests(SynchronousTestCase):
    def setUp(self) -> None:
        store = HeldStore()
        store.node_id = TARGET
        configuration = Configuration(cluster_user="clusterUser", cluster_password="clusterSecret", cluster_connections=CONNECTIONS)
        self.world = World(configuration, store=store)
        Clustered(self.world)
        (self.recorded,) = (
            each
            for each in load(VECTORS / "cluster-2.44.0" / "cluster-scale-down.json")["connections"]
            if "SCALEDOWN_ANNOUNCEMENT" in {frame["name"] for frame in each["frames"]}
        )

    def play(self) -> list[tuple[int, wire.Packet]]:
        """Send what the leaving broker sent, with the number that the queue has here."""
        peer: Peer = self.world.peer(handshake=False)
        peer.feed(PREAMBLE)
        for entry in self.recorded["frames"]:
            if entry["dir"] == "c2s":
                peer.feed(self.renumbered(bytes.fromhex(entry["hex"])))
                self.world.clock.advance(0)
        self.assertFalse(peer.transport.closed)
        return peer.read()

    def renumbered(self, data: bytes) -> bytes:
        key = KEY_ROUTE_TO.encode("utf-16-le")
        told = bytes_property(key, struct.pack(">q", RECORDED_QUEUE_ID))
        if key not in data:
            return data
        self.assertIn(told, data)
        return data.replace(told, bytes_property(key, struct.pack(">q", self.world.queue("sd.q").queue_id)))

    def test_its_messages_and_duplicate_ids_are_here(self) -> None:
        answers = self.play()
        for channel in (1, 3, 10, 11, 12, 13):
            expected = [each["name"] for each in self.recorded["frames"] if each["dir"] == "s2c" and each["channel"] == channel]
            found = [packet.NAME for at, packet in answers if at == channel]
            self.assertEqual(*([name for name in names if name not in UNTIMED] for names in (found, expected)), f"channel {channel}")
        bodies = [decode_text(each.message.decoded().body) for each in self.world.queue("sd.q").references]
        self.assertEqual(bodies, ["moves to B 1", "moves to B 2"])
        client = self.world.session(username="admin", password="secret")
        client.publish(b"again", address="sd.q", properties={KEY_DUPLICATE_ID: (STRING, "sd-dup")})
        self.assertEqual(self.world.queue("sd.q").message_count, 2, "the duplicate id has come along")

    def test_the_number_of_a_queue_that_is_not_there_is_refused_as_recorded(self) -> None:
        replies: list[Any] = [
            {name: value for name, (_, value) in decode_message(packet.message).properties.items()}
            for at, packet in self.play()
            if at == 10 and isinstance(packet, wire.SessionReceive)
        ]
        self.assertEqual([each["_AMQ_OperationSucceeded"] for each in replies], [False, True])
