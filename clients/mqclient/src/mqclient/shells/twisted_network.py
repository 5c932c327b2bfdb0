"""Links, multicast groups and ports under Twisted."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import DatagramProtocol, Factory, Protocol, connectionDone
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from zope.interface import implementer

from mqclient.core.discovery.network import Listener, Received
from mqclient.core.runtime import Link, LinkHandler, Runtime
from mqclient.shells.datagrams import DATAGRAM_BUFFER
from mqclient.shells.host import HostNetwork, LateHandler
from mqclient.shells.twisted_direct import write_directly
from mqclient.shells.twisted_losses import loss_reason

T = TypeVar("T")


class TwistedLink:
    """Implements :class:`mqclient.core.runtime.Link`."""

    __slots__ = ("_plain", "_protocol", "_transport", "peer")

    def __init__(self, protocol: LinkProtocol, peer: str) -> None:
        self._protocol = protocol
        self._transport: Any = protocol.transport
        self._plain = isinstance(self._transport, FileDescriptor)
        self.peer = peer

    def write(self, data: bytes) -> None:
        if not self._protocol.lost:
            self._transport.write(data)

    def write_at_once(self, data: bytes) -> None:
        if self._plain and not self._protocol.lost:
            write_directly(self._transport, (data,))
        else:
            self.write(data)

    def close(self) -> None:
        self._transport.loseConnection()

    def abort(self) -> None:
        self._transport.abortConnection()


@implementer(IPushProducer)
class LinkProtocol(Protocol):
    """The end of a link that Twisted knows."""

    def __init__(self, handler: LinkHandler, no_delay: bool) -> None:
        self.lost = False
        self._handler = handler
        self._no_delay = no_delay

    def connectionMade(self) -> None:
        transport: Any = self.transport
        try:
            transport.setTcpNoDelay(self._no_delay)
        except AttributeError:
            pass  # transports of tests have no such option
        transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        self._handler.data_received(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = True
        self._handler.link_lost(loss_reason(reason))

    def pauseProducing(self) -> None:
        self._handler.link_paused()

    def resumeProducing(self) -> None:
        self._handler.link_resumed()

    def stopProducing(self) -> None:
        pass


class TwistedNetwork(HostNetwork):
    """Implements :class:`mqclient.core.discovery.network.Network`."""

    def __init__(self, runtime: Runtime, reactor: Any) -> None:
        self._runtime = runtime
        self._reactor = reactor

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> Listener:
        factory = Factory.forProtocol(lambda: _Accepted(accepted))
        try:
            return _Listener(self._reactor.listenTCP(port, factory, interface=host))
        except CannotListenError as error:
            raise OSError(f"port {port} cannot be had: {error.socketError}") from error

    def _watch(self, listening: socket.socket, received: Received) -> Callable[[], object]:
        with listening:  # the reactor takes a copy
            port: Any = self._reactor.adoptDatagramPort(listening.fileno(), socket.AF_INET, _Datagrams(received), DATAGRAM_BUFFER)
        stop: Callable[[], object] = port.stopListening
        return stop

    def _beside(self, function: Callable[..., T], *args: object) -> Awaitable[T]:
        result: Awaitable[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *args)
        return result


class _Listener:
    def __init__(self, port: Any) -> None:
        self._port = port

    @property
    def port(self) -> int:
        number: int = self._port.getHost().port
        return number

    def close(self) -> None:
        self._port.stopListening()


class _Accepted(LinkProtocol):
    """An accepted connection."""

    def __init__(self, accepted: Callable[[Link], LinkHandler]) -> None:
        self._late = LateHandler()
        super().__init__(self._late, no_delay=True)
        self._accepted = accepted

    def connectionMade(self) -> None:
        super().connectionMade()
        transport: Any = self.transport
        self._late.handler = self._accepted(TwistedLink(self, transport.getPeer().host))


class _Datagrams(DatagramProtocol):
    def __init__(self, received: Received) -> None:
        self._received = received

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        self._received(datagram, f"{addr[0]}:{addr[1]}")
