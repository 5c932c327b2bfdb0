"""A broker on the test's own reactor, and a client of it that speaks packets."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqclient.urls import parse_transport_uri
from mqclient.wire import packets as wire
from mqclient.wire.frames import PING_CHANNEL, PREAMBLE, SESSION_CHANNEL, FrameSplitter, frame

reactor: Any = _reactor
CHANNEL = 10


class WireClient(Protocol):
    """Sends packets and waits for the next one of a kind."""

    def __init__(self) -> None:
        self.closed: Deferred[None] = Deferred()
        self.packets: list[wire.Packet] = []
        self._waiting: list[tuple[type[wire.Packet], Deferred[Any]]] = []
        self._splitter = FrameSplitter(1 << 30)

    def connectionMade(self) -> None:
        self._write(PREAMBLE)

    def dataReceived(self, data: bytes) -> None:
        for received in self._splitter.feed(data):
            kind = int.from_bytes(received[4:5], "big", signed=True)
            self.packets.append(wire.decode_packet(kind, received[13:], 136))
        self._serve()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closed.callback(None)
        for _, waiting in self._waiting:
            waiting.errback(reason)

    def send(self, packet: wire.Packet, channel: int = CHANNEL) -> None:
        self._write(frame(packet.TYPE, channel, wire.encode_packet(packet, 136)))

    def _write(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)

    def next(self, kind: type[wire.Packet]) -> Deferred[Any]:
        """The next packet of this kind; those before it are dropped."""
        waiting: Deferred[Any] = Deferred()
        waiting.addTimeout(10, reactor)
        self._waiting.append((kind, waiting))
        self._serve()
        return waiting

    def _serve(self) -> None:
        while self._waiting:
            kind, waiting = self._waiting[0]
            at = next((index for index, packet in enumerate(self.packets) if isinstance(packet, kind)), None)
            if at is None:
                return
            del self._waiting[0]
            packet = self.packets[at]
            del self.packets[: at + 1]
            waiting.callback(packet)

    async def ping(self) -> None:
        """A round trip."""
        self.send(wire.Ping(60000), PING_CHANNEL)
        await self.next(wire.Ping)

    async def open(self, user: str | None = None, password: str | None = None, **request: Any) -> None:
        """Open a session on channel 10.  Raises RuntimeError with the broker's words."""
        values = {"auto_commit_sends": True, "auto_commit_acks": True, **request}
        self.send(wire.CreateSession(f"s{id(self)}", CHANNEL, 136, user, password, **values), SESSION_CHANNEL)
        answer = await self.next(wire.Packet)
        if isinstance(answer, wire.ExceptionResponse):
            raise RuntimeError(answer.message)

    def close(self) -> Deferred[None]:
        transport: Any = self.transport
        if not self.closed.called:
            transport.loseConnection()
        return self.closed


class BrokerCase(TestCase):
    """Starts brokers in a folder of their own, and ends everything."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-server-"))
        self.clients: list[WireClient] = []
        self.brokers: list[Broker] = []

    async def tearDown(self) -> None:  # type: ignore[override]
        try:
            for client in self.clients:
                await client.close()
            for broker in self.brokers:
                await broker.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)  # trial makes cleanups before this

    def start(self, *acceptors: str, web: tuple[str, ...] = (), domains: Any = None, **configuration: Any) -> Broker:
        values = {"security_enabled": False, "persistence_enabled": False, **configuration}
        settings = BrokerSettings(Configuration(**values), self.folder, web=web, login_domains=domains or {})
        uris = acceptors or ("tcp://127.0.0.1:0",)
        settings.configuration.acceptors = [parse_transport_uri(uri, f"a{number}") for number, uri in enumerate(uris)]
        broker = Broker(settings, reactor)
        broker.start()
        self.brokers.append(broker)
        return broker

    async def stop(self, broker: Broker) -> None:
        for client in self.clients:
            await client.close()
        self.clients.clear()
        await broker.stop()
        self.brokers.remove(broker)

    async def connect(self, broker: Broker, acceptor: int = 0, tls: Any = None) -> WireClient:
        """A client; ``tls`` is what :func:`twisted.internet.ssl.optionsForClientTLS` gives."""
        address = broker.acceptors[acceptor].addresses[0]
        endpoint: Any = HostnameEndpoint(reactor, "127.0.0.1", address.port)
        if tls is not None:
            endpoint = wrapClientTLS(tls, endpoint)
        client: WireClient = await connectProtocol(endpoint, WireClient())
        self.clients.append(client)
        return client
