"""Stream messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
)
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.jms.messages.values import Short


class StreamTests(SynchronousTestCase):
    def test_stream_items_convert_or_stay(self) -> None:
        message = StreamMessage(["12", Short(3)])
        message.write_char("c")
        self.assertRaises(MessageNotReadableException, message.read_int)
        message.reset()
        self.assertEqual(message.read_byte(), 12)
        self.assertRaises(MessageFormatException, message.read_float)
        self.assertEqual((message.read_long(), message.read_char()), (3, "c"))
        self.assertRaises(MessageEOFException, message.read_object)
        self.assertEqual(list(message), ["12", 3, "c"])
