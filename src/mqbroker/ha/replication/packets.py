"""Packets of an active broker and its replica on the channel of replication.

Source: ``protocol-spec/``, chapter "Pairs of brokers".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from mqbroker.storage.mirror.changes import Buffer
from mqclient.errors import MalformedPacketError
from mqclient.wire.frames import HEADER, REPLICATION_CHANNEL, frame
from mqclient.wire.primitives import Decoder, Encoder, TransportConfiguration

VERSION = 1
"""Of these packets, and of the stream of changes that they carry."""

CHANGES_MAX = 60 * 1024
"""Bytes of the stream of changes in one packet: a connection without a session takes frames of 64 KiB."""

TEXT_MAX = 8 * 1024
"""Bytes of every other packet between an active broker and its replica: names, ids, a connector, numbers."""

STOP_CALLED, FAIL_OVER = 0, 1
"""The values of SCHEDULED_FAILOVER."""


@dataclass(frozen=True, slots=True)
class Hello:
    """A replica has registered: which copy it is, and of which node (empty: of any)."""

    TYPE: ClassVar[int] = -100
    version: int
    copy_id: str
    node_id: str

    def write(self, encoder: Encoder) -> None:
        encoder.i8(self.version)
        encoder.string(self.copy_id)
        encoder.string(self.node_id)

    @classmethod
    def read(cls, decoder: Decoder) -> Hello:
        return cls(decoder.i8(), decoder.string(), decoder.string())


@dataclass(frozen=True, slots=True)
class Welcome:
    """The active broker takes the replica.  ``connector`` is how it is reached."""

    TYPE: ClassVar[int] = -101
    version: int
    copy_id: str
    node_id: str
    connector: TransportConfiguration
    allows_failback: bool

    def write(self, encoder: Encoder) -> None:
        encoder.i8(self.version)
        encoder.string(self.copy_id)
        encoder.string(self.node_id)
        encoder.transport(self.connector)
        encoder.boolean(self.allows_failback)

    @classmethod
    def read(cls, decoder: Decoder) -> Welcome:
        return cls(decoder.i8(), decoder.string(), decoder.string(), decoder.transport(), decoder.boolean())


@dataclass(frozen=True, slots=True)
class Ready:
    """The replica has noted durably that its former files are of no use: the stream of changes may begin."""

    TYPE: ClassVar[int] = -108

    def write(self, encoder: Encoder) -> None:
        """The packet has no more content."""

    @classmethod
    def read(cls, decoder: Decoder) -> Ready:
        return cls()


@dataclass(frozen=True, slots=True)
class Changes:
    """A piece of the stream of changes."""

    TYPE: ClassVar[int] = -102
    data: Buffer


@dataclass(frozen=True, slots=True)
class Answered:
    """The replica has done the changes up to this number."""

    TYPE: ClassVar[int] = -103
    number: int

    def write(self, encoder: Encoder) -> None:
        encoder.i64(self.number)

    @classmethod
    def read(cls, decoder: Decoder) -> Answered:
        return cls(decoder.i64())


@dataclass(frozen=True, slots=True)
class Complete:
    """The copy is complete: the replica notes the sequence, and with it that the active broker is the other copy."""

    TYPE: ClassVar[int] = -104
    sequence: int

    def write(self, encoder: Encoder) -> None:
        encoder.i64(self.sequence)

    @classmethod
    def read(cls, decoder: Decoder) -> Complete:
        return cls(decoder.i64())


@dataclass(frozen=True, slots=True)
class Completed:
    """The replica has noted the sequence durably."""

    TYPE: ClassVar[int] = -105

    def write(self, encoder: Encoder) -> None:
        """The packet has no more content."""

    @classmethod
    def read(cls, decoder: Decoder) -> Completed:
        return cls()


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the proof, with the name of its kind; answered by :class:`Reply` with the same number."""

    TYPE: ClassVar[int] = -106
    number: int
    handler: str
    data: bytes

    def write(self, encoder: Encoder) -> None:
        encoder.i32(self.number)
        encoder.string(self.handler)
        encoder.raw(self.data)

    @classmethod
    def read(cls, decoder: Decoder) -> Question:
        return cls(decoder.i32(), decoder.string(), decoder.raw(decoder.remaining))


@dataclass(frozen=True, slots=True)
class Reply:
    TYPE: ClassVar[int] = -107
    number: int
    data: bytes

    def write(self, encoder: Encoder) -> None:
        encoder.i32(self.number)
        encoder.raw(self.data)

    @classmethod
    def read(cls, decoder: Decoder) -> Reply:
        return cls(decoder.i32(), decoder.raw(decoder.remaining))


@dataclass(frozen=True, slots=True)
class ScheduledFailover:
    """The active broker stops (:data:`STOP_CALLED`), or has given itself up durably: the replica goes on (:data:`FAIL_OVER`)."""

    TYPE: ClassVar[int] = 121
    value: int

    def write(self, encoder: Encoder) -> None:
        encoder.i32(self.value)

    @classmethod
    def read(cls, decoder: Decoder) -> ScheduledFailover:
        return cls(decoder.i32())


Said: TypeAlias = Hello | Welcome | Ready | Answered | Complete | Completed | Question | Reply | ScheduledFailover
"""Every packet but :class:`Changes`, which is written by :func:`changes_frames`."""

_KINDS: tuple[type[Said], ...] = (
    Hello,
    Welcome,
    Ready,
    Answered,
    Complete,
    Completed,
    Question,
    Reply,
    ScheduledFailover,
)
_BY_TYPE = {kind.TYPE: kind for kind in _KINDS}


def packet_frame(packet: Said) -> bytes:
    """A packet as a whole frame."""
    encoder = Encoder()
    packet.write(encoder)
    return frame(packet.TYPE, REPLICATION_CHANNEL, bytes(encoder.data))


def read_packet(packet_type: int, body: bytes | memoryview) -> Said | Changes:
    """The data of changes are ``body`` itself.  Raises MalformedPacketError."""
    if packet_type == Changes.TYPE:
        _check_size(Changes, body, CHANGES_MAX)
        return Changes(body)
    kind = _BY_TYPE.get(packet_type)
    if kind is None:
        raise MalformedPacketError("frame", "type", f"unknown packet type {packet_type} on the channel of replication")
    _check_size(kind, body, TEXT_MAX)
    return kind.read(Decoder(bytes(body), kind.__name__))


def _check_size(kind: type[Said | Changes], body: bytes | memoryview, limit: int) -> None:
    if len(body) > limit:
        raise Decoder(b"", kind.__name__).fail(f"{len(body)} bytes are more than {limit}")


def changes_frames(buffers: Sequence[Buffer]) -> list[bytes]:
    """The stream of changes goes on with these bytes: whole frames."""
    size = sum(map(len, buffers))
    if size <= CHANGES_MAX:
        return [b"".join((_changes_header(size), *buffers))] if size else []
    data = memoryview(b"".join(buffers))
    pieces = (data[start : start + CHANGES_MAX] for start in range(0, size, CHANGES_MAX))
    return [b"".join((_changes_header(len(piece)), piece)) for piece in pieces]


def _changes_header(size: int) -> bytes:
    return HEADER.pack(9 + size, Changes.TYPE, REPLICATION_CHANNEL)
