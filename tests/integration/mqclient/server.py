"""The scripted broker of the unit tests behind a real socket, plain or with TLS."""

from __future__ import annotations

from typing import Any

from twisted.internet import endpoints, reactor
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from mqclient.wire.packets import CreateConsumer, FlowToken, Packet, SessionSend, SessionStart
from tests.support.network import MemoryLink, Network, ScriptedBroker, message


class _Outbox(list[bytes]):
    """``to_client`` of a link: writes at once."""

    def __init__(self, transport: Any) -> None:
        super().__init__()
        self._transport = transport

    def append(self, data: bytes) -> None:
        self._transport.write(data)


class _BrokerProtocol(Protocol):
    def __init__(self, server: SocketBroker) -> None:
        self._server = server
        self._link: Any = None
        self._heard = False

    def connectionMade(self) -> None:
        unused: Any = None
        self._link = MemoryLink(self._server.network, unused, self._server)
        self._link.to_client = _Outbox(self.transport)
        self._server.connected(self._link)
        self._server.connections.append(self)

    def dataReceived(self, data: bytes) -> None:
        if not self._heard and isinstance(self.transport, TLSMemoryBIOProtocol):
            connection: Any = self.transport.getHandle()
            self._server.negotiated.append((connection.get_protocol_version_name(), connection.get_cipher_name()))
        self._heard = True
        self._server.received(self._link, data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._server.connections.remove(self)


class SocketBroker(ScriptedBroker):
    """Keeps one queue: what is sent is delivered to the consumer made last."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.connections: list[_BrokerProtocol] = []
        self.negotiated: list[tuple[str, str]] = []
        """TLS version and cipher suite of each connection."""
        self.sent = 0
        """Messages that came, over all connections."""
        self._next_id = 1
        self._consumer: tuple[int, int] | None = None
        self._waiting: list[bytes] = []
        self._started = False
        self._port: Any = None
        self.port = 0

    async def listen(self, context: Any = None) -> None:
        """``context``: an OpenSSL context factory for TLS."""
        made: Any = reactor
        factory = Factory.forProtocol(lambda: _BrokerProtocol(self))
        if context is None:
            self._port = await endpoints.TCP4ServerEndpoint(made, 0, interface="127.0.0.1").listen(factory)
        else:
            self._port = await endpoints.SSL4ServerEndpoint(made, 0, context, interface="127.0.0.1").listen(factory)
        self.port = self._port.getHost().port

    async def stop(self) -> None:
        self.cut()
        await self._port.stopListening()

    def cut(self) -> None:
        """Every connection is lost."""
        self._consumer = None
        for connection in list(self.connections):
            transport: Any = connection.transport
            transport.abortConnection()

    def handle(self, link: MemoryLink, channel: int, packet: Packet) -> None:
        super().handle(link, channel, packet)
        if isinstance(packet, SessionSend):
            self.sent += 1
            self._waiting.append(packet.message)
        elif isinstance(packet, CreateConsumer):
            self._consumer = (channel, packet.consumer_id)
        elif isinstance(packet, SessionStart):
            self._started = True
        if isinstance(packet, (SessionSend, FlowToken, SessionStart)) and self._consumer is not None and self._started:
            consumer_channel, consumer_id = self._consumer
            while self._waiting:
                self._waiting.pop(0)
                self.send(link, consumer_channel, message(self._next_id, consumer_id))
                self._next_id += 1
