"""Map messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import (
    MessageFormatException,
)
from mqclient.jms.messages.map_message import MapMessage


class MapTests(SynchronousTestCase):
    def test_map(self) -> None:
        message = MapMessage({"a": 1})
        message.set_long("l", 1)
        message.set_bytes("b", b"x")
        self.assertEqual((message.get_long("a"), message.get_string("l"), message.get_bytes("b"), message.get("z", 5)), (1, "1", b"x", 5))
        self.assertEqual((sorted(message), len(message), "a" in message), (["a", "b", "l"], 3, True))
        self.assertRaises(MessageFormatException, message.get_int, "l")
        self.assertRaises(ValueError, message.set_int, "", 1)
        with self.assertRaises(KeyError):
            _ = message["missing"]
