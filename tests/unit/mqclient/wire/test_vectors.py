"""The codec against the bytes of real Artemis clients and brokers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import bodies
from mqclient.wire.frames import FRAME_SIZE_MAX, FrameSplitter
from mqclient.wire.message import (
    KEY_CID,
    KEY_LARGE_COMPRESSED,
    KEY_LARGE_SIZE,
    KEY_ROUTING_TYPE,
    CoreMessage,
    body_end,
    decode_headers,
    decode_message,
    encode_headers,
    encode_message,
    scan_headers,
    user_id_text,
)
from mqclient.wire.packets import (
    SessionReceive,
    SessionReceiveLarge,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
    decode_packet,
    encode_packet,
    grammar,
)
from mqclient.wire.properties import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, NULL, SHORT, STRING, TypedValue, walk
from tests.unit.mqclient.wire.strategies import group_count, packet_fields
from tests.unit.mqclient.wire.vectors import NOT_CORE, Connection, connections, files, load, packet_type

TYPES = {
    "NULL": NULL,
    "BOOLEAN": BOOLEAN,
    "BYTE": BYTE,
    "BYTES": BYTES,
    "SHORT": SHORT,
    "INT": INT,
    "LONG": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "CHAR": CHAR,
}
ADDED_BY_THE_CLIENT = (KEY_CID, KEY_ROUTING_TYPE, KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE)
NEVER_CAPTURED = {11, 110, 112, 46, 50, -8, 104, *range(-112, -100), -121, -122}
"""Packets that only peers of version 126 and below use, and those of readers and home brokers, which no Artemis knows."""
MESSAGE_PACKETS = (SessionSend.TYPE, SessionReceive.TYPE, SessionSendLarge.TYPE, SessionReceiveLarge.TYPE)


def core_frames(connection: Connection) -> Iterator[tuple[bool, bytes]]:
    for from_client, frame in connection.frames:
        if packet_type(frame) not in NOT_CORE:
            yield from_client, frame


class FrameTests(SynchronousTestCase):
    def test_every_frame_is_cut_read_and_written_again(self) -> None:
        frames = 0
        types = set()
        for path in files():
            for connection in connections(load(path)):
                for side in (True, False):
                    wanted = [frame for from_client, frame in connection.frames if from_client is side]
                    self.assertEqual(FrameSplitter(FRAME_SIZE_MAX).feed(b"".join(wanted)), wanted)
                for _, frame in core_frames(connection):
                    kind = packet_type(frame)
                    packet = decode_packet(kind, frame[13:], connection.version)
                    self.assertEqual(encode_packet(packet, connection.version), frame[13:], f"{path.name} {connection.name} {packet.NAME}")
                    frames += 1
                    types.add(kind)
        self.assertGreater(frames, 20000)
        self.assertEqual(set(grammar.GRAMMAR) - types, NEVER_CAPTURED)

    def test_grammar_reads_every_frame_as_the_runtime_does(self) -> None:
        seen = set()
        for path in files():
            for connection in connections(load(path)):
                for _, frame in core_frames(connection):
                    kind, body, version = packet_type(frame), frame[13:], connection.version
                    if len(body) > 4096 or (kind, body, version) in seen:
                        continue
                    seen.add((kind, body, version))
                    description = grammar.GRAMMAR[kind]
                    expected = packet_fields(description, decode_packet(kind, body, version))
                    values = grammar.parse(kind, body, version)
                    self.assertEqual({name: values[name] for name in expected}, expected)
                    groups = values["groups"] if group_count(description) else 0
                    self.assertEqual(grammar.build(kind, {**values, "groups": groups}, version), body)

    def test_every_message_is_read_and_written_again(self) -> None:
        messages = 0
        for path in files():
            for connection in connections(load(path)):
                for _, frame in core_frames(connection):
                    if packet_type(frame) not in MESSAGE_PACKETS:
                        continue
                    packet = decode_packet(packet_type(frame), frame[13:], connection.version)
                    messages += 1
                    if isinstance(packet, (SessionSend, SessionReceive)):
                        raw = with_new_booleans(packet.message, body_end(packet.message), connection.version)
                        self.assertEqual(encode_message(decode_message(raw)), raw, path.name)
                    elif isinstance(packet, (SessionSendLarge, SessionReceiveLarge)):
                        raw = with_new_booleans(packet.headers, 0, connection.version)
                        self.assertEqual(encode_headers(decode_headers(raw)), raw, path.name)
        self.assertGreater(messages, 2400)


def with_new_booleans(raw: bytes, headers: int, version: int) -> bytes:
    """1.x clients write true as FF in headers and properties where later ones write 01: the only difference that is let pass."""
    if version >= 129:
        return raw
    found = scan_headers(raw, headers)
    return with_new_properties(raw, found.properties, {found.fixed + 1})


def with_new_properties(raw: bytes, start: int, also: set[int]) -> bytes:
    """``raw`` with every true of the property block at ``start``, and those at the places ``also``, as 01."""
    places = also | {value for _, _, kind, value, _ in walk(raw, start, len(raw)) if kind == BOOLEAN}
    return bytes(1 if at in places and byte == 0xFF else byte for at, byte in enumerate(raw))


# --- what the programs that were recorded say of their messages -------------------------------------------------------


def expected_value(entry: dict[str, Any]) -> TypedValue:
    """A value of an ``expect`` block; floats by their bits where it has them."""
    kind, value = TYPES[entry["type"]], entry["value"]
    if "bits" in entry and kind in (FLOAT, DOUBLE):
        value = struct.unpack(">f" if kind == FLOAT else ">d", bytes.fromhex(entry["bits"]))[0]
    elif isinstance(value, dict) and "unit" in value:
        value = (value["unit"] * value["length"])[: value["length"]]
    elif kind == BYTES and value is not None:
        value = bytes.fromhex(value["hex"])
    elif kind == CHAR:
        value = ord(value)
    return kind, value


def expected_table(table: dict[str, Any]) -> dict[str, TypedValue]:
    return {key: expected_value(entry) for key, entry in table.items()}


def typed_text(values: Any) -> str:
    """Values as text: unlike ``==`` it tells -0.0 from 0.0, True from 1, and takes one NaN for another."""
    return repr(sorted(values.items()) if isinstance(values, dict) else values)


def sent_messages(document: dict[str, Any]) -> Iterator[CoreMessage]:
    """The messages that travel from a client to a server, large ones with their bodies put together."""
    for connection in connections(document):
        uploads: dict[bytes, CoreMessage] = {}
        for from_client, frame in core_frames(connection):
            if not from_client:
                continue
            packet = decode_packet(packet_type(frame), frame[13:], connection.version)
            channel = frame[5:13]
            if isinstance(packet, SessionSend):
                yield decode_message(packet.message)
            elif isinstance(packet, SessionSendLarge):
                uploads[channel] = decode_headers(packet.headers)
            elif isinstance(packet, SessionSendContinuation):
                uploads[channel].body += packet.chunk
                if not packet.continues:
                    yield uploads.pop(channel)


def message_id(message: CoreMessage) -> str | None:
    return None if message.user_id is None else f"ID:{user_id_text(message.user_id)}"


def differences(expected: dict[str, Any], message: CoreMessage) -> list[str]:
    """Where a message is not what the program says that it sent."""
    found = []

    def compare(name: str, wanted: object, got: object) -> None:
        if wanted != got:
            found.append(f"{name}: {wanted!r} expected, {got!r} found")

    compare("type", expected["core_type"], message.type)
    compare("address", expected.get("wire_address", expected["address"]), message.address)
    for name in ("durable", "priority", "timestamp", "expiration"):
        compare(name, expected[name], getattr(message, name))
    if "user_id" in expected:
        compare("user id", expected["user_id"], message.user_id and user_id_text(message.user_id))
    else:
        compare("message id", expected["message_id"], message_id(message))
    if KEY_ROUTING_TYPE in message.properties:
        compare("routing type", (BYTE, expected["routing_type"]), message.properties[KEY_ROUTING_TYPE])
    own = {key: value for key, value in message.properties.items() if key not in ADDED_BY_THE_CLIENT}
    compare("properties", typed_text(expected_table(expected["properties"])), typed_text(own))
    body = message.body
    if message.get(KEY_LARGE_COMPRESSED):
        body = zlib.decompress(body)
    compare("body", *body_comparison(expected, body))
    return found


def body_comparison(expected: dict[str, Any], body: bytes) -> tuple[object, object]:
    """(what the body should say, what it says)."""
    kind = expected.get("jms_type")
    if "wire_body" in expected:
        return bytes.fromhex(expected["wire_body"]["hex"]), body
    if "writes" in expected:
        return typed_text([written_value(entry) for entry in expected["writes"]]), typed_text(read_back(expected["writes"], body))
    value = expected.get("body")
    if kind == "map":
        return typed_text(expected_table(value)), typed_text(bodies.decode_map(body))
    if kind == "stream":
        return typed_text([expected_value(entry) for entry in value]), typed_text(bodies.decode_stream(body))
    if kind == "object":
        return bytes.fromhex(value["hex"]), bodies.decode_object(body) or b""
    if isinstance(value, dict) and "hex" in value:
        return bytes.fromhex(value["hex"]), body
    if isinstance(value, dict):
        value = (value["unit"] * value["length"])[: value["length"]]
    if kind is None and not body:
        return value, ""
    if kind is None:  # the program says how it wrote the body, and what
        value = value.removeprefix("NSStr ")
    return value, bodies.decode_text(body)


def written_value(entry: dict[str, Any]) -> object:
    return entry["value"] if entry["type"] == "UTF" else expected_value(entry)[1]


def read_back(writes: list[dict[str, Any]], body: bytes) -> list[object]:
    """The values of a bytes message, read in the order in which they were written."""
    source = bodies.BytesReader(body)
    readers: dict[str, Any] = {
        "BOOLEAN": source.read_boolean,
        "BYTE": source.read_byte,
        "SHORT": source.read_short,
        "CHAR": source.read_char,
        "INT": source.read_int,
        "LONG": source.read_long,
        "FLOAT": source.read_float,
        "DOUBLE": source.read_double,
        "UTF": source.read_utf,
    }
    values = []
    for entry in writes:
        if entry["type"] == "BYTES":
            values.append(source.read_bytes(len(entry["value"]["hex"]) // 2))
        else:
            values.append(readers[entry["type"]]())
    return [*values, *([] if not source.remaining else [f"{source.remaining} bytes too many"])]


def rewritten(kind: str | None, body: bytes) -> bytes:
    """The body read and written again by the codec of its type."""
    if kind == "text":
        return bodies.encode_text(bodies.decode_text(body))
    if kind == "map":
        return bodies.encode_map(bodies.decode_map(body))
    if kind == "stream":
        return bodies.encode_stream(bodies.decode_stream(body))
    if kind == "object":
        return bodies.encode_object(bodies.decode_object(body))
    return body


class ExpectationTests(SynchronousTestCase):
    def test_messages_say_what_the_programs_sent(self) -> None:
        checked = 0
        for path in files():
            document = load(path)
            expectations = document.get("expect", {}).get("sent", [])
            messages = list(sent_messages(document)) if expectations else []
            for expected in expectations:
                candidates = [message for message in messages if self.could_be(expected, message)]
                found = [differences(expected, message) for message in candidates]
                self.assertIn([], found, f"{path.parent.name}/{path.name}: {expected.get('message_id')}")
                message = candidates[found.index([])]
                if not message.get(KEY_LARGE_COMPRESSED):
                    body = message.body
                    if expected.get("jms_type") == "map" and "jms-1.5.6" in path.parts:
                        body = with_new_properties(body, 0, set())
                    self.assertEqual(rewritten(expected.get("jms_type"), body), body, path.name)
                checked += 1
        self.assertGreater(checked, 780)

    def could_be(self, expected: dict[str, Any], message: CoreMessage) -> bool:
        if expected.get("message_id"):
            return message_id(message) == expected["message_id"]
        return (message.type, message.timestamp) == (expected["core_type"], expected["timestamp"])

    def test_deliveries_have_the_counts_that_the_programs_saw(self) -> None:
        checked = 0
        for path in files():
            document = load(path)
            received = [one for one in document.get("expect", {}).get("received", []) if one.get("message_id")]
            seen = set()
            for connection in connections(document) if received else ():
                for _, frame in core_frames(connection):
                    packet = decode_packet(packet_type(frame), frame[13:], connection.version)
                    if isinstance(packet, SessionReceive):
                        seen.add((message_id(decode_message(packet.message)), packet.delivery_count))
                    elif isinstance(packet, SessionReceiveLarge):
                        seen.add((message_id(decode_headers(packet.headers)), packet.delivery_count))
            for one in received:
                if "delivery_count" in one:
                    self.assertIn((one["message_id"], one["delivery_count"]), seen, path.name)
                    checked += 1
        self.assertGreater(checked, 400)
