"""Messages: their bodies and properties against what the Java client put on the wire, and the rules of JMS for reading and writing them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.jms.destinations import Destination, Queue, TemporaryQueue, Topic
from mqclient.jms.exceptions import (
    MessageFormatException,
    MessageNotWriteableException,
)
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.conversion import from_core, to_core
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import Message
from mqclient.jms.messages.simple_messages import ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.jms.messages.values import Short
from mqclient.wire.message import CoreMessage


class NoLargeBodies:
    def read(self, message: ClientMessage) -> bytes:
        raise AssertionError("no body is large here")

    def save(self, message: ClientMessage, file: object) -> None:
        raise AssertionError("no body is large here")


def received(core: CoreMessage, expected: Destination | None = None, **fields: Any) -> Message:
    """The JMS message for a message as the broker delivers it."""
    names = list(CoreMessage.__dataclass_fields__)
    return from_core(ClientMessage(**{name: getattr(core, name) for name in names}, **fields), expected, NoLargeBodies())


class HeaderTests(SynchronousTestCase):
    def test_setting(self) -> None:
        message = Message()
        message.correlation_id = "c"
        message.correlation_id_bytes = b"c"
        self.assertIsNone(message.correlation_id)
        message.reply_to = Topic("t")
        message.type = "x"
        message.group_id, message.group_sequence = "g", 1
        message.reply_to = message.type = None
        self.assertEqual(set(message._core.properties), {"JMSCorrelationID", "_AMQ_GROUP_ID", "_AMQ_GROUP_SEQUENCE"})

    def test_a_header_of_another_type_is_refused(self) -> None:
        """A value of another type would be sent, and the receiver would find none."""
        for name, wrong in (("correlation_id", 5), ("correlation_id_bytes", "c"), ("type", 5), ("group_id", 5), ("group_sequence", "1")):
            self.assertRaises(MessageFormatException, setattr, Message(), name, wrong)

    def test_redelivery(self) -> None:
        first, again = received(CoreMessage(), delivery_count=1), received(CoreMessage(), delivery_count=2)
        self.assertEqual((first.redelivered, again.redelivered, again.get_int_property("JMSXDeliveryCount")), (False, True, 2))

    def test_where_a_message_came_from(self) -> None:
        for routing, expected, found in [
            (1, None, Queue("a")),
            (0, None, Topic("a")),
            (None, Topic("a"), Topic("a")),
            (None, Topic("wild.#"), Topic("a")),
            (None, TemporaryQueue("a"), TemporaryQueue("a")),
            (1, Topic("a"), Queue("a")),
            (None, None, Destination("a")),
        ]:
            core = CoreMessage(address="a", properties={} if routing is None else {"_AMQ_ROUTING_TYPE": (3, routing)})
            self.assertEqual(received(core, expected).destination, found)
        self.assertIsNone(received(CoreMessage()).destination)


class PropertyTests(SynchronousTestCase):
    def test_reserved_names_are_not_seen_and_not_set(self) -> None:
        core = CoreMessage(
            properties={"__AMQ_CID": (10, "x"), "_AMQ_ROUTING_TYPE": (3, 1), "JMSType": (10, "t"), "JMS_X": (6, 1), "a": (6, 1)}
        )
        message = received(core)
        self.assertEqual(dict(message.properties), {"JMS_X": 1, "a": 1})
        self.assertFalse(message.property_exists("JMSType"))
        for name in ("__AMQ_CID", "JMSCorrelationID", "JMSXDeliveryCount"):
            self.assertRaises(MessageFormatException, Message().set_string_property, name, "x")
        self.assertRaises(ValueError, Message().set_string_property, "", "x")

    def test_explicit_types(self) -> None:
        message = Message()
        message.set_byte_property("b", 1)
        message.set_short_property("s", 2)
        message.set_int_property("i", 3)
        message.set_long_property("l", 4)
        message.set_float_property("f", 5)
        message.set_double_property("d", 6)
        message.set_boolean_property("t", True)
        message.set_string_property("n", None)
        message.set_object_property("o", Short(7))
        self.assertEqual(
            {name: kind for name, (kind, _) in message._core.properties.items()},
            {"b": 3, "s": 5, "i": 6, "l": 7, "f": 8, "d": 9, "t": 2, "n": 0, "o": 5},
        )
        self.assertEqual(
            (message.get_long_property("b"), message.get_string_property("f"), message.get_string_property("n")), (1, "5.0", None)
        )
        self.assertIsInstance(message.get_object_property("o"), Short)
        self.assertRaises(MessageFormatException, message.get_byte_property, "i")

    def test_a_received_message_is_read_only_until_cleared(self) -> None:
        message = received(CoreMessage(properties={"a": (6, 1), "JMSType": (10, "t")}))
        self.assertRaises(MessageNotWriteableException, message.set_int_property, "b", 1)
        with self.assertRaises(MessageNotWriteableException):
            del message.properties["a"]
        message.clear_properties()
        message.properties["b"] = 2
        self.assertEqual((dict(message.properties), message.type), ({"b": 2}, "t"))

    def test_deleting(self) -> None:
        message = Message()
        message.properties["JMSXGroupID"] = "g"
        del message.properties["JMSXGroupID"]
        self.assertIsNone(message.group_id)
        with self.assertRaises(KeyError):
            del message.properties["a"]


class BodyTests(SynchronousTestCase):
    def test_a_received_body_is_read_only_until_cleared(self) -> None:
        text = received(CoreMessage(type=3, body=b"\0"))
        assert isinstance(text, TextMessage)
        with self.assertRaises(MessageNotWriteableException):
            text.text = "x"
        text.clear_body()
        text.text = "x"
        self.assertEqual(text.body, "x")
        for message in (MapMessage(), StreamMessage(), BytesMessage(), ObjectMessage()):
            got = received(CoreMessage(type=message.core_type, body=message._encode_body()))
            with self.assertRaises(MessageNotWriteableException):
                if isinstance(got, MapMessage):
                    got["a"] = 1
                elif isinstance(got, (StreamMessage, BytesMessage)):
                    got.write_int(1)
                elif isinstance(got, ObjectMessage):
                    got.value = 1

    def test_what_was_not_looked_at_travels_on_unchanged(self) -> None:
        self.assertEqual(to_core(received(CoreMessage(type=5, body=b"not a map"))).body, b"not a map")

    def test_damaged_bodies(self) -> None:
        for kind in (TextMessage, MapMessage, StreamMessage, ObjectMessage):
            message = received(CoreMessage(type=kind.core_type, body=b"\x01\xff\xff"))
            with self.assertRaises(MessageFormatException, msg=kind.__name__):
                _ = message.body
