"""Sockets for multicast, and the sending half of a group; both shells share them.

Source: ``protocol-spec/``, chapter "Discovery".
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from mqclient.core.discovery.network import Multicast
from mqclient.core.runtime import Runtime
from mqclient.errors import NotConnectedError

DATAGRAM_BUFFER = 65535  # bytes of the longest datagram
_PORT_FIRST, _PORT_COUNT = 3000, 1000
_PORT_TRIES = 100
"""Where a free port to send from is looked for when only an address was given, as the peers do."""


class MulticastLink:
    """Implements :class:`mqclient.core.runtime.BroadcastLink`; ``stop_listening`` closes the shell's listening socket."""

    def __init__(self, runtime: Runtime, group: Multicast, stop_listening: Callable[[], object]) -> None:
        self._runtime = runtime
        self._group = group
        self._stop_listening = stop_listening
        self._sending: socket.socket | None = None
        self._failing = False
        self._closed = False

    def send(self, data: bytes) -> None:
        if self._closed:
            return
        try:
            if self._sending is None:
                self._sending = sending_socket(self._group, self._runtime.random_below)
            self._sending.sendto(data, (self._group.address, self._group.port))
            self._failing = False
        except OSError as error:
            if not self._failing:
                self._failing = True
                where = f"{self._group.address}:{self._group.port}"
                self._runtime.log_warning(f"nothing can be sent to the multicast group {where}, more attempts follow: {error}")

    def open_sending(self) -> None:
        """Open the socket to send from.  Raises ``NotConnectedError`` with the reason."""
        try:
            self._sending = sending_socket(self._group, self._runtime.random_below)
        except OSError as error:
            raise NotConnectedError(f"the multicast group {self._group.address}:{self._group.port} cannot be used: {error}") from error

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._sending is not None:
            self._sending.close()
        self._stop_listening()


def listening_socket(group: Multicast) -> socket.socket:
    """A socket that hears the group; several on one host hear it at the same time.  Raises ``NotConnectedError``."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        found.setblocking(False)
        _share(found)
        try:
            # So that datagrams for other groups with the same port, joined by other programs on this host, are not received.
            found.bind((group.address, group.port))
        except OSError:
            found.bind(("", group.port))
        membership = socket.inet_aton(group.address) + socket.inet_aton(_numeric(group.interface) or "0.0.0.0")
        found.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError as error:
        found.close()
        through = f" through {group.interface}" if group.interface else ""
        raise NotConnectedError(f"the multicast group {group.address}:{group.port} cannot be joined{through}: {error}") from error
    return found


def sending_socket(group: Multicast, random_below: Callable[[int], int]) -> socket.socket:
    """A socket that sends to the group.  Raises OSError."""
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        found.setblocking(False)
        found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, group.ttl)
        found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        interface = _numeric(group.interface)
        if interface is not None:
            found.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
        if group.source_port > 0:
            _share(found)
            found.bind((interface or "", group.source_port))
        elif interface is not None:
            _bind_somewhere(found, interface, random_below)
    except OSError:
        found.close()
        raise
    return found


def local_address() -> str:
    """The address of this machine towards the network; the loopback address when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # sends nothing: it only asks which way that would go
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address


def _share(found: socket.socket) -> None:
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def _bind_somewhere(found: socket.socket, interface: str, random_below: Callable[[int], int]) -> None:
    for _ in range(_PORT_TRIES):
        try:
            found.bind((interface, _PORT_FIRST + random_below(_PORT_COUNT)))
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port from {_PORT_FIRST} to {_PORT_FIRST + _PORT_COUNT - 1} on {interface}")


def _numeric(interface: str | None) -> str | None:
    """The address of an interface that may be given by a host name."""
    return None if interface is None else socket.gethostbyname(interface)
