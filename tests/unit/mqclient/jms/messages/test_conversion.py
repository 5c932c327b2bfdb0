"""Messages from the wire become messages of JMS, also when their bodies are broken."""

from __future__ import annotations

import struct
from io import BytesIO
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.jms.destinations import Queue, TemporaryQueue, TemporaryTopic, Topic
from mqclient.jms.exceptions import (
    JMSException,
    MessageFormatException,
)
from mqclient.jms.messages.bytes_message import BytesMessage
from mqclient.jms.messages.conversion import from_core, to_core
from mqclient.jms.messages.map_message import MapMessage
from mqclient.jms.messages.message import DeliveryMode, Message
from mqclient.jms.messages.simple_messages import JavaSerialized, ObjectMessage, TextMessage
from mqclient.jms.messages.stream_message import StreamMessage
from mqclient.jms.messages.values import Byte, Char, Float, Long, Short
from mqclient.wire import message as wire
from mqclient.wire.hot import decode_send
from mqclient.wire.message import CoreMessage, decode_message
from mqclient.wire.properties import encode_properties
from tests.unit.mqclient.jms.messages.test_message import NoLargeBodies, received
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


class Body:
    """The body of a large message, which can be read once."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data

    def read(self, message: ClientMessage) -> bytes:
        if self._data is None:
            raise JMSException("the body has been read already")
        data, self._data = self._data, None
        return data

    def save(self, message: ClientMessage, file: BinaryIO) -> None:
        file.write(self.read(message))


class LargeTests(SynchronousTestCase):
    def received(self, kind: int) -> Message:
        core = ClientMessage(type=kind, address="q", large=cast(Any, SimpleNamespace(size=4)))
        return from_core(core, Queue("q"), Body(b"body"))

    def test_a_plain_message_is_sent_on_with_its_body(self) -> None:
        """The core API makes messages of this type unless it is told another."""
        self.assertEqual(to_core(self.received(wire.TYPE_DEFAULT)).body, b"body")

    def test_a_body_that_was_saved_is_not_taken_for_an_empty_one(self) -> None:
        message, file = self.received(wire.TYPE_BYTES), BytesIO()
        assert isinstance(message, BytesMessage)
        message.save_to(file)
        self.assertEqual((file.getvalue(), message.body_length), (b"body", 4))
        for again in (lambda: message.data, lambda: to_core(message), lambda: message.save_to(file)):
            self.assertRaises(JMSException, again)
