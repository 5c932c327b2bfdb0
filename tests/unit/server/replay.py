"""Plays the client side of a recorded conversation to a broker in memory, and compares what comes back with what was recorded.

The recorded client's packets are sent as they are, but for ids that the broker chose: message ids in acknowledgements become those that
this broker gave to the delivery at the same place.  Time is that of the recording.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqbroker.server.transport.naming import Naming
from mqclient.wire import packets as wire
from mqclient.wire.bodies import decode_text
from mqclient.wire.frames import PREAMBLE
from mqclient.wire.message import CoreMessage, decode_headers, decode_message
from tests.support.broker import Peer, World
from tests.support.clock import FakeClock
from tests.unit.mqclient.wire.vectors import connections, load, packet_type

WAIT_SECONDS = 60
"""How long a recorded acknowledgement waits for the delivery that it belongs to: periodic work of the two brokers has other phases."""

UNSTABLE_PROPERTIES = frozenset(
    (
        "_AMQ_ORIG_MESSAGE_ID",
        "_AMQ_ACTUAL_EXPIRY",
        "_AMQ_NotifTimestamp",
        "_AMQ_Binding_ID",
        "_AMQ_ClusterName",
        "_AMQ_RemoteAddress",
        "_AMQ_ConnectionName",
        "_AMQ_ConsumerName",
        "_AMQ_SessionName",
        "_AMQ_Message_ID",
    )
)
"""Properties whose values are ids, times or addresses of the broker that was recorded; their types are compared."""


MADE_UP = (("JMSCorrelationID", "null"),)
"""Properties with values that the recorded broker made up where there was none; they are left out here."""


class RecordedClock(FakeClock):
    """A clock that stands still, with the date of the recording."""

    def __init__(self, start_ms: int) -> None:
        super().__init__()
        self.start_ms = start_ms

    def wall_ms(self) -> int:
        return self.start_ms + round(self.seconds * 1000)


@dataclass
class Event:
    """A recorded frame.  ``last``: nothing follows on its connection."""

    at: float
    connection: int
    from_client: bool
    channel: int
    packet: wire.Packet
    lost: bool
    last: bool


@dataclass
class Stream:
    """What one session (or channel 0 or 1 of a connection) was sent."""

    recorded: list[wire.Packet] = field(default_factory=list)
    ours: list[wire.Packet] = field(default_factory=list)


Key = tuple[int, int, int]


class Replay:
    """One conversation.

    ``make_world`` is given the clock; ``restart`` makes the broker that takes over when the first connection ends; ``settle`` is called
    after every packet, for a store that works in steps.
    """

    def __init__(self, path: Path, make_world: Callable[[RecordedClock], World], naming: Naming | None = None) -> None:
        self.document = load(path)
        self.events = sorted(self._events(), key=lambda event: event.at)
        self.clock = RecordedClock(self._start_ms())
        self.world = make_world(self.clock)
        self.restart: Callable[[], World] | None = None
        self.settle: Callable[[], object] = lambda: None
        self.naming = naming
        self.peers: dict[int, Peer] = {}
        self.streams: dict[Key, Stream] = {}
        self.problems: list[str] = []
        self._origins: dict[tuple[int, int], Key] = {}
        self._sessions: dict[str, Key] = {}
        self._generation = 0
        self.sent_times = {time for event in self.events if event.from_client for time in _times(_message(event.packet)) if time}

    def _events(self) -> Iterator[Event]:
        for index, (connection, raw) in enumerate(zip(connections(self.document), self.document["connections"], strict=True)):
            frames = raw["frames"]
            for number, ((from_client, data), entry) in enumerate(zip(connection.frames, frames, strict=True)):
                kind = packet_type(data)
                channel = int.from_bytes(data[5:13], "big")
                packet = wire.decode_packet(kind, data[13:], connection.version)
                yield Event(entry["ms"] / 1000, index, from_client, channel, packet, bool(entry.get("lost")), number == len(frames) - 1)

    def _start_ms(self) -> int:
        for event in self.events:
            moment = getattr(event.packet, "unique_event_id", None)
            if moment:
                return int(moment - event.at * 1000)
        return 1_700_000_000_000

    # --- playing

    def run(self) -> list[str]:
        """Play everything; returns the differences."""
        for event in self.events:
            self._pass(event.at)
            if event.from_client:
                if not event.lost:
                    self._send(event)
            else:
                self._stream(event.connection, event.channel).recorded.append(event.packet)
            if event.last:
                self._close(event.connection)
        self._collect()
        for key, stream in sorted(self.streams.items()):
            self.problems.extend(f"{self._label(key)}: {text}" for text in compare(stream, self.sent_times))
        return self.problems

    def _label(self, key: Key) -> str:
        return f"{self.document['connections'][key[0]]['name']} channel {key[1]}"

    def _pass(self, at: float) -> None:
        if at > self.clock.seconds:
            self.clock.advance(at - self.clock.seconds)

    def _peer(self, connection: int) -> Peer:
        peer = self.peers.get(connection)
        if peer is None:
            peer = self.peers[connection] = Peer(self.world, self.naming, handshake=False)
            peer.feed(PREAMBLE)
        return peer

    def _stream(self, connection: int, channel: int) -> Stream:
        key = self._origins.get((connection, channel), (connection, channel, 0))
        return self.streams.setdefault(key, Stream())

    def _send(self, event: Event) -> None:
        packet = event.packet
        peer = self._peer(event.connection)
        if isinstance(packet, wire.CreateSession):
            self._generation += 1
            key = (event.connection, packet.session_channel_id, self._generation)
            self._origins[event.connection, packet.session_channel_id] = key
            self._sessions[packet.name] = key
        elif isinstance(packet, wire.ReattachSession):
            key = self._sessions[packet.name]
            self._origins[event.connection, key[1]] = key
        elif isinstance(packet, wire.Acknowledge | wire.IndividualAcknowledge | wire.Expired):
            packet = dataclasses.replace(packet, message_id=self._id_here(event, packet.consumer_id, packet.message_id))
        if isinstance(packet, wire.SubscribeTopologyV2):
            peer.version = packet.client_version
        peer.send(packet, event.channel)
        self._collect()

    def _id_here(self, event: Event, consumer: int, recorded_id: int) -> int:
        stream = self._stream(event.connection, event.channel)
        recorded = _ids(stream.recorded, consumer)
        if recorded_id not in recorded:
            return recorded_id
        index = len(recorded) - 1 - recorded[::-1].index(recorded_id)
        for _ in range(WAIT_SECONDS * 10):
            ours = _ids(stream.ours, consumer)
            if index < len(ours):
                return ours[index]
            self.clock.advance(0.1)
            self._collect()
        self.problems.append(f"consumer {consumer}: delivery {index + 1} never came")
        return -1

    def _collect(self) -> None:
        self.settle()
        for connection, peer in self.peers.items():
            for channel, packet in peer.read():
                self._stream(connection, channel).ours.append(packet)

    def _close(self, connection: int) -> None:
        self._collect()
        closed_by = self.document["connections"][connection]["closed_by"]
        peer = self.peers.get(connection)
        if peer is None:
            return
        if self.restart is not None and connection == 0:
            self.world.server.stop()
            self._collect()
            peer.lose()
            self.world = self.restart()
            return
        if closed_by == "server":
            if not peer.transport.closed:
                self.clock.advance(5)
                self._collect()
                if not peer.transport.closed:
                    self.problems.append("the recorded broker closed the connection")
            return
        if peer.transport.closed:
            self.problems.append("the connection was closed by this broker, not by the recorded one")
        peer.lose()


def _ids(packets: list[wire.Packet], consumer: int) -> list[int]:
    return [
        _core_message(packet).message_id
        for packet in packets
        if isinstance(packet, wire.SessionReceive | wire.SessionReceiveLarge) and packet.consumer_id == consumer
    ]


def _core_message(packet: wire.SessionReceive | wire.SessionReceiveLarge) -> CoreMessage:
    return decode_message(packet.message) if isinstance(packet, wire.SessionReceive) else decode_headers(packet.headers)


def _message(packet: wire.Packet) -> CoreMessage | None:
    if isinstance(packet, wire.SessionSend | wire.SessionReceive):
        return decode_message(packet.message)
    if isinstance(packet, wire.SessionSendLarge | wire.SessionReceiveLarge):
        return decode_headers(packet.headers)
    return None


def _times(message: CoreMessage | None) -> tuple[int, ...]:
    return () if message is None else (message.timestamp, message.expiration)


# --- comparing


def _lanes(packets: list[wire.Packet]) -> dict[str, list[wire.Packet]]:
    """Packets whose order among themselves is certain: answers, each consumer's messages, credits, confirmations.

    Among these the order is not: a delivery may come before or after the answer to the send that caused it, and credits before or after
    other answers.
    """
    lanes: dict[str, list[wire.Packet]] = {}
    for packet in packets:
        consumer = getattr(packet, "consumer_id", None)
        if isinstance(packet, wire.SessionReceive | wire.SessionReceiveLarge | wire.SessionReceiveContinuation):
            lane = f"consumer {consumer}"
        elif packet.RESPONSE:
            lane = "answers"
        elif isinstance(packet, wire.PacketsConfirmed):
            # Partial sums are told at ticks of a timer, which have another phase here: only the last number is certain.
            lanes["confirmed"] = [packet]
            continue
        else:
            lane = packet.NAME
        lanes.setdefault(lane, []).append(packet)
    return lanes


def compare(stream: Stream, sent_times: set[int]) -> list[str]:
    recorded, ours = _lanes(stream.recorded), _lanes(stream.ours)
    problems: list[str] = []
    for lane in sorted({*recorded, *ours}):
        wanted, found = recorded.get(lane, []), ours.get(lane, [])
        for number in range(max(len(wanted), len(found))):
            left = describe(wanted[number], sent_times) if number < len(wanted) else None
            right = describe(found[number], sent_times) if number < len(found) else None
            if left != right:
                problems.append(f"{lane} number {number + 1}: {difference(left, right)}")
                if left is None or right is None:
                    break
    return problems


def difference(recorded: dict[str, Any] | None, ours: dict[str, Any] | None) -> str:
    if recorded is None or ours is None:
        return f"recorded {recorded}, here {ours}"
    if recorded["packet"] != ours["packet"]:
        return f"recorded {recorded}, here {ours}"
    names = [name for name in {**recorded, **ours} if recorded.get(name) != ours.get(name)]
    return f"{recorded['packet']}: " + "; ".join(f"{name} recorded {recorded.get(name)!r}, here {ours.get(name)!r}" for name in names)


IGNORED = {
    "node_id",
    "unique_event_id",
    "groups",
    "message",
    "headers",
}


def describe(packet: wire.Packet, sent_times: set[int]) -> dict[str, Any]:
    """The stable content of a packet."""
    values: dict[str, Any] = {"packet": packet.NAME}
    for entry in dataclasses.fields(packet):  # type: ignore[arg-type]
        if entry.name not in IGNORED:
            values[entry.name] = getattr(packet, entry.name)
    if "queue_names" in values:
        values["queue_names"] = sorted(values["queue_names"])
    if isinstance(packet, wire.ExceptionResponse):
        text = packet.message or ""
        values["message"] = text[:9] if text.startswith("AMQ") else None
    message = _message(packet)
    if message is not None:
        values.update(_stable(message, sent_times))
    return values


def _stable(message: CoreMessage, sent_times: set[int]) -> dict[str, Any]:
    known = {time: time if time in sent_times or not time else "some" for time in _times(message)}
    return {
        "address": message.address,
        "user_id": message.user_id,
        "type": message.type,
        "durable": message.durable,
        "expiration": known[message.expiration],
        "timestamp": known[message.timestamp],
        "priority": message.priority,
        "properties": {
            key: (kind, None if key in UNSTABLE_PROPERTIES else repr(value))
            for key, (kind, value) in sorted(message.properties.items())
            if (key, value) not in MADE_UP
        },
        "body": message.body if message.user_id or "_AMQ_OperationSucceeded" not in message.properties else _shape(message.body),
    }


def _shape(body: bytes) -> Any:
    """The form of a management reply: the names in it, and the types of their values; error texts as they are."""
    return _form(json.loads(decode_text(body) or "null"))


def _form(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        return _form(json.loads(value))
    if isinstance(value, list):
        return [_form(value[0])] if value else []
    if isinstance(value, dict):
        return {name: _form(entry) for name, entry in sorted(value.items())}
    if isinstance(value, str) and value.startswith(("AMQ", "Problem")):
        return value
    return type(value).__name__
