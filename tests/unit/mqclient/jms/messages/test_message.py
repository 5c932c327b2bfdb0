"""Messages: their bodies and properties against what the Java client put on the wire, and the rules of JMS for reading and writing them."""

from __future__ import annotations

import io
import struct
from io import BytesIO
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from mqclient.jms.exceptions import (
    JMSException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.conversion import as_message, from_core, to_core
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import DeliveryMode, Message
from mqclient.jms.messages.simple_messages import JavaSerialized, ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.jms.messages.values import Byte, Char, Float, Long, Short
from mqclient.wire import message as wire
from mqclient.wire.hot import decode_send
from mqclient.wire.message import CoreMessage, decode_message
from mqclient.wire.properties import encode_properties
from tests.unit.mqclient.wire import vectors

SESS_SEND = 71
TYPES = {
    "message": Message,
    "text": TextMessage,
    "bytes": BytesMessage,
    "map": MapMessage,
    "stream": StreamMessage,
    "object": ObjectMessage,
}
ADDED = ("__AMQ_CID", "_AMQ_ROUTING_TYPE")


class NoLargeBodies:
    def read(self, message: ClientMessage) -> bytes:
        raise AssertionError("no body is large here")

    def save(self, message: ClientMessage, file: object) -> None:
        raise AssertionError("no body is large here")


def received(core: CoreMessage, expected: Destination | None = None, **fields: Any) -> Message:
    """The JMS message for a message as the broker delivers it."""
    names = list(CoreMessage.__dataclass_fields__)
    return from_core(ClientMessage(**{name: getattr(core, name) for name in names}, **fields), expected, NoLargeBodies())


def sent_by_java(scenario: str) -> list[tuple[dict[str, Any], CoreMessage]]:
    """What a recorded program sent: what it says of it, and the message on the wire."""
    document = vectors.load(vectors.VECTORS / "jms-2.44.0" / f"{scenario}.json")
    found: dict[str | None, CoreMessage] = {}
    for connection in vectors.connections(document):
        for from_client, frame in connection.frames:
            if from_client and vectors.packet_type(frame) == SESS_SEND:
                core = decode_message(decode_send(frame[13:], connection.version)[0])
                found[None if core.user_id is None else "ID:" + wire.user_id_text(core.user_id)] = core
    return [(entry, found[entry["message_id"]]) for entry in document["expect"]["sent"]]


def python_value(entry: dict[str, Any]) -> object:
    """The Python value, with its wrapper, of a value in an ``expect`` block."""
    kind, value = entry["type"], entry["value"]
    if value is None:
        return None
    if kind == "FLOAT":
        return Float(struct.unpack(">f", bytes.fromhex(entry["bits"]))[0])
    if kind == "DOUBLE":
        return struct.unpack(">d", bytes.fromhex(entry["bits"]))[0]
    if kind == "BYTES":
        return bytes.fromhex(value["hex"])
    wrapper = {"BYTE": Byte, "SHORT": Short, "LONG": Long, "CHAR": Char}.get(kind)
    return wrapper(value) if wrapper else value


def written_by_python(entry: dict[str, Any]) -> Message:
    """The message that an ``expect`` block describes, made with this API."""
    kind: str = entry["jms_type"]
    body: Any = entry.get("body")
    message: Message
    if kind == "text":
        message = TextMessage(body["unit"] * body["length"] if isinstance(body, dict) else body)
    elif kind == "map":
        message = MapMessage({name: python_value(value) for name, value in body.items()})
    elif kind == "stream":
        message = StreamMessage([python_value(value) for value in body])
    elif kind == "object":
        message = ObjectMessage(JavaSerialized(bytes.fromhex(body["hex"])) if body["hex"] else None)
    elif kind == "bytes" and "writes" in entry:
        message = BytesMessage()
        for write in entry["writes"]:
            value = python_value(write)
            getattr(message, f"write_{write['type'].lower()}")(value)
    elif kind == "bytes":
        message = BytesMessage(bytes.fromhex(body["hex"]))
    else:
        message = Message()
    for name, value in entry["properties"].items():
        if name.startswith(("JMS", "_AMQ_GROUP", "_AMQ_SCHED")):
            continue
        message.properties[name] = python_value(value)
    return message


def shown(body: object) -> str:
    """A body with its types, in an order that does not depend on Java's hash maps; NaN equals NaN."""
    if isinstance(body, dict):
        return repr([(name, type(body[name]), body[name]) for name in sorted(body)])
    return repr([(type(item), item) for item in body]) if isinstance(body, list) else repr(body)


def in_key_order(properties: dict[str, Any]) -> bytes:
    return encode_properties({key: properties[key] for key in sorted(properties) if key not in ADDED})


class VectorTests(SynchronousTestCase):
    SCENARIOS = ("msg-text", "msg-bytes", "msg-map", "msg-stream", "msg-object", "msg-plain", "msg-properties")

    def test_python_writes_what_java_writes(self) -> None:
        """Same body bytes and same properties; an untouched bytes message is really empty here (Java sends four zero bytes)."""
        for scenario in self.SCENARIOS:
            for entry, core in sent_by_java(scenario):
                message = written_by_python(entry)
                if entry["jms_type"] == "map":
                    self.assertEqual(shown(received(core).body), shown(message.body))
                elif "wire_body" not in entry:
                    self.assertEqual(message._encode_body(), core.body, f"{scenario} {entry['message_id']}")
                self.assertEqual(message._core.type, core.type)
                self.assertEqual(in_key_order(message._core.properties), in_key_order(core.properties), scenario)

    def test_python_reads_what_java_writes(self) -> None:
        for scenario in self.SCENARIOS:
            for entry, core in sent_by_java(scenario):
                message = received(core)
                self.assertIs(type(message), TYPES[entry["jms_type"]])
                self.assertEqual(message.message_id, entry["message_id"])
                self.assertEqual(message.destination, Queue(entry["address"]))
                self.assertEqual(message.priority, entry["priority"])
                self.assertEqual(message.timestamp, entry["timestamp"])
                self.assertEqual(message.delivery_mode == DeliveryMode.PERSISTENT, entry["durable"])
                if "wire_body" not in entry:
                    self.assertEqual(shown(message.body), shown(written_by_python(entry).body))
                self.assertEqual(repr(sorted(message.properties)), repr(sorted(entry["properties"])))
                for name, value in entry["properties"].items():
                    found = message.properties[name]
                    self.assertEqual((type(found), repr(found)), (type(python_value(value)), repr(python_value(value))))

    def test_headers(self) -> None:
        messages = {entry["body"]: received(core) for entry, core in sent_by_java("msg-headers")}
        correlated = messages["correlation id"]
        self.assertEqual((correlated.correlation_id, correlated.type, correlated.reply_to), ("corr €", "my type", Queue("reply.q")))
        binary = messages["correlation id bytes"]
        self.assertEqual((binary.correlation_id, binary.correlation_id_bytes, binary.reply_to), (None, b"\0\1\xff", Topic("reply.t")))
        self.assertIs(type(messages["reply to temporary queue"].reply_to), TemporaryQueue)
        self.assertIs(type(messages["reply to temporary topic"].reply_to), TemporaryTopic)
        group = messages["group"]
        self.assertEqual((group.group_id, group.group_sequence), ("g1", 7))
        self.assertEqual(dict(group.properties), {"JMSXGroupID": "g1", "JMSXGroupSeq": 7})
        anonymous = messages["no message id, no timestamp"]
        self.assertEqual((anonymous.message_id, anonymous.timestamp), (None, 0))
        self.assertEqual(messages["delivery delay 700 ms"].delivery_time - messages["delivery delay 700 ms"].timestamp, 700)
        self.assertEqual(messages["priority 9, ttl 1 h"].expiration - messages["priority 9, ttl 1 h"].timestamp, 3_600_000)


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


class BrokenBodyTests(SynchronousTestCase):
    """What could not be read the first time is no empty body the second time, nor for the next receiver."""

    def test_damaged(self) -> None:
        for kind in (wire.TYPE_TEXT, wire.TYPE_MAP, wire.TYPE_STREAM, wire.TYPE_OBJECT):
            damaged = b"\x01\x00\x00\x00\x09x"
            message = from_core(ClientMessage(type=kind, address="q", body=damaged), Queue("q"), NoLargeBodies())
            for _ in range(2):
                self.assertRaises(MessageFormatException, lambda message=message: message.body)
            self.assertEqual(to_core(message).body, damaged)

    def test_large_and_interrupted(self) -> None:
        class Interrupted:
            def read(self, message: ClientMessage) -> bytes:
                raise JMSException("the connection was lost")

            def save(self, message: ClientMessage, file: BinaryIO) -> None:
                file.write(b"half")
                raise JMSException("the connection was lost")

        core = ClientMessage(type=wire.TYPE_BYTES, address="q", large=cast(Any, SimpleNamespace(size=8)))
        message = from_core(core, Queue("q"), Interrupted())
        assert isinstance(message, BytesMessage)
        for _ in range(2):
            self.assertRaises(JMSException, message.save_to, BytesIO())
            self.assertRaises(JMSException, lambda: message.data)
            self.assertRaises(JMSException, to_core, message)
        self.assertEqual(message.body_length, 8)


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

    def test_bytes_values_in_order(self) -> None:
        message = BytesMessage()
        message.write_int(-1)
        message.write_utf("é")
        message.write_char("x")
        self.assertRaises(MessageNotReadableException, message.read_int)
        message.reset()
        self.assertEqual((message.read_int(), message.read_utf(), message.read_char()), (-1, "é", "x"))
        self.assertRaises(MessageEOFException, message.read_byte)
        self.assertEqual(message.read_bytes(), b"")
        message.reset()
        self.assertEqual((message.read_bytes(2), message.read_unsigned_short(), message.body_length), (b"\xff\xff", 0xFFFF, 10))
        self.assertRaises(MessageNotWriteableException, message.write_int, 1)
        self.assertRaises(MessageFormatException, BytesMessage().write_byte, 128)
        self.assertRaises(MessageFormatException, BytesMessage().write_utf, "x" * 65536)

    def test_bytes_to_a_file(self) -> None:
        target = io.BytesIO()
        received(CoreMessage(type=4, body=b"data")).save_to(target)  # type: ignore[attr-defined]
        self.assertEqual(target.getvalue(), b"data")

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

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
        )
    )
    def test_objects_travel_as_json(self, value: object) -> None:
        got = received(CoreMessage(type=2, body=ObjectMessage(value)._encode_body()))
        self.assertEqual(got.body, value)

    def test_java_objects_stay_opaque(self) -> None:
        java = JavaSerialized(bytes.fromhex("aced00057400036f626a"))
        got = received(CoreMessage(type=2, body=ObjectMessage(java)._encode_body()))
        assert isinstance(got, ObjectMessage)
        self.assertEqual((got.value, type(got.value)), (java, JavaSerialized))
        unknown = received(CoreMessage(type=2, body=b"\0\0\0\1\xff"))
        assert isinstance(unknown, ObjectMessage)
        self.assertRaises(MessageFormatException, lambda: unknown.value)
        self.assertEqual(unknown.serialized, b"\xff")
        self.assertRaises(MessageFormatException, ObjectMessage, object())

    def test_messages_from_python_values(self) -> None:
        for body, kind in [("x", TextMessage), (b"x", BytesMessage), ({"a": 1}, MapMessage), ([1], StreamMessage), (None, Message)]:
            self.assertIs(type(as_message(body)), kind)
            self.assertEqual(as_message(body).body, body)
        ready = TextMessage("x")
        self.assertIs(as_message(ready), ready)
        self.assertRaises(MessageFormatException, as_message, 5)

    def test_an_unknown_type_of_body_is_bytes(self) -> None:
        got = received(CoreMessage(type=7, body=b"EMB"))
        self.assertEqual((type(got), got.body, to_core(got).type), (BytesMessage, b"EMB", 7))
