"""Brokers as OpenMQ names them: ``host:port``, the port being 7676 and the host this machine where there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_PORT = 7676
"""The port of the port mapper, at which links and clients find a broker."""

LOOPBACK = "localhost"

_LOOPBACK_NAMES = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1", re.IGNORECASE)
_PLACE = re.compile(r"(?:mq://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]/,]*))(?::(?P<port>[0-9]{1,5}))?/?")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a broker."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def same(self, other: Place) -> bool:
        """Is it the same place, as far as names tell?  All names of the loopback are one."""
        if self.port != other.port:
            return False
        return self.host.lower() == other.host.lower() or (_plain_loopback(self.host) and _plain_loopback(other.host))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    return _LOOPBACK_NAMES.fullmatch(host) is not None


def _plain_loopback(host: str) -> bool:
    return host.lower() in (LOOPBACK, "127.0.0.1", "::1")


def parse_place(text: str) -> Place:
    """One broker, ``host``, ``host:port`` or ``:port`` on this machine.  Raises ValueError for another text."""
    match = _PLACE.fullmatch(text.strip())
    if match is None or not (match["v6"] or match["host"] or match["port"]):
        raise ValueError(text)
    port = int(match["port"] or DEFAULT_PORT)
    if not 0 < port <= 65535:
        raise ValueError(text)
    return Place(match["v6"] or match["host"] or LOOPBACK, port)


def parse_places(text: str) -> tuple[Place, ...]:
    """A list with commas between, each broker once.  Raises ValueError for a member that is none."""
    found: list[Place] = []
    for part in text.split(","):
        if part.strip():
            place = parse_place(part)
            if not any(place.same(other) for other in found):
                found.append(place)
    return tuple(found)
