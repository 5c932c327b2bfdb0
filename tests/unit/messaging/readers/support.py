"""A client of readers on an in-memory broker."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import Session


@dataclass
class Read:
    """One message of a READER_MESSAGES."""

    message_id: int
    delivery_count: int
    kind: int
    data: bytes

    @property
    def body(self) -> bytes:
        return decode_message(self.data).body


def messages(answer: wire.ReaderMessages) -> list[Read]:
    """The messages of an answer, taken apart."""
    count, data = answer.count, answer.messages
    ids = struct.unpack_from(f">{count}q", data)
    counts = struct.unpack_from(f">{count}i", data, 8 * count)
    sizes = struct.unpack_from(f">{count}i", data, 12 * count)
    kinds = data[16 * count : 17 * count]
    at = 17 * count
    found = []
    for row in range(count):
        found.append(Read(ids[row], counts[row], kinds[row], data[at : at + sizes[row]]))
        at += sizes[row]
    assert at == len(data), (at, len(data))
    return found


class Client:
    """What a test does with one reader."""

    def __init__(self, session: Session, queue: str = "q", reader: str | None = "r") -> None:
        self.session = session
        self.queue = queue
        self.reader = reader
        self.epoch = 0

    def call(self, packet: wire.Packet) -> Any:
        """Send a request, let the broker do what it does in steps, and take the answer."""
        self.session.send(packet)
        return self.answer()

    def answer(self) -> Any:
        self.session.peer.world.clock.advance(0)
        packets = [packet for packet in self.session.take() if packet.RESPONSE]
        assert len(packets) == 1, packets
        assert not isinstance(packets[0], wire.ExceptionResponse), packets[0].message
        return packets[0]

    def refused(self, packet: wire.Packet) -> str:
        """The text with which a request is refused."""
        self.session.send(packet)
        self.session.peer.world.clock.advance(0)
        packets = [packet for packet in self.session.take() if packet.RESPONSE]
        assert len(packets) == 1 and isinstance(packets[0], wire.ExceptionResponse), packets
        return packets[0].message or ""

    def open(self, start: int = wire.START_OLDEST) -> wire.ReaderState:
        assert self.reader is not None
        state: wire.ReaderState = self.call(wire.ReaderOpen(self.queue, self.reader, start))
        self.epoch = state.epoch
        return state

    def reserving(self, after: int, until: int = -1, messages: int = -1, size: int = -1, parts: int = 1) -> wire.ReaderReserve:
        return wire.ReaderReserve(self.queue, self.reader, self.epoch, after, until, messages, size, parts)

    def reserve(self, after: int, until: int = -1, messages: int = -1, size: int = -1, parts: int = 1) -> wire.ReaderRange:
        found: wire.ReaderRange = self.call(self.reserving(after, until, messages, size, parts))
        return found

    def read(self, after: int, until: int, max_bytes: int = wire.READ_BYTES_MAX, filter: str | None = None) -> list[Read]:
        """All of a range, in as many answers as it takes."""
        found: list[Read] = []
        for _ in range(10_000):
            answer: wire.ReaderMessages = self.call(wire.ReaderRead(self.queue, after, until, max_bytes, filter))
            found += messages(answer)
            assert answer.position >= after
            after = answer.position
            if answer.end:
                return found
        raise AssertionError("a range without an end")

    def bodies(self, after: int, until: int, **more: Any) -> list[bytes]:
        return [message.body for message in self.read(after, until, **more)]

    def settling(self, until: int) -> wire.ReaderSettle:
        return wire.ReaderSettle(self.queue, self.reader or "", self.epoch, until)

    def settle(self, until: int) -> None:
        assert isinstance(self.call(self.settling(until)), wire.NullResponse)
