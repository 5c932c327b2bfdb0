"""The recorded conversations of ``protocol-spec/vectors`` as frames with the version that their connection speaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqclient.wire.packets import VERSION_MAX, CreateSession, SubscribeTopologyV2, decode_packet

VECTORS = Path(__file__).resolve().parents[4] / "protocol-spec" / "vectors"

NOT_CORE = frozenset((*range(90, 104), 120, 121, -9, -16))
"""Packet types of replication and federation, which have no codec yet."""

_SUBSCRIBE = SubscribeTopologyV2.TYPE
_CREATE_SESSION = (CreateSession.TYPE, -18)


@dataclass(frozen=True)
class Connection:
    """One recorded TCP connection; ``frames`` are (client to server, whole frame)."""

    name: str
    version: int
    frames: list[tuple[bool, bytes]]


def files() -> list[Path]:
    """All recorded conversations, in order."""
    return sorted(VECTORS.glob("*/*.json"))


def load(path: Path) -> dict[str, Any]:
    """One conversation as it is in its file."""
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def connections(document: dict[str, Any]) -> Iterator[Connection]:
    """The connections of a conversation."""
    for connection in document["connections"]:
        frames = [(frame["dir"] == "c2s", bytes.fromhex(frame["hex"])) for frame in connection["frames"]]
        yield Connection(connection["name"], _version(frames), frames)


def packet_type(frame: bytes) -> int:
    """The type of a frame."""
    return int.from_bytes(frame[4:5], "big", signed=True)


def _version(frames: list[tuple[bool, bytes]]) -> int:
    """What the client declares first: in its subscription to the topology or in its first session."""
    for from_client, frame in frames:
        if from_client and packet_type(frame) == _SUBSCRIBE:
            packet = decode_packet(_SUBSCRIBE, frame[13:], VERSION_MAX)
            assert isinstance(packet, SubscribeTopologyV2)
            return packet.client_version
        if from_client and packet_type(frame) in _CREATE_SESSION:
            session = decode_packet(packet_type(frame), frame[13:], VERSION_MAX)
            assert isinstance(session, CreateSession)
            return session.version
    return VERSION_MAX
