"""The places that a network check asks, and the ways to ask them, from the ``network-check-*`` elements of broker.xml."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mqbroker.config.model.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACES_MAX = 64
"""Places of both lists together: each one that is silent costs a check its time."""

_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")
_TARGET = re.compile(r"[!-~]*")
_VALUE = re.compile(r"%(?:([0-9])\$)?(.?)")


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that is asked for; ``request`` are the bytes to send."""

    secure: bool
    host: str
    port: int
    request: bytes


@dataclass(frozen=True, slots=True)
class NetworkPlaces:
    """``pings``: the words of the command that asks a host, by its name or address.  ``pages``: by their URL.  ``own``: hosts of the list
    that are this broker itself; they would always answer, and are not asked."""

    pings: Mapping[str, Sequence[str]]
    pages: Mapping[str, WebPage]
    own: Sequence[str]


def network_places(configuration: Configuration, is_own: Callable[[str], bool]) -> NetworkPlaces:
    """Raises ValueError with one sentence that names the element.  ``is_own`` says whether a host is the machine of this broker."""
    listeners = {host for uri in configuration.acceptors for host in uri.hosts}
    hosts, urls = _listed(configuration.network_check_list), _listed(configuration.network_check_url_list)
    for host in hosts:
        if not _is_host(host):
            raise ValueError(f"network-check-list: {host[:100]!r} is neither a host name nor an address")
    own = [host for host in hosts if host in listeners or is_own(host)]
    if len(own) == len(hosts) and not urls:
        raise ValueError(
            f"network-check-list: {', '.join(own)} is this broker itself, which answers also when the network is gone; "
            "name another machine that always answers, such as the router, or leave the list out"
        )
    pings = {host: _ping(configuration, host) for host in hosts if host not in own}
    pages = {url: _page(url) for url in urls}
    if len(pings) + len(pages) > PLACES_MAX:
        raise ValueError(f"network-check-list and network-check-URL-list name more than {PLACES_MAX} places")
    return NetworkPlaces(pings, pages, own)


def network_remarks(configuration: Configuration, places: NetworkPlaces) -> Iterator[str]:
    """Sentences for the log of a broker that starts with these places."""
    for host in places.own:
        yield f"AMQ202001: network-check-list: {host} is this broker itself, and is not asked"
    for element, command in _COMMANDS:
        if "-t" in getattr(configuration, command).split():
            yield (
                f"{element}: -t is the number of hops that a ping may take on Linux, not a timeout, so that a place behind more routers "
                "never answers, and the broker stops; write -w"
            )
    card = configuration.network_check_nic
    if card is not None and any(getattr(configuration, command) != _default(command) for _, command in _COMMANDS):
        yield f"network-check-NIC: {card} has no effect on a ping command of your own; name the network card there"
    if card is not None and places.pages:
        yield f"network-check-NIC: {card} has no effect on network-check-URL-list"


_COMMANDS = (("network-check-ping-command", "network_check_ping_command"), ("network-check-ping6-command", "network_check_ping6_command"))


def _default(name: str) -> object:
    return next(each.default for each in fields(Configuration) if each.name == name)


def _listed(text: str) -> list[str]:
    """The parts between commas, each once."""
    return list(dict.fromkeys(part for part in (part.strip() for part in text.split(",")) if part))


def _is_host(text: str) -> bool:
    if ":" in text:
        return _is_v6(text)
    return len(text) <= 253 and _NAME.fullmatch(text) is not None


def _is_v6(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return isinstance(address, IPv6Address) and (address.scope_id is None or _CARD.fullmatch(address.scope_id) is not None)


def _ping(configuration: Configuration, host: str) -> list[str]:
    element, name = _COMMANDS[":" in host]
    command: str = getattr(configuration, name)
    seconds = max(1, configuration.network_check_timeout // 1000)
    try:
        words = ping_words(command, seconds, host)
    except ValueError as error:
        raise ValueError(f"{element}: {error}") from error
    card = configuration.network_check_nic
    if card is not None and command == _default(name):
        if _CARD.fullmatch(card) is None:
            raise ValueError(f"network-check-NIC: {card[:100]!r} is not the name of a network card")
        words[1:1] = ["-I", card]
    return words


def ping_words(command: str, seconds: int, host: str) -> list[str]:
    """The words of a command in which ``%d`` stands for the timeout and ``%s`` for the host, as Java writes it (also ``%2$s``).

    Words end at blanks, before the values are put in.  Raises ValueError.
    """
    values = (str(seconds), host)
    count = 0

    def value(match: re.Match[str]) -> str:
        nonlocal count
        number, kind = match.groups()
        if kind == "%" and number is None:
            return "%"
        if number is None:
            count += 1
        index = count if number is None else int(number)
        if kind not in ("d", "s") or index not in ((1,) if kind == "d" else (1, 2)):
            raise ValueError(f"{match[0]} in {command!r} cannot be used; expected %d, the timeout, then %s, the host, or %1$d and %2$s")
        return values[index - 1]

    words = [_VALUE.sub(value, word) for word in command.split()]
    if not words:
        raise ValueError("the command is empty")
    return words


def _page(url: str) -> WebPage:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"network-check-URL-list: {url[:200]!r} is not a URL: {error}") from error
    secure = parts.scheme == "https"
    if not (secure or parts.scheme == "http") or not _is_host(host) or "@" in parts.netloc:
        raise ValueError(f"network-check-URL-list: {url[:200]!r} is not of the form http://host:port/path")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if _TARGET.fullmatch(target) is None:
        raise ValueError(f"network-check-URL-list: {url[:200]!r} has characters that a URL cannot have")
    request = f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: mqbroker\r\nConnection: close\r\n\r\n"
    return WebPage(secure, host, port or (443 if secure else 80), request.encode("ascii"))
