"""The part of a shell that broadcasts need beyond :class:`mqclient.core.runtime.Runtime`: multicast groups, listening ports, files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mqclient.core.runtime import BroadcastLink, Link, LinkHandler

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
        """Take no more connections; open ones stay."""


class Network(Protocol):
    """Implemented by the shells."""

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
        """The content of a small file.  Raises OSError."""

    def read_folder(self, path: str, suffix: str, files_max: int, size_max: int) -> Awaitable[list[bytes]]:
        """The content of at most ``files_max`` files of at most ``size_max`` bytes, the newest first; the disk may be slow."""

    def write_file(self, path: str, name: str, content: bytes) -> Awaitable[None]:
        """Write a file of a folder at once; the folder is made when it is missing."""

    def remove_file(self, path: str, name: str) -> None:
        """Remove a file of a folder; nothing happens when there is none."""
