"""Addresses of brokers as Artemis writes them: of acceptors, of connectors, and of connection factories.

Grammar (Artemis manual, chapters on transports and on the connection URL)::

    url      = endpoint [ "#" endpoint { "," endpoint } ]
             | "(" endpoint { "," endpoint } ")" [ "?" parameters ]
    endpoint = scheme "://" host [ ":" port ] [ "?" parameters ]
    parameters = name "=" value { ( "&" | ";" ) name "=" value }

Values are form-encoded: ``+`` is a blank, ``%xx`` a byte of UTF-8.  Parameters after the parentheses apply to every endpoint; an endpoint's
own ones win.  What a parameter means is not decided here, and an unknown one is no error.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus, unquote_plus

DEFAULT_PORTS = {"tcp": 61616, "udp": 9876, "vm": 0, "jgroups": 0}
"""Port by scheme when a URL names none."""

URL_LENGTH_MAX = 65536  # characters: a longer text is no address that anybody wrote
ENDPOINTS_MAX = 1000

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_END_OF_LIST = re.compile(r"\)(?=[?#]|$)")
_NEXT_ENDPOINT = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.-]*://)")


class UrlError(ValueError):
    """A text that is no broker address; says what was expected."""


@dataclass(frozen=True, slots=True)
class TransportUri:
    """One endpoint.

    ``scheme`` is ``tcp``, ``vm``, ``udp`` or ``jgroups``.  ``host`` is a name or address without brackets; of an acceptor it may be a comma
    list of addresses to listen on; of ``vm`` it is the server number, of ``udp`` the group address, of ``jgroups`` the channel name.
    ``port`` is 0 to 65535.  ``name`` is what the configuration calls this acceptor or connector, empty outside a configuration.
    """

    scheme: str
    host: str
    port: int
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    name: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses that an acceptor listens on."""
        return tuple(part.strip() for part in self.host.split(",") if part.strip())

    def __str__(self) -> str:
        """The endpoint without its parameters, which may hold passwords."""
        host = f"[{self.host}]" if ":" in self.host and "," not in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}" if self.scheme in ("tcp", "udp") else f"{self.scheme}://{host}"


@dataclass(frozen=True, slots=True)
class ConnectionUrl:
    """A whole connection URL.

    ``endpoints`` carry their own parameters laid over the common ones.  ``parameters`` are the common ones: of a list those after the
    parentheses, of a single endpoint that endpoint's.  ``fragment`` is the text after ``#``, whose endpoints are in ``endpoints`` too.
    """

    scheme: str
    endpoints: tuple[TransportUri, ...]
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    fragment: str = ""


def parse_connection_url(text: str, bare: Container[str] = ()) -> ConnectionUrl:
    """Read a connection URL.  ``bare``: see :func:`parse_parameters`.  Raises :class:`UrlError`."""
    text = _checked(text)
    if not text.startswith("("):
        main, _, fragment = text.partition("#")
        first = parse_transport_uri(main, bare=bare)
        more = _endpoints(fragment, first.parameters) if _SCHEME.match(fragment) else ()
        return ConnectionUrl(first.scheme, (first, *more), first.parameters, fragment)
    end = _END_OF_LIST.search(text)
    if end is None:
        raise UrlError(f"{_shown(text)}: the list of brokers has no end: expected ')', then nothing or '?' and parameters")
    query, _, fragment = text[end.end() :].removeprefix("?").partition("#")
    common = parse_parameters(query)
    endpoints = _endpoints(text[1 : end.start()], common)
    schemes = {endpoint.scheme for endpoint in endpoints}
    if len(schemes) > 1:
        raise UrlError(f"{_shown(text)}: all brokers of a list must have the same scheme, found {', '.join(sorted(schemes))}")
    return ConnectionUrl(endpoints[0].scheme, endpoints, common, fragment)


def parse_transport_uri(text: str, name: str = "", bare: Container[str] = ()) -> TransportUri:
    """Read one endpoint, as an acceptor or a connector has it.  ``name`` is put into the result.

    ``bare``: see :func:`parse_parameters`.  Raises :class:`UrlError`.
    """
    text = _checked(text)
    authority, _, query = text.partition("#")[0].partition("?")
    scheme_match = _SCHEME.match(authority)
    if scheme_match is None:
        raise UrlError(f"{_shown(authority)}: expected scheme://host:port, for example tcp://localhost:61616")
    scheme = scheme_match[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise UrlError(f"{_shown(authority)}: the scheme {scheme} is not known: expected one of {', '.join(DEFAULT_PORTS)}")
    host, port = _host_and_port(authority[scheme_match.end() :].rstrip("/"), scheme, authority)
    return TransportUri(scheme, host, port, parse_parameters(query, bare), name)


def parse_parameters(query: str, bare: Container[str] = ()) -> dict[str, str]:
    """The parameters after ``?``; of two with the same name the later one counts.

    Names of ``bare`` may stand without ``=`` and a value: they are left out, so that their defaults hold.  Raises :class:`UrlError`.
    """
    parameters: dict[str, str] = {}
    previous = "?"
    for part in query.replace(";", "&").split("&"):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals and name.strip() in bare:
            continue
        if not equals or not name.strip():  # the text itself is not shown: it may be the rest of a password with an "&"
            raise UrlError(f"expected name=value after {previous} (in a value, write & as %26, ; as %3B and = as it is)")
        previous = _decoded(name, previous).strip()
        parameters[previous] = _decoded(value, previous)
    return parameters


def format_parameters(parameters: Mapping[str, str]) -> str:
    """The form-encoded text after ``?``, without the question mark."""
    return "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in parameters.items())


def _checked(text: str) -> str:
    if len(text) > URL_LENGTH_MAX:
        raise UrlError(f"an address of {len(text)} characters is too long: expected at most {URL_LENGTH_MAX}")
    stripped = text.strip()
    if not stripped:
        raise UrlError("the address is empty: expected scheme://host:port, for example tcp://localhost:61616")
    return stripped


def _endpoints(text: str, common: Mapping[str, str]) -> tuple[TransportUri, ...]:
    parts = _NEXT_ENDPOINT.split(text)
    if len(parts) > ENDPOINTS_MAX:
        raise UrlError(f"{len(parts)} brokers in one address: expected at most {ENDPOINTS_MAX}")
    plain = [parse_transport_uri(part) for part in parts]
    return tuple(TransportUri(each.scheme, each.host, each.port, {**common, **each.parameters}) for each in plain)


def _host_and_port(authority: str, scheme: str, shown: str) -> tuple[str, int]:
    default = DEFAULT_PORTS[scheme]
    if not authority:
        raise UrlError(f"{_shown(shown)}: the host is missing")
    if authority.startswith("["):
        host, closed, rest = authority[1:].partition("]")
        if not closed or not host or (rest and not rest.startswith(":")):
            raise UrlError(f"{_shown(shown)}: expected [IPv6 address]:port")
        return host, _port(rest[1:], default, shown)
    if scheme in ("vm", "jgroups"):
        return authority, default
    host, colon, port = authority.rpartition(":")
    if not colon:
        return authority, default
    if not host:
        raise UrlError(f"{_shown(shown)}: the host is missing")
    if ":" in host and "," not in host:
        raise UrlError(f"{_shown(shown)}: write an IPv6 address in brackets: [{_shown(host)}]:{_shown(port)}")
    return host, _port(port, default, shown)


def _port(text: str, default: int, shown: str) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or int(text) > 65535:
        raise UrlError(f"{_shown(shown)}: the port {_shown(text)!r} is not a number from 0 to 65535")
    return int(text)


def _decoded(text: str, near: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise UrlError(f"at {near}: the bytes written with % are not UTF-8") from None


def _encoded(text: str) -> str:
    return quote_plus(text)


def _shown(text: str) -> str:
    """A part of an address in a message: its start, and nothing of its parameters, which may hold passwords."""
    plain = text.partition("?")[0]
    return plain if len(plain) <= 200 else f"{plain[:200]}…"
