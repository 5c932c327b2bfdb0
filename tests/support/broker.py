"""A whole broker without sockets: clients are in-memory transports, time and disk are moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.queue import Queue
from mqbroker.node.assembly import ActiveBroker
from mqbroker.server.security.login import Credentials, Identity, LoginFailedError, LoginStep
from mqbroker.server.transport.connection import ServerConnection
from mqbroker.server.transport.naming import Naming
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE, SESSION_CHANNEL, FrameSplitter, frame
from mqclient.wire.message import KEY_ROUTING_TYPE, TYPE_BYTES, CoreMessage, decode_message, encode_headers, encode_message
from mqclient.wire.properties import BYTE, TypedValue
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.held_store import HeldStore
from tests.support.parts import at_once, make_parts

P = TypeVar("P", bound=wire.Packet)

PERMISSIONS = (
    "send",
    "consume",
    "createAddress",
    "deleteAddress",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "createDurableQueue",
    "deleteDurableQueue",
    "browse",
    "manage",
    "view",
    "edit",
)
USERS = {"admin": "secret", "nobody": "nothing"}


class Users:
    """``admin`` has all permissions, ``nobody`` has none."""

    def login(self, credentials: Credentials) -> Identity | None:
        if credentials.user is None or USERS.get(credentials.user) != credentials.password:
            raise LoginFailedError("wrong user or password")
        return Identity(credentials.user, frozenset({"all"} if credentials.user == "admin" else {"nothing"}))


class Transport:
    """Keeps what the broker writes; a full one is not read from."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.reading = True
        self.closed = False
        self.aborted = False
        self.pauses = 0

    def writeSequence(self, data: list[bytes]) -> None:
        self.written += b"".join(data)

    def loseConnection(self) -> None:
        self.closed = True

    def abortConnection(self) -> None:
        self.closed = self.aborted = True

    def pauseProducing(self) -> None:
        self.reading = False
        self.pauses += 1

    def resumeProducing(self) -> None:
        self.reading = True


class World:
    """An active broker on parts in memory, without links to others.

    ``domains`` are the login entries that acceptors may name, ``imq`` the properties of an instance, ``others`` further parts.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        store: Any = None,
        clock: Any = None,
        recovered: Recovered | None = None,
        defer_to_thread: Callable[..., Deferred[Any]] = at_once,
        domains: Mapping[str, Any] | None = None,
        imq: Any = None,
        **others: Any,
    ) -> None:
        self.configuration = configuration or Configuration(security_enabled=False)
        if self.configuration.security_enabled and not self.configuration.security_settings:
            self.configuration.security_settings = {"#": {permission: frozenset({"all"}) for permission in PERMISSIONS}}
        self.clock: Any = clock or FakeClock()
        self.store: Any = store or HeldStore()
        self._bytes_given = 0
        disk = SimulatedDisk(Random(1))
        known: dict[str, Any] = {"entropy": self._next_bytes, "defer_to_thread": defer_to_thread, "read_file": lambda path: b""}
        parts = make_parts(self.clock, disk, **(known | others))
        users: Any = [LoginStep("required", Users())]
        settings = BrokerSettings(self.configuration, Path("/"), users, login_domains=domains or {}, imq=imq)
        self.broker = ActiveBroker(settings, parts, self.store, recovered or Recovered(), lambda: None)
        self.messaging = self.broker.messaging
        self.server = self.broker.server
        self.security = self.server.security
        self.registry = self.broker.registry
        self.broker.open_management()
        self.broker.serve()

    def _next_bytes(self, size: int) -> bytes:
        self._bytes_given += 1
        return self._bytes_given.to_bytes(size, "big")

    def queue(self, name: str) -> Queue:
        return self.messaging.core.queues[name]

    def peer(self, naming: Naming | None = None, handshake: bool = True, **options: Any) -> Peer:
        """A client that has just connected; ``options`` are those of :meth:`Server.connect`."""
        return Peer(self, naming, handshake, **options)

    def session(self, **request: Any) -> Session:
        """A session of a client of its own."""
        return self.peer().session(**request)


class Peer:
    """The client end of one connection."""

    def __init__(self, world: World, naming: Naming | None = None, handshake: bool = True, **options: Any) -> None:
        self.world = world
        self.transport = Transport()
        self.connection: ServerConnection = world.server.connect(self.transport, "127.0.0.1:5000", naming, **options)
        self.version = 136
        self._splitter = FrameSplitter(1 << 30)
        self._next_channel = 10
        self.inbox: list[tuple[int, wire.Packet]] = []
        if handshake:
            self.feed(PREAMBLE)

    def feed(self, data: bytes) -> None:
        self.connection.received(data)

    def send(self, packet: wire.Packet, channel: int) -> None:
        self.feed(frame(packet.TYPE, channel, wire.encode_packet(packet, self.version)))

    def read(self) -> list[tuple[int, wire.Packet]]:
        """What has come since the last call, with channels."""
        data = bytes(self.transport.written)
        self.transport.written.clear()
        for received in self._splitter.feed(data):
            kind = int.from_bytes(received[4:5], "big", signed=True)
            channel = int.from_bytes(received[5:13], "big")
            self.inbox.append((channel, wire.decode_packet(kind, received[13:], self.version)))
        found, self.inbox = self.inbox, []
        return found

    def take(self, channel: int) -> list[wire.Packet]:
        """What has come on one channel."""
        found = self.read()
        self.inbox = [entry for entry in found if entry[0] != channel]
        return [packet for at, packet in found if at == channel]

    def ping(self, ttl_ms: int = 60000) -> None:
        self.send(wire.Ping(ttl_ms), PING_CHANNEL)

    def session(self, *, version: int = 136, channel: int | None = None, name: str | None = None, **request: Any) -> Session:
        """Open a session; ``request`` are fields of CREATESESSION."""
        if channel is None:
            channel = self._next_channel
            self._next_channel += 1
        values: dict[str, Any] = {
            "name": name or f"{self.connection.connection_id}-{channel}",
            "session_channel_id": channel,
            "version": version,
            "min_large_message_size": 102400,
            "xa": False,
            "auto_commit_sends": True,
            "auto_commit_acks": True,
            "window_size": -1,
            "pre_acknowledge": False,
            **request,
        }
        self.version = version
        self.send(wire.CreateSession(**values), SESSION_CHANNEL)
        return Session(self, channel, values["name"])

    def open(self, **request: Any) -> Session:
        """As :meth:`session`, with the broker's answer taken and checked."""
        session = self.session(**request)
        answers = self.take(SESSION_CHANNEL)
        assert answers and isinstance(answers[-1], wire.CreateSessionResponse), answers
        return session

    def lose(self) -> None:
        """The socket breaks."""
        self.connection.lost("connection reset")


class Session:
    """The client end of a session."""

    def __init__(self, peer: Peer, channel: int, name: str) -> None:
        self.peer = peer
        self.channel = channel
        self.name = name

    @property
    def server_session(self) -> Any:
        return self.peer.connection.sessions[self.channel]

    def send(self, packet: wire.Packet) -> None:
        self.peer.send(packet, self.channel)

    def frame(self, packet: wire.Packet) -> bytes:
        """What :meth:`send` would send."""
        return frame(packet.TYPE, self.channel, wire.encode_packet(packet, self.peer.version))

    def take(self) -> list[wire.Packet]:
        return self.peer.take(self.channel)

    def call(self, packet: wire.Packet) -> wire.Packet:
        """Send a request and take its one answer; what else has come stays."""
        self.send(packet)
        packets = self.take()
        answers = [answer for answer in packets if answer.RESPONSE]
        assert len(answers) == 1, packets
        self.peer.inbox += [(self.channel, other) for other in packets if not other.RESPONSE]
        return answers[0]

    def ok(self, *requests: wire.Packet) -> None:
        """Send requests that are answered with NULL_RESPONSE."""
        for request in requests:
            answer = self.call(request)
            assert isinstance(answer, wire.NullResponse), answer

    def error(self, packet: wire.Packet) -> int:
        """Send a request that fails; returns the code."""
        answer = self.call(packet)
        assert isinstance(answer, wire.ExceptionResponse), answer
        return answer.error_code

    # --- shortcuts

    def create_queue(self, name: str, address: str | None = None, **attributes: Any) -> None:
        values = {"durable": True, "routing_type": 1, **attributes}
        self.ok(wire.CreateQueueV2(address or name, name, **values))

    def message(
        self,
        body: bytes = b"body",
        address: str = "q",
        *,
        durable: bool = True,
        priority: int = 4,
        expiration: int = 0,
        routing_type: int | None = 1,
        user_id: bytes | None = None,
        properties: dict[str, TypedValue] | None = None,
    ) -> CoreMessage:
        values = dict(properties or {})
        if routing_type is not None:
            values[KEY_ROUTING_TYPE] = (BYTE, routing_type)
        return CoreMessage(
            address=address,
            type=TYPE_BYTES,
            durable=durable,
            priority=priority,
            expiration=expiration,
            user_id=user_id,
            properties=values,
            body=body,
        )

    def publish(self, body: bytes = b"body", address: str = "q", *, reply: bool = False, number: int = -2, **headers: Any) -> None:
        """SESS_SEND; with ``reply`` it asks for an answer under this correlation id."""
        buffer = encode_message(self.message(body, address, **headers))
        self.send(wire.SessionSend(buffer, reply, number if reply else 0))

    def begin_large(self, address: str = "q", **headers: Any) -> None:
        self.send(wire.SessionSendLarge(encode_headers(self.message(b"", address, **headers))))

    def chunk(self, data: bytes, total: int | None = None, *, reply: bool = False, number: int = -2) -> None:
        """A piece of a large message; the last one tells the ``total`` size."""
        continues = total is None
        self.send(wire.SessionSendContinuation(data, continues, -1 if total is None else total, reply, number if reply else 0))

    def consume(
        self, queue: str = "q", consumer: int = 0, *, credits: int = -1, start: bool = True, filter: str | None = None, **more: Any
    ) -> None:
        """Open a consumer with credits on a started session."""
        self.send(wire.CreateConsumer(consumer, queue, filter, requires_response=False, **more))
        if credits:
            self.send(wire.FlowToken(consumer, credits))
        if start:
            self.send(wire.SessionStart())

    def received(self) -> list[wire.SessionReceive]:
        """The messages that have come; everything else is put back."""
        packets = self.take()
        self.peer.inbox += [(self.channel, packet) for packet in packets if not isinstance(packet, wire.SessionReceive)]
        return [packet for packet in packets if isinstance(packet, wire.SessionReceive)]

    def bodies(self) -> list[bytes]:
        return [decode_message(packet.message).body for packet in self.received()]


def message_id(packet: wire.SessionReceive) -> int:
    return decode_message(packet.message).message_id


def of_kind(packets: Iterable[wire.Packet], kind: type[P]) -> list[P]:
    return [packet for packet in packets if isinstance(packet, kind)]
