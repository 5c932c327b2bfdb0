"""Endpoints on which brokers announce themselves: UDP multicast, and what JGroups stack files describe.

Source: the Artemis manual, chapter "Clusters", section "Server discovery"; ``protocol-spec/``, chapter "Discovery".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mqclient.core.runtime import BroadcastLink, Link, LinkHandler, Runtime
from mqclient.protocol.discovery import Endpoint, UdpEndpoint, check_endpoint

T = TypeVar("T")
Received = Callable[[bytes, str], None]

MULTICAST_TTL = 1
"""Networks that a datagram may cross; 1: it stays in its own."""


@dataclass(frozen=True, slots=True)
class Multicast:
    """A multicast group, the interface by its address (None: the system chooses), the port to send from (-1: any)."""

    address: str
    port: int
    interface: str | None = None
    source_port: int = -1
    ttl: int = MULTICAST_TTL


class Listener(Protocol):
    """A port on which others connect."""

    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """Take no more connections; those that are open stay."""


class Network(Protocol):
    """What a shell lends to broadcasts beyond :class:`mqclient.core.runtime.Runtime`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The process's environment variables."""

    def multicast(self, group: Multicast, received: Received | None) -> BroadcastLink:
        """Join a group; ``received`` None: only to send.  Raises ``NotConnectedError`` when the system refuses."""

    def listen(self, host: str, port: int, accepted: Callable[[Link], LinkHandler]) -> Listener:
        """Accept TCP connections; ``accepted`` gives the handler of each.  Raises OSError when the port cannot be had."""

    def local_address(self) -> str:
        """The address by which others reach this machine, as well as it can be known."""

    def read_file(self, path: str) -> bytes:
        """Raises OSError."""

    def in_thread(self, function: Callable[..., T], *args: object) -> Awaitable[T]:
        """Call what may take long; the result comes in the thread of the reactor or loop."""


def open_endpoint(runtime: Runtime, network: Network, endpoint: Endpoint, received: Received | None) -> BroadcastLink:
    """What :meth:`mqclient.core.runtime.Runtime.open_broadcast` does."""
    check_endpoint(endpoint)
    if isinstance(endpoint, UdpEndpoint):
        group = Multicast(endpoint.group_address, endpoint.group_port, endpoint.local_bind_address or None, endpoint.local_bind_port)
        return network.multicast(group, received)
    raise ValueError(f"JGroups channel {endpoint.channel}: stack files are not read yet")
