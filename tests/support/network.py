"""A core client on a fake clock, an in-memory network, and brokers that answer from a script or from a recorded conversation."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mqclient.core.api import LocatorSettings, TransportConfiguration
from mqclient.core.factories.factory import SessionFactory
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import LinkHandler
from mqclient.core.session.session import Session
from mqclient.errors import NotConnectedError
from mqclient.twisted import TwistedRuntime
from mqclient.wire.frames import FRAME_SIZE_MAX, HEADER_SIZE, PREAMBLE, FrameSplitter, frame
from mqclient.wire.message import KEY_FORCED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.packets import (
    AddMetadataV2,
    BindingQuery,
    BindingQueryResponseV5,
    CheckForFailover,
    CheckForFailoverReply,
    ClusterTopologyV4,
    Commit,
    ConsumerClose,
    CreateAddress,
    CreateConsumer,
    CreateQueueV2,
    CreateSession,
    CreateSessionResponse,
    DeleteQueue,
    ForceConsumerDelivery,
    NullResponse,
    Packet,
    Ping,
    ProducerCredits,
    ProducerRequestCredits,
    QueueQuery,
    QueueQueryResponseV3,
    ReattachSession,
    ReattachSessionResponse,
    Rollback,
    SessionClose,
    SessionReceive,
    SessionSend,
    SessionSendContinuation,
    SessionStop,
    SubscribeTopologyV2,
    UniqueAddMetadata,
    decode_packet,
    encode_packet,
)
from mqclient.wire.properties import LONG

VECTORS = Path(__file__).resolve().parents[2] / "protocol-spec" / "vectors"
NODE_ID = "11111111-2222-11ee-8888-000000000001"
WALL_CLOCK_MS = 1_700_000_000_000


class FakeRuntime(TwistedRuntime):
    """The Twisted runtime on a fake clock; ``connect`` goes to ``network``."""

    def __init__(self, clock: Clock, network: Network) -> None:
        super().__init__(clock, clock.seconds)
        self.clock = clock
        self.network = network
        self.failures: list[BaseException] = []
        self.warnings: list[str] = []
        self._counter = 0

    def wall_clock_ms(self) -> int:
        return WALL_CLOCK_MS + int(self.clock.seconds() * 1000)

    def connect(self, connector: TransportConfiguration, handler: LinkHandler, timeout: float) -> Awaitable[Any]:
        return self.network.connect(connector, handler)

    def random_bytes(self, size: int) -> bytes:
        self._counter += 1
        return self._counter.to_bytes(size, "big")

    def random_below(self, limit: int) -> int:
        return 0

    def log_failure(self, text: str, error: BaseException) -> None:
        self.failures.append(error)

    def log_warning(self, text: str) -> None:
        self.warnings.append(text)


class MemoryLink:
    """Bytes gather until the network is stirred; so nothing is answered in the middle of a call."""

    def __init__(self, network: Network, handler: LinkHandler, broker: Broker) -> None:
        self.network = network
        self.handler = handler
        self.broker = broker
        self.peer = "broker:61616"
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []
        self.open = True
        self.closed_by_client = False

    def write(self, data: bytes) -> None:
        if self.open:
            self.to_broker.append(data)

    def close(self) -> None:
        self.network.deliver(self)
        self.closed_by_client = True
        if self.open:
            self.open = False
            self.handler.link_lost("closed")

    def abort(self) -> None:
        self.closed_by_client = True
        self.open = False

    def cut(self, reason: str = "cut") -> None:
        """The network loses the connection."""
        if self.open:
            self.open = False
            self.to_broker.clear()
            self.to_client.clear()
            self.handler.link_lost(reason)


class Network:
    """Brokers by port; every connector's port is text."""

    def __init__(self) -> None:
        self.brokers: dict[str, Broker] = {}
        self.links: list[MemoryLink] = []
        self.tried: list[str] = []

    def connect(self, connector: TransportConfiguration, handler: LinkHandler) -> Deferred[Any]:
        port = str(dict(connector.parameters)["port"])
        self.tried.append(port)
        broker = self.brokers.get(port)
        result: Deferred[Any] = Deferred()
        if broker is None:
            result.errback(NotConnectedError(f"nobody listens on {port}"))
        else:
            link = MemoryLink(self, handler, broker)
            self.links.append(link)
            broker.connected(link)
            result.callback(link)
        return result

    @property
    def link(self) -> MemoryLink:
        """The connection made last."""
        return self.links[-1]

    def deliver(self, link: MemoryLink) -> bool:
        """Pass on what waits in one direction and then the other."""
        busy = False
        if link.open and link.to_broker:
            data = b"".join(link.to_broker)
            link.to_broker.clear()
            link.broker.received(link, data)
            busy = True
        if link.open and link.to_client:
            data = b"".join(link.to_client)
            link.to_client.clear()
            link.handler.data_received(data)
            busy = True
        return busy

    def stir(self) -> None:
        """Pass everything on until all is quiet."""
        for _ in range(10_000):
            busy = [self.deliver(link) for link in list(self.links)]
            if not any(busy):
                return
        raise AssertionError("client and broker talk without end")


class Broker:
    """Base of the brokers of these tests: cuts frames out and keeps what came, by connection."""

    version = 136

    def __init__(self) -> None:
        self.received_packets: list[tuple[int, Packet]] = []
        self._splitters: dict[int, FrameSplitter] = {}

    def connected(self, link: MemoryLink) -> None:
        self._splitters[id(link)] = FrameSplitter(FRAME_SIZE_MAX)
        self.received_packets = []

    def received(self, link: MemoryLink, data: bytes) -> None:
        if data.startswith(PREAMBLE):
            data = data[len(PREAMBLE) :]
        for received in self._splitters[id(link)].feed(data):
            packet_type = int.from_bytes(received[4:5], "big", signed=True)
            channel = int.from_bytes(received[5:13], "big")
            packet = decode_packet(packet_type, received[HEADER_SIZE:], self.version)
            self.received_packets.append((channel, packet))
            self.handle(link, channel, packet)

    def handle(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        raise NotImplementedError

    def send(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        link.to_client.append(frame(packet.TYPE, channel, encode_packet(packet, self.version)))

    def got(self, *types: type[Packet]) -> list[Any]:
        """Packets of some types that came over the connection made last, in order."""
        return [packet for _, packet in self.received_packets if isinstance(packet, types)]

    def names(self, channel: int | None = None, leave_out: tuple[type[Packet], ...] = (Ping,)) -> list[str]:
        """Names of what came over the connection made last, on one channel or all."""
        return [
            packet.NAME
            for number, packet in self.received_packets
            if (channel is None or number == channel) and not isinstance(packet, leave_out)
        ]


class ScriptedBroker(Broker):
    """Answers as a broker does; ``silent`` types get no answer, ``answers`` overrides the answer of a type."""

    def __init__(self, version: int = 136) -> None:
        super().__init__()
        self.version = version
        self.accepts = range(121, version + 1)
        self.silent: set[type[Packet]] = set()
        self.answers: dict[type[Packet], Callable[[Any], Packet | None]] = {}
        self.reattaches: ReattachSessionResponse | None = None
        self.queue_info: dict[str, Any] = {}
        self.topology: list[ClusterTopologyV4] = [ClusterTopologyV4(False, NODE_ID, 1, last=True, server_version=version)]
        self.requested_versions: list[int] = []
        self.credits = True

    def handle(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        if type(packet) in self.silent:
            return
        override = self.answers.get(type(packet))
        if override is not None:
            answer = override(packet)
            if answer is not None:
                self.send(link, channel, answer)
            return
        for answer in self._answers(packet):
            self.send(link, channel, answer)

    def deliver(self, channel: int, packet: Packet) -> None:
        """Send something by itself over the connection made last, and let it arrive."""
        network = self._network
        self.send(network.link, channel, packet)
        network.stir()

    _network: Network

    def _answers(self, packet: Packet) -> list[Packet]:
        if isinstance(packet, Ping):
            return [packet]
        if isinstance(packet, SubscribeTopologyV2):
            return list(self.topology)
        if isinstance(packet, CreateSession):
            self.requested_versions.append(packet.version)
            return [CreateSessionResponse(self.version)]
        if isinstance(packet, CheckForFailover):
            return [CheckForFailoverReply(True)]
        if isinstance(packet, ReattachSession):
            return [self.reattaches or ReattachSessionResponse(-1, False)]
        if isinstance(packet, BindingQuery):
            return [BindingQueryResponseV5(True, (packet.address,))]
        if isinstance(packet, QueueQuery):
            return [self._info(packet.queue_name)]
        if isinstance(packet, CreateConsumer):
            return [self._info(packet.queue_name)] if packet.requires_response else []
        if isinstance(packet, ForceConsumerDelivery):
            return [marker(packet)]
        if isinstance(packet, ProducerRequestCredits):
            return [ProducerCredits(packet.credits, packet.address)] if self.credits else []
        if isinstance(packet, (SessionSend, SessionSendContinuation)):
            return [NullResponse(packet.correlation_id)] if packet.requires_response else []
        if isinstance(packet, Commit):
            return [NullResponse(-1 if packet.correlation_id is None else packet.correlation_id)]
        if isinstance(packet, (CreateQueueV2, CreateAddress)):
            return [NullResponse()] if packet.requires_response else []
        if isinstance(packet, (AddMetadataV2, UniqueAddMetadata)):
            return [NullResponse()] if packet.requires_confirmation else []
        if isinstance(packet, (SessionStop, SessionClose, ConsumerClose, Rollback, DeleteQueue)):
            return [NullResponse()]
        if getattr(packet, "requires_response", False):
            return [NullResponse()]
        return []

    def _info(self, name: str) -> QueueQueryResponseV3:
        values: dict[str, Any] = {
            "exists": True,
            "durable": True,
            "temporary": False,
            "consumer_count": 1,
            "message_count": 0,
            "filter_string": None,
            "address": name,
            "name": name,
            "routing_type": 1,
        }
        return QueueQueryResponseV3(**{**values, **self.queue_info})


def marker(packet: ForceConsumerDelivery) -> SessionReceive:
    """The answer to a forced delivery."""
    message = CoreMessage(1, "q", priority=0, properties={KEY_FORCED_DELIVERY: (LONG, packet.sequence)}, body=b"\0\0\0\0")
    return SessionReceive(encode_message(message), packet.consumer_id, 0)


COMPARED = (
    *("consumer_id", "message_id", "credits", "correlation_id", "sender_id", "sequence", "requires_response", "command_id"),
    *("xid", "one_phase", "failed", "timeout_seconds", "xa", "auto_commit_sends", "auto_commit_acks"),
)


class RecordedBroker(Broker):
    """Plays the broker's side of a recorded connection: what followed a client's packet in the recording follows it here.

    ``problems`` lists what the client sent otherwise than the recorded one; pings are not compared, nor are ``ignored`` types.
    """

    def __init__(self, scenario: str, connection: int = 0, ignored: tuple[str, ...] = ()) -> None:
        super().__init__()
        frames = json.loads((VECTORS / f"{scenario}.json").read_text())["connections"][connection]["frames"]
        skipped = ("PING", *ignored)
        self._frames = [entry for entry in frames if entry["name"] not in skipped]
        self._skipped = skipped
        self._at = 0
        self.problems: list[str] = []

    def handle(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        if packet.NAME in self._skipped:
            return
        if self._at >= len(self._frames):
            self.problems.append(f"{packet.NAME} after the end of the recording")
            return
        expected = self._frames[self._at]
        recorded = decode_packet(expected["type"], bytes.fromhex(expected["hex"])[HEADER_SIZE:], self.version)
        self._compare(recorded, expected["channel"], packet, channel)
        self._at += 1
        while self._at < len(self._frames) and self._frames[self._at]["dir"] == "s2c":
            link.to_client.append(bytes.fromhex(self._frames[self._at]["hex"]))
            self._at += 1

    @property
    def finished(self) -> bool:
        return self._at == len(self._frames)

    def _compare(self, recorded: Packet, recorded_channel: int, packet: Packet, channel: int) -> None:
        if (recorded.NAME, recorded_channel) != (packet.NAME, channel):
            self.problems.append(f"{packet.NAME} on {channel} instead of {recorded.NAME} on {recorded_channel}")
            return
        for name in COMPARED:
            if getattr(recorded, name, None) != getattr(packet, name, None):
                was, expected = getattr(packet, name), getattr(recorded, name)
                self.problems.append(f"{packet.NAME} number {self._at}: {name} is {was}, recorded was {expected}")


def connector(port: int | str = 61616, name: str = "one") -> TransportConfiguration:
    return TransportConfiguration(name, "netty", (("host", "broker"), ("port", str(port))))


class World:
    """A client and its surroundings."""

    def __init__(self, *brokers: Broker, **settings: Any) -> None:
        self.clock = Clock()
        self.network = Network()
        self.runtime = FakeRuntime(self.clock, self.network)
        connectors = []
        for number, broker in enumerate(brokers):
            port = 61616 + number
            self.network.brokers[str(port)] = broker
            if isinstance(broker, ScriptedBroker):
                broker._network = self.network
            connectors.append(connector(port, f"node-{number}"))
        self.locator = Locator(self.runtime, connectors or [connector()], LocatorSettings(**settings))

    def finish(self, awaitable: Any) -> Any:
        """Let everything happen that needs no time; the result, which must be there then."""
        self.network.stir()
        assert isinstance(awaitable, Deferred)
        outcome: list[Any] = []
        awaitable.addBoth(outcome.append)
        assert outcome, "the call is not finished"
        result = outcome[0]
        if hasattr(result, "raiseException"):
            awaitable.addErrback(lambda _: None)
            result.raiseException()
        return result

    def advance(self, seconds: float, step: float = 0.05) -> None:
        """Let time pass, with traffic in between."""
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end - 1e-9:
            self.clock.advance(min(step, end - self.clock.seconds()))
            self.network.stir()

    def factory(self) -> SessionFactory:
        factory: SessionFactory = self.finish(self.locator.create_session_factory())
        return factory

    def session(self, factory: SessionFactory | None = None, **options: Any) -> Session:
        session: Session = self.finish((factory or self.factory()).create_session("user", "password", **options))
        return session


def pending(awaitable: Any) -> bool:
    """Is the call still waiting?"""
    assert isinstance(awaitable, Deferred)
    return not awaitable.called


def message(message_id: int, consumer_id: int = 0, delivery_count: int = 1, body: bytes = b"", **values: Any) -> SessionReceive:
    """A delivery."""
    return SessionReceive(encode_message(CoreMessage(message_id, "q", body=body, **values)), consumer_id, delivery_count)
