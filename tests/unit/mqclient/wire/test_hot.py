"""The packets of the message path, in every layout."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as p
from tests.unit.mqclient.wire.test_golden import raw

HEADERS = "0000000000000005 01000000026100 00 00 00 0000000000000000 0000000000000000 00 00"


MESSAGE = bytes.fromhex("00000011 00000007" + HEADERS)


class LayoutTests(SynchronousTestCase):
    def test_send_in_every_layout(self) -> None:
        old = "00000015 00000007 0000003d" + HEADERS
        layouts: list[tuple[int, bytes]] = [
            (128, raw(old + "ff")),
            (129, MESSAGE + raw("ff")),
            (130, MESSAGE + raw("ff fffffffffffffffd")),
            (134, MESSAGE + raw("ff fffffffffffffffd 00000001")),
        ]
        packet = p.SessionSend(MESSAGE, True, -3, 1)
        for version, body in layouts:
            self.assertEqual(p.encode_packet(packet, version), body)
            found: Any = p.decode_packet(71, body, version)
            self.assertEqual((found.message, found.requires_response), (MESSAGE, True))
            self.assertEqual(found.correlation_id, -3 if version >= 130 else 0)
            self.assertEqual(found.sender_id, 1 if version >= 134 else -1)

    def test_delivery_in_both_layouts(self) -> None:
        packet = p.SessionReceive(MESSAGE, 1, 2)
        trailer = "0000000000000001 00000002"
        for version, body in ((128, raw("00000015 00000007 0000003d" + HEADERS + trailer)), (129, MESSAGE + raw(trailer))):
            self.assertEqual(p.encode_packet(packet, version), body)
            self.assertEqual(p.decode_packet(75, body, version), packet)
