"""What a store-and-forward queue sends for a message: route ids and duplicate id, everything else as it was."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.outgoing import Outgoing, StoreAndForward, link_id, node_id_bytes
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.messaging.message.message import Message
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import CoreMessage, decode_headers, decode_message
from mqclient.wire.packets import SessionSend, decode_packet
from mqclient.wire.properties import BYTES, INT, STRING, TypedValue
from tests.support.held_store import FakeBody
from tests.unit.cluster.bridge_support import NODE_ID
from tests.unit.mqclient.wire.vectors import VECTORS, load

QUEUE = "$.artemis.internal.sf.my-cluster.node-b"
IDS = struct.pack(">qq", 25, 21)


def message(properties: dict[str, TypedValue], body: bytes = b"body", **values: Any) -> Message:
    found = Message.of(CoreMessage(77, "news.sport", properties=properties, body=body, **values))
    found.message_id = 77
    return found


def sent(outgoing: Outgoing | None) -> CoreMessage:
    assert outgoing is not None
    data = b"".join(outgoing.parts)
    assert len(data) == outgoing.size
    if outgoing.read is not None:
        found = decode_headers(data)
        found.body = outgoing.read(0, outgoing.body_size)
        return found
    return decode_message(data)


class StoreAndForwardTests(SynchronousTestCase):
    def test_a_message_that_goes_two_ways_to_one_broker_has_two_duplicate_ids(self) -> None:
        """Each link names other queues: with one id the broker would refuse what comes second, and these queues would lose the message."""
        node, target = str(UUID(bytes=NODE_ID)), "f" * 36
        connections = [ClusterConnectionConfiguration(name, "here") for name in ("first", "second")]
        names = [f"$.artemis.internal.sf.{each.name}.{target}" for each in connections]
        twofold = message({f"_AMQ_ROUTE_TO{name}": (BYTES, IDS[8 * place : 8 * place + 8]) for place, name in enumerate(names)})
        ids = []
        for name in names:
            again = [sent(StoreAndForward(name, link_id(node, name, connections), 102400)(twofold)) for _ in range(2)]
            self.assertEqual(again[0].properties["_AMQ_BRIDGE_DUP"], again[1].properties["_AMQ_BRIDGE_DUP"])
            ids.append(again[0].properties["_AMQ_BRIDGE_DUP"])
        self.assertEqual(ids[0], (BYTES, NODE_ID + struct.pack(">q", 77)))
        self.assertNotEqual(ids[0], ids[1])

    def test_ids_of_this_target_and_a_duplicate_id_are_sent(self) -> None:
        original = message(
            {
                "color": (STRING, "red"),
                "_AMQ_ROUTE_TO$.artemis.internal.sf.my-cluster.node-c": (BYTES, b"other..."),
                f"_AMQ_ROUTE_TO{QUEUE}": (BYTES, IDS),
                "size": (INT, 3),
            },
            durable=False,
            priority=7,
            user_id=bytes(16),
        )
        before = original.buffer
        outgoing = StoreAndForward(QUEUE, NODE_ID, 102400)(original)
        found = sent(outgoing)
        assert outgoing is not None
        self.assertEqual(outgoing.address, "news.sport")
        self.assertEqual(
            list(found.properties.items()),
            [
                ("color", (STRING, "red")),
                ("size", (INT, 3)),
                ("_AMQ_ROUTE_TO", (BYTES, IDS)),
                ("_AMQ_BRIDGE_DUP", (BYTES, NODE_ID + struct.pack(">q", 77))),
            ],
        )
        self.assertEqual(
            (found.body, found.address, found.priority, found.durable, found.user_id), (b"body", "news.sport", 7, False, bytes(16))
        )
        self.assertEqual(original.buffer, before)

    def test_without_duplicate_detection_only_the_ids_are_added(self) -> None:
        found = sent(StoreAndForward(QUEUE, None, 102400)(message({f"_AMQ_ROUTE_TO{QUEUE}": (BYTES, IDS)})))
        self.assertEqual(found.properties, {"_AMQ_ROUTE_TO": (BYTES, IDS)})

    def test_what_names_no_binding_of_the_target_is_not_sent(self) -> None:
        outgoing = StoreAndForward(QUEUE, NODE_ID, 102400)
        self.assertIsNone(outgoing(message({})))
        self.assertIsNone(outgoing(message({"_AMQ_ROUTE_TOelsewhere": (BYTES, IDS)})))
        self.assertIsNone(outgoing(message({f"_AMQ_ROUTE_TO{QUEUE}": (BYTES, b"")})))
        self.assertIsNone(outgoing(message({f"_AMQ_ROUTE_TO{QUEUE}": (STRING, "25")})))
        self.assertIsNone(outgoing(message({"text": (STRING, f"_AMQ_ROUTE_TO{QUEUE}")})))

    def test_a_large_body_goes_in_pieces(self) -> None:
        body = FakeBody(1)
        body.append(b"0123456789")
        original = message({f"_AMQ_ROUTE_TO{QUEUE}": (BYTES, IDS)}, b"")
        large = Message.of(original.decoded(), body)
        large.message_id = 77
        outgoing = StoreAndForward(QUEUE, NODE_ID, 102400)(large)
        assert outgoing is not None and outgoing.read is not None
        self.assertEqual((outgoing.body_size, outgoing.read(2, 3), outgoing.was_large), (10, b"234", True))
        self.assertEqual(list(sent(outgoing).properties), ["_AMQ_ROUTE_TO", "_AMQ_BRIDGE_DUP"])

    def test_so_does_a_regular_body_beyond_the_least_large_size_of_the_link(self) -> None:
        original = message({f"_AMQ_ROUTE_TO{QUEUE}": (BYTES, IDS)}, b"x" * 1000)
        self.assertIsNone(getattr(StoreAndForward(QUEUE, None, 1004)(original), "read", 0))
        outgoing = StoreAndForward(QUEUE, None, 1003)(original)
        assert outgoing is not None and outgoing.read is not None
        self.assertEqual((outgoing.body_size, outgoing.read(0, 2000), outgoing.was_large), (1000, b"x" * 1000, False))
        self.assertEqual((sent(outgoing).address, sent(outgoing).properties), ("news.sport", {"_AMQ_ROUTE_TO": (BYTES, IDS)}))

    def test_what_real_brokers_forward_is_sent_by_this_one_too(self) -> None:
        """Recorded links: undo what the bridge did to each message, and let this one do it."""
        compared = 0
        for connection in load(VECTORS / "cluster-2.44.0" / "cluster-forwarding.json")["connections"]:
            for frame in connection["frames"]:
                if frame["name"] != "SESS_SEND" or frame["channel"] != 10 or frame["dir"] != "c2s":
                    continue
                packet = decode_packet(frame["type"], bytes.fromhex(frame["hex"])[13:], 136)
                assert isinstance(packet, SessionSend)
                recorded = decode_message(packet.message)
                ids, duplicate = recorded.properties["_AMQ_ROUTE_TO"], recorded.properties["_AMQ_BRIDGE_DUP"]
                assert isinstance(duplicate[1], bytes)
                before = {key: value for key, value in recorded.properties.items() if key not in ("_AMQ_ROUTE_TO", "_AMQ_BRIDGE_DUP")}
                stored = Message.of(replace(recorded, properties={f"_AMQ_ROUTE_TO{QUEUE}": ids, **before}))
                found = sent(StoreAndForward(QUEUE, duplicate[1][:16], 5000)(stored))
                self.assertEqual(found, recorded)
                compared += 1
        self.assertEqual(compared, 7)

    def test_a_damaged_table_is_refused(self) -> None:
        original = message({f"_AMQ_ROUTE_TO{QUEUE}": (BYTES, IDS)})
        original.buffer = original.buffer[:-3]
        with self.assertRaises(MalformedPacketError):
            StoreAndForward(QUEUE, NODE_ID, 102400)(original)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "bb", "_AMQ_ROUTE_TO", f"_AMQ_ROUTE_TO{QUEUE}", "_AMQ_ROUTE_TOx", "_AMQ_GROUP_ID", ""]),
                st.one_of(
                    st.binary(max_size=20).map(lambda value: (BYTES, value)),
                    st.text(max_size=5).map(lambda value: (STRING, value)),
                    st.integers(0, 9).map(lambda value: (INT, value)),
                ),
            ),
            max_size=8,
        ),
        st.binary(max_size=40),
    )
    def test_everything_else_stays_as_it_was(self, entries: list[tuple[str, TypedValue]], body: bytes) -> None:
        original = message(dict(entries), body)
        outgoing = StoreAndForward(QUEUE, NODE_ID, 102400)(original)
        ids = dict(entries).get(f"_AMQ_ROUTE_TO{QUEUE}")
        if ids is None or ids[0] != BYTES or not ids[1]:
            self.assertIsNone(outgoing)
            return
        found = sent(outgoing)
        kept = {key: value for key, value in dict(entries).items() if not key.startswith("_AMQ_ROUTE_TO")}
        kept["_AMQ_ROUTE_TO"] = ids
        kept["_AMQ_BRIDGE_DUP"] = (BYTES, NODE_ID + struct.pack(">q", 77))
        self.assertEqual((list(found.properties.items()), found.body), (list(kept.items()), body))

    def test_a_node_id_has_16_bytes(self) -> None:
        self.assertEqual(node_id_bytes("00010203-0405-0607-0809-0a0b0c0d0e0f"), NODE_ID)
        self.assertRaises(ValueError, node_id_bytes, "00010203")
        self.assertRaises(ValueError, node_id_bytes, "node")
