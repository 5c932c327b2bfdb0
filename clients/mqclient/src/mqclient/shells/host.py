"""The part of every shell that no framework has a hand in: locators, and the clock, entropy, log and files of this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mqclient.core.connection.configuration import configuration_from_url
from mqclient.core.connection.connection import describe
from mqclient.core.discovery.broadcasting import Broadcasts
from mqclient.core.discovery.network import Multicast, Network, Received
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import BroadcastLink, LinkHandler, Runtime
from mqclient.core.settings import LocatorSettings
from mqclient.errors import NotConnectedError
from mqclient.management import id_cache
from mqclient.protocol.discovery import DiscoveryGroupConfiguration, Endpoint
from mqclient.shells.datagrams import DATAGRAM_BUFFER, MulticastLink, listening_socket, local_address
from mqclient.shells.shared_folder import read_files, remove_file, write_file
from mqclient.wire.primitives import TransportConfiguration, TransportValue

if TYPE_CHECKING:
    from mqclient.tls.tls import TlsSettings

T = TypeVar("T")
_DATAGRAMS_PER_TURN = 16


def make_locator(
    runtime: Runtime, brokers: str | Sequence[TransportConfiguration] | DiscoveryGroupConfiguration, settings: LocatorSettings | None
) -> Locator:
    """The ``server_locator`` of a shell: for a connection URL, or for connectors or a discovery group and settings.

    Raises ``ValueError`` for a URL or a setting that cannot be used; a URL together with settings is refused.
    """
    if not isinstance(brokers, str):
        return Locator(runtime, brokers, settings, id_cache=id_cache)
    if settings is not None:
        raise ValueError("the URL holds the settings; give connectors together with settings")
    configuration = configuration_from_url(brokers)
    for warning in configuration.warnings:
        runtime.log_warning(warning)
    return Locator(runtime, configuration.brokers, configuration.settings, id_cache=id_cache)


class TcpTarget(NamedTuple):
    """The target of a connector over TCP, and the way to it."""

    host: str
    port: int
    local: tuple[str, int] | None
    """Address and port to connect from; None: the system chooses."""
    seconds: float
    """Limit on connecting, with the TLS handshake."""
    no_delay: bool
    tls: TlsSettings | None


def tcp_target(connector: TransportConfiguration, timeout: float) -> TcpTarget:
    """``timeout``: seconds for a connector that sets no limit.  Raises ValueError for a bad parameter, OSError for a lost key store."""
    # It takes longer to import than all the rest of a shell.
    from mqclient.tls.tls import flag, tls_settings

    parameters = dict(connector.parameters)
    limit = _number(parameters, "connect-timeout-millis", -1)
    local = parameters.get("localAddress")
    return TcpTarget(
        str(parameters.get("host", "localhost")),
        _number(parameters, "port", 61616),
        (str(local), _number(parameters, "localPort", 0)) if local else None,
        limit / 1000 if limit > 0 else timeout,
        flag(parameters, "tcpNoDelay", True),
        tls_settings(connector, lambda path: Path(path).read_bytes()),
    )


def _number(parameters: Mapping[str, TransportValue], name: str, default: int) -> int:
    value = parameters.get(name, default)
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name}={value!r}: expected a whole number") from None


def unreachable(connector: TransportConfiguration, error: OSError, in_handshake: bool) -> NotConnectedError:
    """The error of an attempt to connect that has failed with ``error``, perhaps in the TLS handshake."""
    from mqclient.tls.tls import handshake_hint

    reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
    return NotConnectedError(f"{describe(connector)} cannot be reached: {reason}{handshake_hint(error) if in_handshake else ''}")


class HostRuntime:
    """The part of :class:`mqclient.core.runtime.Runtime` that is the same in all shells; it logs under the name of the shell's module."""

    _broadcasts: Broadcasts

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def random_below(self, limit: int) -> int:
        return random.randrange(limit)

    def open_broadcast(self, endpoint: Endpoint, received: Received | None) -> BroadcastLink:
        return self._broadcasts.open(endpoint, received)

    def log_failure(self, text: str, error: BaseException) -> None:
        logging.getLogger(type(self).__module__).error("%s", text, exc_info=error)

    def log_warning(self, text: str) -> None:
        logging.getLogger(type(self).__module__).warning("%s", text)


class HostNetwork(Network):
    """The part of a shell's network that is the same in all shells."""

    _runtime: Runtime

    def multicast(self, group: Multicast, received: Received | None) -> BroadcastLink:
        if received is not None:
            return MulticastLink(self._runtime, group, self._watch(listening_socket(group), received))
        link = MulticastLink(self._runtime, group, lambda: None)
        link.open_sending()
        return link

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ

    def local_address(self) -> str:
        return local_address()

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def read_folder(self, path: str, suffix: str, files_max: int, size_max: int) -> Awaitable[list[bytes]]:
        return self._beside(read_files, path, suffix, files_max, size_max)

    def write_file(self, path: str, name: str, content: bytes) -> Awaitable[None]:
        return self._beside(write_file, path, name, content)

    def remove_file(self, path: str, name: str) -> None:
        # At once: when the process ends no thread would do it any more.
        with contextlib.suppress(OSError):
            remove_file(path, name)

    def _watch(self, listening: socket.socket, received: Received) -> Callable[[], object]:
        """Pass on the datagrams of a socket, until the returned function is called, which closes the socket."""
        raise NotImplementedError

    def _beside(self, function: Callable[..., T], *args: object) -> Awaitable[T]:
        """Call a function that may have to wait for the disk, in a thread if the shell has any."""
        raise NotImplementedError


def listen_tcp(host: str, port: int) -> socket.socket:
    """A socket that listens and never blocks.  Raises OSError when the port cannot be had."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setblocking(False)
        found.bind((host, port))
        found.listen()
    except OSError:
        found.close()
        raise
    return found


def hear(runtime: Runtime, listening: socket.socket, received: Received) -> None:
    """Pass on the datagrams that have arrived at a socket."""
    for _ in range(_DATAGRAMS_PER_TURN):
        if listening.fileno() < 0:
            return  # the receiver has closed the socket
        try:
            data, address = listening.recvfrom(DATAGRAM_BUFFER)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            runtime.log_failure("a datagram could not be received", error)
            return
        try:
            received(data, f"{address[0]}:{address[1]}")
        except Exception as error:
            runtime.log_failure("a datagram could not be handled", error)


class LateHandler:
    """Passes on to the handler of an accepted connection, which is made for its link and so after it."""

    def __init__(self) -> None:
        self.handler: LinkHandler | None = None

    def data_received(self, data: bytes) -> None:
        if self.handler is not None:
            self.handler.data_received(data)

    def link_lost(self, reason: str) -> None:
        if self.handler is not None:
            self.handler.link_lost(reason)

    def link_paused(self) -> None:
        if self.handler is not None:
            self.handler.link_paused()

    def link_resumed(self) -> None:
        if self.handler is not None:
            self.handler.link_resumed()
