"""The properties of the lock manager on ZooKeeper, by the names of the Artemis manual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONNECT_STRING = "connect-string"
NAMESPACE = "namespace"
SESSION_MS = "session-ms"
SESSION_PERCENT = "session-percent"
CONNECTION_MS = "connection-ms"
RETRIES = "retries"
RETRIES_MS = "retries-ms"

_MS_MAX = (1 << 31) - 1
_NUMBERS = {
    SESSION_MS: (18_000, 1, _MS_MAX),
    SESSION_PERCENT: (33, 0, 100),
    CONNECTION_MS: (8_000, 1, _MS_MAX),
    RETRIES: (1, -1, _MS_MAX),
    RETRIES_MS: (1_000, 0, _MS_MAX),
}
"""Of each number: what it is when absent, the least and the greatest."""

_PORT = 2181


@dataclass(frozen=True, slots=True)
class ZooKeeperProperties:
    """``servers``: host and port of each.  ``base``: the path below which everything lies, which is empty or begins with a slash.

    ``session_ms``: how long the ensemble keeps the locks of a broker that it does not hear of.  ``session_percent``: the share of the
    session after which the locks count as lost when the connection is interrupted; with 0 only the ensemble says so.
    ``connection_ms``: how long a connection, and each answer, may take.  ``retries``: how often a request without an answer is
    repeated, -1 as long as the session lives; ``retries_ms`` lie between.
    """

    servers: tuple[tuple[str, int], ...]
    base: str
    session_ms: int
    session_percent: int
    connection_ms: int
    retries: int
    retries_ms: int

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> ZooKeeperProperties:
        """Raises ValueError with a text that names the property."""
        known = (CONNECT_STRING, NAMESPACE, *_NUMBERS)
        unknown = [name for name in properties if name not in known]
        if unknown:
            raise ValueError(f"the property {unknown[0]} is unknown: expected one of {', '.join(known)}")
        servers, _, chroot = properties.get(CONNECT_STRING, "").strip().partition("/")
        if not servers:
            raise ValueError(f"the property {CONNECT_STRING} is missing: expected the servers as host:port,host:port,host:port")
        base = "".join(f"/{part}" for part in (chroot, properties.get(NAMESPACE, "").strip()) if part)
        if any(part in ("", ".", "..") for part in base.split("/")[1:]):
            raise ValueError(f"{base} is no path: {NAMESPACE} and the path in {CONNECT_STRING} neither begin nor end with a slash")
        return cls(tuple(_server(text) for text in servers.split(",")), base, *(_number(properties, name) for name in _NUMBERS))


def _server(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon or (text.strip().startswith("[") and text.strip().endswith("]")):
        host, port = text.strip(), str(_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"the property {CONNECT_STRING} has {text!r}: expected host:port")
    return host.strip("[]"), int(port)


def _number(properties: Mapping[str, str], name: str) -> int:
    absent, least, greatest = _NUMBERS[name]
    text = properties.get(name)
    if text is None:
        return absent
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if name == RETRIES and number < least:
        # Any negative number is for ever, as in Artemis; a text is not.
        number = -1 if text.strip().lstrip("-").isdecimal() else least - 1
    if not least <= number <= greatest:
        raise ValueError(f"the property {name} is {text!r}: expected a number from {least} to {greatest}")
    return number
