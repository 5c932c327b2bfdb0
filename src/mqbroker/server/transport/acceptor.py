"""Acceptors: where clients connect (Artemis manual, "Configuring the transport")."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import gatherResults, maybeDeferred
from twisted.internet.interfaces import IHandshakeListener, IListeningPort, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from zope.interface import implementer

from mqbroker.server.security.certificates import names_host
from mqbroker.server.transport.connection import ConnectionTransport, ServerConnection
from mqbroker.server.transport.handshake import HANDSHAKE_TIMEOUT_SECONDS
from mqbroker.server.transport.http_tunnel import RESPONSE_MS, SCAN_MS, HttpTunnel, looks_like_http
from mqbroker.server.transport.naming import Naming
from mqbroker.server.transport.tls import server_context
from mqclient.shells.twisted_direct import write_directly
from mqclient.shells.twisted_losses import loss_reason
from mqclient.urls import TransportUri

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.address import IPv4Address, IPv6Address
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IAddress
    from twisted.python.failure import Failure

    from mqbroker.messaging.ports import Clock

log = Logger(namespace="mqbroker.server")

BACKLOG_DEFAULT = 128
"""Connections that the operating system holds until they are taken, unless the acceptor has another number."""

ACCEPTS_MAX = 4
"""Connections that an acceptor takes in one turn of the loop, so that open connections come first."""

REFUSALS_LOGGED_SECONDS = 10.0
"""The time within which an acceptor logs at most one line about refused connections."""


class ConnectingServer(typing.Protocol):
    """The server, as its acceptors see it."""

    @property
    def clock(self) -> Clock: ...

    def connect(
        self,
        transport: ConnectionTransport,
        remote: str,
        naming: Naming | None = None,
        certificate: object = None,
        *,
        handshake_timeout_seconds: float = HANDSHAKE_TIMEOUT_SECONDS,
        security_domain: str | None = None,
        cluster_connection: str | None = None,
    ) -> ServerConnection:
        """Make a connection for an open transport.  0 seconds: the peer may take any time to begin."""


def speaks_core(uri: TransportUri) -> bool:
    """Do the acceptor's ``protocols`` include CORE?  No protocols, or only unknown ones, mean all."""
    names = {name.strip().upper() for name in uri.parameters.get("protocols", uri.parameters.get("protocol", "")).split(",")}
    known = names & {"CORE", "AMQP", "STOMP", "MQTT", "OPENWIRE", "HORNETQ"}
    return not known or "CORE" in known


def is_secure(uri: TransportUri) -> bool:
    """Does the acceptor use TLS?"""
    return uri.parameters.get("sslEnabled", "").lower() == "true"


def starts_itself(uri: TransportUri) -> bool:
    """Is the acceptor opened when the broker starts, and not later by management?"""
    return uri.parameters.get("autoStart", "true").lower() == "true"


def tcp_url(host: str, port: int) -> str:
    """The URL of an address; IPv6 addresses stand in brackets."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def naming_of(uri: TransportUri) -> Naming:
    """The name rules of an acceptor."""

    def prefixes(key: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in uri.parameters.get(key, "").split(",") if part.strip())

    return Naming(prefixes("anycastPrefix"), prefixes("multicastPrefix"))


class DirectTransport:
    """A plain socket's transport that writes to the socket at once."""

    __slots__ = ("_transport", "abortConnection", "loseConnection", "pauseProducing", "resumeProducing")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.loseConnection: Callable[[], None] = transport.loseConnection
        self.abortConnection: Callable[[], None] = transport.abortConnection
        self.pauseProducing: Callable[[], None] = transport.pauseProducing
        self.resumeProducing: Callable[[], None] = transport.resumeProducing

    def writeSequence(self, data: list[bytes]) -> None:
        write_directly(self._transport, data)


@implementer(IPushProducer, IHandshakeListener)
class BrokerProtocol(Protocol):
    """A socket, handed to a :class:`ServerConnection`.  As a push producer it is told when the output buffer is full."""

    connection: ServerConnection | None = None
    factory: BrokerFactory
    _tunnel: HttpTunnel | None = None
    """The client speaks HTTP."""

    def __init__(self) -> None:
        self._first = b""
        """The first bytes, kept until they show whether the client speaks HTTP."""
        self._take: Callable[[bytes], None] = self._begin

    def connectionMade(self) -> None:
        transport: Any = self.transport
        acceptor = self.factory.acceptor
        if not acceptor.admit():
            transport.abortConnection()
            return
        transport.setTcpNoDelay(acceptor.tcp_no_delay)
        acceptor.set_buffers(transport)
        transport.registerProducer(self, True)
        peer = transport.getPeer()
        self.connection = acceptor.server.connect(
            transport if acceptor.secure else DirectTransport(transport),
            f"{peer.host}:{peer.port}",
            acceptor.naming,
            transport.getPeerCertificate if acceptor.secure else None,
            handshake_timeout_seconds=acceptor.handshake_timeout_seconds,
            security_domain=acceptor.security_domain,
            cluster_connection=acceptor.cluster_connection,
        )

    def handshakeCompleted(self) -> None:
        """TLS is up.  ``verifyHost``: the certificate must be for the host from which the client connects."""
        transport: Any = self.transport
        certificate = transport.getPeerCertificate()
        if self.connection is None or certificate is None or not self.factory.acceptor.verify_host:
            return
        host = transport.getPeer().host
        if not names_host(certificate.to_cryptography(), host):
            self.connection.fail(f"the certificate of the client is not for the host {host}")

    def dataReceived(self, data: bytes) -> None:
        self._take(data)

    def _begin(self, data: bytes) -> None:
        connection = self.connection
        if connection is None:
            return
        self._first += data
        speaks_http = looks_like_http(self._first)
        if speaks_http is None:
            return
        if speaks_http:
            connection.wrap_transport(self._tunnelled)
        self._take = connection.received if self._tunnel is None else self._tunnel.received
        self._take(self._first)

    def _tunnelled(self, transport: ConnectionTransport) -> HttpTunnel:
        acceptor, connection = self.factory.acceptor, self.connection
        assert connection is not None
        self._tunnel = HttpTunnel(transport, connection, acceptor.server.clock, acceptor.http_response_ms, acceptor.http_scan_ms)
        return self._tunnel

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._tunnel is not None:
            self._tunnel.lost()
        if self.connection is not None:
            self.factory.acceptor.left()
            self.connection.lost(loss_reason(reason))
            self.connection = None

    def pauseProducing(self) -> None:
        if self.connection is not None:
            (self._tunnel or self.connection).pause_output()

    def resumeProducing(self) -> None:
        if self.connection is not None:
            (self._tunnel or self.connection).resume_output()

    def stopProducing(self) -> None:
        """The transport is going; ``connectionLost`` follows."""


class BrokerFactory(Factory):
    """Makes the protocols of one acceptor."""

    noisy = False

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor = acceptor

    def buildProtocol(self, addr: IAddress | None) -> Any:
        protocol = BrokerProtocol()
        protocol.factory = self
        return protocol


def _accept_few(port: Any) -> None:
    """Let ``port`` take few connections per turn of the loop, so that open connections do not wait for a crowd of new ones.

    Twisted begins with a hundred, and raises the number while more are waiting.
    """
    accept = port.doRead

    def accept_few() -> None:
        port.numberAccepts = ACCEPTS_MAX
        accept()

    port.doRead = accept_few


class Sockets:
    """The number of open sockets of all acceptors of a broker: at most ``limit``, -1 = any number."""

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        self.open = 0


class Acceptor:
    """One ``acceptor`` of broker.xml: listens on each of its hosts.

    ``read_file`` reads key stores, ``reactor`` listens, ``set_socket_buffers`` takes a transport and the sizes of its send and receive
    buffers in bytes (-1 = the system's default), ``sockets`` counts the sockets of all acceptors, ``close_first`` lets the system close a
    port before its connections when the process dies, ``refuse_now`` lets it refuse clients of a port whose socket is closed only in the
    next turn of the loop.
    """

    def __init__(
        self,
        server: ConnectingServer,
        uri: TransportUri,
        reactor: Any,
        read_file: Callable[[str], bytes],
        set_socket_buffers: Callable[[Any, int, int], object] = lambda transport, send, receive: None,
        sockets: Sockets | None = None,
        close_first: Callable[[Any], object] = lambda port: None,
        refuse_now: Callable[[Any], object] = lambda port: None,
    ) -> None:
        self.server = server
        self.uri = uri
        self.naming = naming_of(uri)
        self.secure = is_secure(uri)
        self.tcp_no_delay = uri.parameters.get("tcpNoDelay", "true").lower() == "true"
        self._reactor = reactor
        self._read_file = read_file
        self.verify_host = uri.parameters.get("verifyHost", "").lower() == "true"
        self.starts_itself = starts_itself(uri)
        self.security_domain = uri.parameters.get("securityDomain") or None
        self.cluster_connection = uri.parameters.get("clusterConnection") or None
        self.handshake_timeout_seconds = float(uri.parameters.get("handshake-timeout", str(HANDSHAKE_TIMEOUT_SECONDS)))
        self.http_response_ms = int(uri.parameters.get("httpResponseTime", str(RESPONSE_MS)))
        self.http_scan_ms = int(uri.parameters.get("httpServerScanPeriod", str(SCAN_MS)))
        self._set_socket_buffers = set_socket_buffers
        self._send_buffer = int(uri.parameters.get("tcpSendBufferSize", "-1"))
        self._receive_buffer = int(uri.parameters.get("tcpReceiveBufferSize", "-1"))
        self._limit = int(uri.parameters.get("connectionsAllowed", "-1"))
        self._open = 0
        self._sockets = sockets or Sockets()
        self._close_first = close_first
        self._refuse_now = refuse_now
        self._ports: list[IListeningPort] = []
        self._last_refusal = -REFUSALS_LOGGED_SECONDS

    @property
    def name(self) -> str:
        return self.uri.name

    @property
    def started(self) -> bool:
        return bool(self._ports)

    @property
    def addresses(self) -> list[IPv4Address | IPv6Address]:
        """The addresses of its open ports."""
        return [port.getHost() for port in self._ports]  # type: ignore[misc]

    @property
    def urls(self) -> list[str]:
        """The URLs of the open ports; wildcard addresses stay."""
        return [tcp_url(address.host, address.port) for address in self.addresses]

    @property
    def local_url(self) -> str | None:
        """The URL for a client on this machine, with the loopback for a wildcard address; None while no port is open."""
        address = next(iter(self.addresses), None)
        if address is None:
            return None
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
        return tcp_url(host, address.port) + ("?sslEnabled=true" if self.secure else "")

    def start(self) -> None:
        """Listen.  Raises :class:`~twisted.internet.error.CannotListenError` when a port is taken, TlsConfigurationError."""
        factory: Any = BrokerFactory(self)
        if self.secure:
            # Imported here: the TLS modules would cost a broker without TLS a third of its start-up time.
            from twisted.protocols.tls import TLSMemoryBIOFactory

            factory = TLSMemoryBIOFactory(server_context(self.uri.parameters, self._read_file), False, factory, clock=self._reactor)
        backlog = int(self.uri.parameters.get("backlog", "-1"))
        try:
            for host in self.uri.hosts:
                interface = {"0.0.0.0": "", "localhost": "127.0.0.1"}.get(host, host)
                port = self._reactor.listenTCP(self.uri.port, factory, backlog if backlog > 0 else BACKLOG_DEFAULT, interface)
                self._close_first(port)
                _accept_few(port)
                self._ports.append(port)
        except BaseException:
            self.stop()
            raise
        for address in self.addresses:
            log.info(
                "AMQ221020: Started {scheme} Acceptor at {host}:{port} for protocols [CORE]",
                scheme="TLS" if self.secure else "TCP",
                host=address.host,
                port=address.port,
            )

    def stop(self) -> Deferred[list[None]]:
        """Close the ports: nobody can connect from now on.  Open connections stay."""
        ports, self._ports = self._ports, []
        for port in ports:
            self._refuse_now(port)
        return gatherResults([maybeDeferred(stop) for stop in (cast("Callable[[], Deferred[None]]", port.stopListening) for port in ports)])

    def set_buffers(self, transport: Any) -> None:
        """Give a new connection the buffers that the acceptor asks for."""
        if self._send_buffer > 0 or self._receive_buffer > 0:
            self._set_socket_buffers(transport, self._send_buffer, self._receive_buffer)

    def admit(self) -> bool:
        """May one more connection be opened: do ``connectionsAllowed`` and the descriptors of this process allow it?"""
        sockets = self._sockets
        if 0 <= self._limit <= self._open:
            self._refuse(f"{self._limit} connections are open, as many as connectionsAllowed says")
        elif 0 <= sockets.limit <= sockets.open:
            self._refuse(f"{sockets.open} connections are open, as many as the process may have: raise LimitNOFILE")
        else:
            self._open += 1
            sockets.open += 1
            return True
        return False

    def _refuse(self, reason: str) -> None:
        now = self.server.clock.monotonic()
        if now - self._last_refusal >= REFUSALS_LOGGED_SECONDS:
            self._last_refusal = now
            log.warn("acceptor {name}: {reason}; more are refused", name=self.name, reason=reason)

    def left(self) -> None:
        """An admitted connection has ended."""
        self._open -= 1
        self._sockets.open -= 1
