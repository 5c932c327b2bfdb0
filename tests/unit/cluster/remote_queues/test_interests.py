"""The filter by which a member asks for notifications."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import TestCase

from mqbroker.cluster.remote_queues.interests import Interests
from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.message import Message
from mqclient.wire.frames import HEADER_SIZE
from mqclient.wire.message import CoreMessage
from mqclient.wire.packets import CreateQueueV2, decode_packet
from mqclient.wire.properties import INT, STRING, TypedValue

VECTORS = Path(__file__).resolve().parents[4] / "protocol-spec" / "vectors" / "cluster-2.44.0"
INTERNAL = "$.artemis.internal.sf."


def interests(address: str = "", max_hops: int = 1) -> Interests:
    return Interests(address, max_hops, "activemq.notifications", (INTERNAL, "activemq.management"))


def passes(asked: Interests, kind: str = "BINDING_ADDED", address: str = "orders", distance: int = 0, **more: TypedValue) -> bool:
    properties: dict[str, TypedValue] = {
        "_AMQ_NotifType": (STRING, kind),
        "_AMQ_Address": (STRING, address),
        "_AMQ_Distance": (INT, distance),
        **more,
    }
    filter = parse_filter(asked.filter_string())
    assert filter is not None
    return filter.matches(Message.of(CoreMessage(message_id=1, address="activemq.notifications", properties=properties)))


class FilterTests(TestCase):
    def test_is_the_text_that_artemis_sends(self) -> None:
        conversation = json.loads((VECTORS / "cluster-formation.json").read_text("utf-8"))
        recorded = [
            decode_packet(frame["type"], bytes.fromhex(frame["hex"])[HEADER_SIZE:], 136)
            for connection in conversation["connections"]
            for frame in connection["frames"]
            if frame["name"] == "CREATE_QUEUE_V2"
        ]
        asked = {
            packet.filter_string for packet in recorded if isinstance(packet, CreateQueueV2) and packet.queue_name.startswith("notif.")
        }
        self.assertEqual({interests().filter_string()}, asked)

    def test_distance_is_below_the_hops(self) -> None:
        self.assertTrue(passes(interests(max_hops=2), distance=1))
        self.assertFalse(passes(interests(max_hops=2), distance=2))
        self.assertFalse(passes(interests(max_hops=0)))

    def test_internal_addresses_stay_where_they_are(self) -> None:
        for address in (f"{INTERNAL}c.n", "activemq.management", "activemq.notifications"):
            self.assertFalse(passes(interests(), address=address), address)
            self.assertFalse(interests().cover(address), address)

    def test_sessions_pass_whatever_address_they_have(self) -> None:
        self.assertTrue(passes(interests(), "SESSION_CREATED", "activemq.notifications"))

    def test_diverts_do_not_pass(self) -> None:
        self.assertFalse(passes(interests(), _AMQ_Binding_Type=(INT, 2)))
        self.assertTrue(passes(interests(), _AMQ_Binding_Type=(INT, 1)))

    def test_prefixes_include_and_exclude(self) -> None:
        asked = interests("jms.eu, jms.us,!jms.us.ca")
        for address, expected in (("jms.eu.it", True), ("jms.us.tx", True), ("jms.us.ca.1", False), ("other", False)):
            self.assertEqual(passes(asked, address=address), expected, address)
            self.assertEqual(asked.cover(address), expected, address)

    def test_only_exclusions_include_everything_else(self) -> None:
        asked = interests("!private")
        for address, expected in (("private.x", False), ("public", True)):
            self.assertEqual(passes(asked, address=address), expected, address)
            self.assertEqual(asked.cover(address), expected, address)

    def test_signs_with_a_meaning_in_filters_stand_for_themselves(self) -> None:
        asked = interests("my_app,it's,100%,back\\slash_")
        for address, expected in (("my_app.q", True), ("myXapp.q", False), ("it's me", True), ("100%.a", True), ("100a", False)):
            self.assertEqual(passes(asked, address=address), expected, address)
        self.assertTrue(passes(asked, address="back\\slash_1"))
