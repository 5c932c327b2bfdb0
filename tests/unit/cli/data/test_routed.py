"""Stored messages as ones to send."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.cli.data.routed import to_queues
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, KEY_ROUTE_TO, CoreMessage
from mqclient.wire.properties import BOOLEAN, BYTES, LONG, STRING


class RoutedTests(TestCase):
    def test_headers_and_properties_stay(self) -> None:
        source = CoreMessage(type=3, priority=7, expiration=8, timestamp=9, user_id=bytes(16), properties={"p": (STRING, "v")})
        message = to_queues(source, [1, 2], (b"a", b"b"), large=False)
        self.assertEqual((message.type, message.priority, message.expiration, message.timestamp, message.user_id), (3, 7, 8, 9, bytes(16)))
        self.assertEqual((message.durable, message.body), (True, b"ab"))
        routes = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
        self.assertEqual(message.properties, {"p": (STRING, "v"), KEY_ROUTE_TO: (BYTES, routes)})

    def test_a_large_body_is_streamed(self) -> None:
        body = iter((b"a", b"b"))
        message = to_queues(CoreMessage(properties={KEY_LARGE_SIZE: (LONG, 2)}), [1], body, large=True)
        self.assertIs(message.body_source, body)
        self.assertNotIn(KEY_LARGE_SIZE, message.properties)

    def test_a_compressed_body_says_how_long_it_was(self) -> None:
        source = CoreMessage(properties={KEY_LARGE_COMPRESSED: (BOOLEAN, True), KEY_LARGE_SIZE: (LONG, 50_000)})
        for large in (False, True):
            self.assertEqual(to_queues(source, [1], (b"zipped",), large).properties[KEY_LARGE_SIZE], (LONG, 50_000))
