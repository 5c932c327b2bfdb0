"""What a message reads from its bytes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import MEMORY_PER_MESSAGE, Message
from mqclient.wire.message import CoreMessage, encode_message
from mqclient.wire.properties import BOOLEAN, STRING


def message_of(priority: int = 4) -> Message:
    return Message.of(CoreMessage(7, "a", bytes(16), 3, True, 55, 66, priority, {"k": (STRING, "v")}, b"body"))


class MessageTest(SynchronousTestCase):
    def test_priority_beyond_the_range_counts_as_the_nearest(self) -> None:
        for sent, expected in ((0, 0), (9, 9), (10, 9), (127, 9), (-1, 0), (-128, 0)):
            self.assertEqual(message_of(sent).priority, expected)

    def test_headers_are_read_from_the_bytes(self) -> None:
        message = message_of()
        self.assertEqual((message.timestamp, message.expiration, message.durable), (66, 55, True))
        properties = len(message.buffer) - message.properties_offset
        self.assertEqual(message.memory, MEMORY_PER_MESSAGE + len(message.buffer) + properties)

    def test_changed_priority_is_the_only_change(self) -> None:
        message = message_of()
        message.set_priority(8)
        self.assertEqual(message.priority, 8)
        self.assertEqual(message.buffer, encode_message(CoreMessage(7, "a", bytes(16), 3, True, 55, 66, 8, {"k": (STRING, "v")}, b"body")))

    def test_flagged_says_one_thing_more(self) -> None:
        for properties in ({}, {"k": (STRING, "v")}, {"k": (BOOLEAN, False)}):
            content = CoreMessage(7, "a", bytes(16), 3, True, 55, 66, 4, dict(properties), b"body")
            message = Message.of(content)
            before = message.buffer
            content.properties["k" if "k" not in properties else "first"] = (BOOLEAN, True)
            flagged = message.flagged("k" if "k" not in properties else "first")
            self.assertEqual(flagged.decoded(), content)
            self.assertEqual((flagged.message_id, flagged.buffer), (7, encode_message(content)))
            self.assertEqual(message.buffer, before)
        self.assertEqual(message_of().flagged("k").decoded().properties, {"k": (BOOLEAN, True)})
