"""What the fuzzer feeds: each target takes any bytes and lets nothing but errors of the MQError family pass as a refusal.

A target also checks that what it read is written and read again as the same.  The module needs no fuzzer; see :mod:`tests.fuzz.run`
for coverage-guided runs and ``tests/unit/mqclient/wire/test_fuzz.py`` for the bounded run of every test suite.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from contextlib import suppress

from mqbroker.messaging.filters.filter import parse_filter
from mqbroker.messaging.message.message import Message
from mqclient.errors import MQError
from mqclient.wire import bodies
from mqclient.wire.frames import FRAME_SIZE_BEFORE_SESSION, HEADER, FrameSplitter, frame
from mqclient.wire.message import CoreMessage, decode_headers, decode_message, encode_headers, encode_message
from mqclient.wire.packets import PACKETS, VERSION_MAX, VERSION_MIN, decode_packet, encode_packet
from mqclient.wire.properties import decode_properties, encode_properties, walk
from tests.support.broker import World

TYPES = sorted(PACKETS)
VERSIONS = VERSION_MAX - VERSION_MIN + 1

EXAMPLE = CoreMessage(address="a", properties={"n": (6, 5), "s": (10, "x"), "b": (2, True), "z": (0, None)})
"""The message that selectors are tried on."""


def frames(data: bytes) -> None:
    """A byte stream in pieces: it gives the same frames as in one piece, and holds no more than one frame."""
    if not data:
        return
    step = 1 + data[0]
    stream = data[1:]
    whole = FrameSplitter()
    expected = whole.feed(stream)
    pieces = FrameSplitter()
    found = []
    for start in range(0, len(stream), step):
        found += pieces.feed(stream[start : start + step])
        assert pieces.buffered <= FRAME_SIZE_BEFORE_SESSION
    assert found == expected
    assert (pieces.error is None) == (whole.error is None)
    for one in found:
        _, packet_type, _ = HEADER.unpack_from(one)
        with suppress(MQError):
            decode_packet(packet_type, one[13:], VERSION_MAX)


def packets(data: bytes) -> None:
    """One packet: the first byte chooses the version, the second the type, the others are the body."""
    if len(data) < 2:
        return
    version = VERSION_MIN + data[0] % VERSIONS
    packet_type = TYPES[data[1] % len(TYPES)]
    try:
        packet = decode_packet(packet_type, data[2:], version)
    except MQError:
        return
    written = encode_packet(packet, version)
    again = decode_packet(packet_type, written, version)
    assert again == packet, (packet, again)
    assert encode_packet(again, version) == written


def messages(data: bytes) -> None:
    """A regular message, and the same bytes as the headers of a large one."""
    with suppress(MQError):
        written = encode_message(decode_message(data))
        assert encode_message(decode_message(written)) == written
    with suppress(MQError):
        written = encode_headers(decode_headers(data))
        assert encode_headers(decode_headers(written)) == written
    with suppress(MQError):
        message = Message.received(data, 7)
        assert message.message_id == 7
        assert message.properties == message.decoded().properties or any(value != value for _, value in message.properties.values())


def properties(data: bytes) -> None:
    """A property table: walking and decoding see the same entries."""
    try:
        found, end = decode_properties(data, 0, len(data))
    except MQError:
        return
    assert end <= len(data)
    entries = list(walk(data, 0, len(data)))
    assert len({data[key_start:key_end] for key_start, key_end, *_ in entries}) == len(found)
    written = encode_properties(found)
    assert encode_properties(decode_properties(written, 0, len(written))[0]) == written


def message_bodies(data: bytes) -> None:
    """A body, read as each of the types that have a form."""
    with suppress(MQError):
        bodies.encode_text(bodies.decode_text(data))
    with suppress(MQError):
        bodies.encode_map(bodies.decode_map(data))
    with suppress(MQError):
        bodies.encode_object(bodies.decode_object(data))
    with suppress(MQError):
        items = bodies.decode_stream(data)
        written = bodies.encode_stream(items)
        assert bodies.encode_stream(bodies.decode_stream(written)) == written
    source = bodies.BytesReader(data)
    with suppress(MQError):
        source.read_utf()
        source.read_float()
        source.read_double()


def selectors(data: bytes) -> None:
    """A filter as UTF-8 text; one that is accepted is tried on a message."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        selector = parse_filter(text)
    except MQError:
        return
    if selector is not None:
        selector.matches(Message.of(EXAMPLE))


@functools.cache
def world() -> World:
    """The broker of :func:`conversation`, the same for all inputs; a failure in a packet's handler is raised."""
    made = World()

    def fail(remote: str, reason: str, write: Callable[[], object]) -> None:
        raise AssertionError(reason)

    made.server.reasons.failure = fail  # type: ignore[method-assign]
    return made


def conversation(data: bytes) -> None:
    """What a client sends to a broker, with or without a session: packets of a type, a channel, and a length each.

    Whatever comes, the connection is served or ended, nothing of it stays, and another client is served.
    """
    if not data:
        return
    broker = world()
    peer = broker.peer()
    if data[0] & 1:
        peer.open(window_size=1000 if data[0] & 2 else -1, auto_commit_acks=not data[0] & 4, auto_commit_sends=not data[0] & 4)
    at = 1
    while at + 4 <= len(data):
        packet_type, channel, size = struct.unpack_from(">bBH", data, at)
        body = data[at + 4 : at + 4 + size]
        at += 4 + size
        peer.feed(frame(packet_type, CHANNELS[channel % len(CHANNELS)], body))
        broker.clock.advance(0.001)
    peer.lose()
    broker.clock.advance(70)
    assert not broker.server.connections
    assert not broker.server.sessions.by_name
    assert broker.server.partial_frames.held == 0
    for name in list(broker.messaging.core.addresses):
        broker.messaging.administration.delete_address(name, force=True)
    bystander = broker.peer().open()
    bystander.create_queue("q")
    bystander.publish(reply=True)
    assert len(bystander.take()) == 1
    bystander.peer.lose()


CHANNELS = (10, 1, 0, 11, 2, 3, -1)

TARGETS: dict[str, Callable[[bytes], None]] = {
    "frames": frames,
    "packets": packets,
    "messages": messages,
    "properties": properties,
    "bodies": message_bodies,
    "selectors": selectors,
    "conversation": conversation,
}
