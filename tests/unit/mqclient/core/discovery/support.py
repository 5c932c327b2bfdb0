"""A fake clock, and an ether on it: what is sent on an endpoint is heard by all who listen there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock

from mqclient.core.discovery.network import Received
from mqclient.errors import NotConnectedError
from mqclient.protocol.discovery import Endpoint, UdpEndpoint, check_endpoint
from mqclient.twisted import TwistedRuntime
from mqclient.wire.primitives import TransportConfiguration

NETTY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
GROUP = UdpEndpoint("231.7.7.7", 9876)
SELF = TransportConfiguration("self", NETTY, (("host", "127.0.0.1"), ("port", "61616")))
OTHER = TransportConfiguration("other", NETTY, (("host", "127.0.0.1"), ("port", "61617")))


class Ether:
    """``refusal`` set: nobody can join."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.links: list[EtherLink] = []
        self.sent: list[bytes] = []

    def send(self, endpoint: Endpoint, data: bytes) -> None:
        self.sent.append(data)
        for link in list(self.links):
            if link.endpoint == endpoint and link.received is not None:
                link.received(data, "10.0.0.1:3001")


class EtherLink:
    def __init__(self, ether: Ether, endpoint: Endpoint, received: Received | None) -> None:
        self.ether = ether
        self.endpoint = endpoint
        self.received = received
        ether.links.append(self)

    def send(self, data: bytes) -> None:
        self.ether.send(self.endpoint, data)

    def close(self) -> None:
        if self in self.ether.links:
            self.ether.links.remove(self)


class EtherRuntime(TwistedRuntime):
    """The Twisted runtime on a fake clock; ``open_broadcast`` goes to ``ether``."""

    def __init__(self, clock: Clock, ether: Ether) -> None:
        super().__init__(clock, clock.seconds)
        self.clock = clock
        self.ether = ether
        self.warnings: list[str] = []

    def open_broadcast(self, endpoint: Endpoint, received: Callable[[bytes, str], None] | None) -> EtherLink:
        check_endpoint(endpoint)
        if self.ether.refusal is not None:
            raise NotConnectedError(self.ether.refusal)
        return EtherLink(self.ether, endpoint, received)

    def log_warning(self, text: str) -> None:
        self.warnings.append(text)

    def log_failure(self, text: str, error: BaseException) -> Any:
        raise AssertionError(text) from error
