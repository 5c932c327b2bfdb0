"""The ways of clients into a broker: acceptors and in-process connections."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from mqbroker.node.parts import StartError
from mqbroker.process.descriptors import high_descriptor, sockets_max
from mqbroker.server.management.acceptor_control import AcceptorControl
from mqbroker.server.transport.acceptor import Acceptor, ConnectingServer, Sockets, speaks_core
from mqbroker.server.transport.tls_policy import TlsConfigurationError
from mqclient.text import nearest_name

if TYPE_CHECKING:
    from mqbroker.config.instance.broker_settings import BrokerSettings
    from mqclient.urls import TransportUri

log = Logger(namespace="mqbroker")


class Listeners:
    """The acceptors of a broker's configuration, and its in-process ways in."""

    def __init__(self, server: ConnectingServer, settings: BrokerSettings, reactor: Any, read_file: Callable[[str], bytes]) -> None:
        self.acceptors: list[Acceptor] = []
        self._server = server
        self._settings = settings
        self._reactor = reactor
        self._read_file = read_file
        self._domains = list(settings.login_domains)
        self._sockets = Sockets(sockets_max())
        self._in_process: list[Callable[[], object]] = []
        """Each ends one of the in-process ways in."""

    def find(self, name: str) -> AcceptorControl | None:
        """The management resource of an acceptor."""
        return next((AcceptorControl(acceptor) for acceptor in self.acceptors if acceptor.name == name), None)

    def open(self) -> None:
        """Open the acceptors of the configuration.  Raises :class:`StartError`; everything is closed again then."""
        try:
            for uri in self._settings.configuration.acceptors:
                self._open(uri)
        except BaseException:
            self.close()
            raise

    def _open(self, uri: TransportUri) -> None:
        if uri.scheme == "vm":
            try:
                self.accept_in_process(int(uri.host))
            except ValueError as error:
                raise StartError(f"acceptor {uri.name} ({uri}) cannot be opened: {error}") from error
            return
        if not speaks_core(uri):
            log.warn("acceptor {name} is not opened: its protocols do not include CORE, the only one this broker speaks", name=uri.name)
            return
        acceptor = Acceptor(
            self._server, uri, self._reactor, self._read_file, _set_socket_buffers, self._sockets, _close_first, _refuse_now
        )
        domain = acceptor.security_domain
        if domain is not None and domain not in self._domains:
            known = nearest_name(domain, self._domains) or ", ".join(self._domains) or "none"
            raise StartError(f"acceptor {uri.name}: securityDomain={domain} is not an entry of login.config; expected: {known}")
        self.acceptors.append(acceptor)
        if not acceptor.starts_itself:
            log.info("acceptor {name} is not opened until management starts it (autoStart=false)", name=uri.name)
            return
        try:
            acceptor.start()
        except (CannotListenError, TlsConfigurationError) as error:
            raise StartError(f"acceptor {uri.name} ({uri}) cannot be opened: {reason_of(error)}") from error

    def accept_in_process(self, number: int | None = None) -> int:
        """Take connections to ``vm://number`` (None = the first free number).  Returns the number; raises ValueError when it is taken."""
        from mqclient.invm import SERVERS, InVMAcceptor

        acceptor = InVMAcceptor(self._reactor.callFromThread, lambda transport: self._server.connect(transport, "invm:0"))
        registered = SERVERS.register(acceptor, number)
        self._in_process.append(partial(SERVERS.unregister, registered))
        return registered

    def serve(self, server: ConnectingServer) -> None:
        """New connections are those of ``server`` from now on; the ports stay open."""
        self._server = server
        for acceptor in self.acceptors:
            acceptor.server = server

    def close(self) -> Deferred[Any]:
        """Take no more connections; open connections stay."""
        while self._in_process:
            self._in_process.pop()()
        acceptors, self.acceptors = self.acceptors, []
        return gatherResults([acceptor.stop() for acceptor in acceptors], consumeErrors=True)


def _close_first(port: Any) -> None:
    """Let the system close ``port`` before the connections when this process is killed, where it can; otherwise see :func:`_refuse_now`."""
    with suppress(OSError):
        high = socket.socket(fileno=high_descriptor(port.fileno()))
        port.stopReading()
        port.socket.close()
        port.socket, port.fileno = high, high.fileno
        port.startReading()


def _refuse_now(port: Any) -> None:
    """Let the system refuse clients of ``port`` at once, where it can: Twisted closes the socket in the next turn of the loop.

    A Java client that is sent away in this turn connects again at once.  The system would take that connection, and end it with the socket:
    the client, which asks first whether it may go on here, would wait for the answer for its call-timeout.
    """
    with suppress(OSError):
        port.socket.shutdown(socket.SHUT_RDWR)


def _set_socket_buffers(transport: Any, send: int, receive: int) -> None:
    """Sizes in bytes; -1 leaves the system's."""
    while not hasattr(transport, "socket") and hasattr(transport, "transport"):
        transport = transport.transport  # the socket's transport below TLS
    if send > 0:
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send)
    if receive > 0:
        transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)


def reason_of(error: Exception) -> str:
    """The cause of a port that cannot be opened, without the words that its message repeats."""
    if isinstance(error, CannotListenError):
        cause = error.socketError
        return str(getattr(cause, "strerror", None) or cause)
    return str(error)
