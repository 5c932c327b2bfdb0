"""Addresses of brokers as Artemis writes them: of acceptors, of connectors, and of connection factories.

Grammar (Artemis manual, chapters on transports and on the connection URL)::

    url      = endpoint [ "#" endpoint { "," endpoint } ]
             | "(" endpoint { "," endpoint } ")" [ "?" parameters ]
    endpoint = scheme "://" host [ ":" port ] [ "?" parameters ]
    parameters = name "=" value { ( "&" | ";" ) name "=" value }

Values are form-encoded: ``+`` is a blank, ``%xx`` a byte of UTF-8.  Parameters after the parentheses apply to every endpoint; an endpoint's
own ones win.  This module gives parameters no meaning, and an unknown one is no error.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus, unquote_plus

DEFAULT_PORTS = {"tcp": 61616, "udp": 9876, "vm": 0, "jgroups": 0}
"""Port by scheme when a URL names none."""

URL_LENGTH_MAX = 65536
"""Characters of a connection URL: no real address is longer."""

ENDPOINTS_MAX = 1000
"""Hosts in a connection URL."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_END_OF_LIST = re.compile(r"\)(?=[?#]|$)")
_NEXT_ENDPOINT = re.compile(r",(?=\s*[A-Za-z][A-Za-z0-9+.-]*://)")
_WHOLE_ENDPOINT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)((?:(?![,#]\s*[A-Za-z][A-Za-z0-9+.-]*://).)*)", re.DOTALL)
_PARAMETER = re.compile(r"([?&;])([^?&;]*)")
_PARAMETER_NAME = re.compile(r"\s*[\w.%+-]+\s*")
_MAY_HOLD_AT = re.compile(r"(user|clientID|groupID|name|\w*pass\w*|\w*path|file)=", re.IGNORECASE)
"""Parameters in whose values an ``@`` is usual; in any other place it ends a password in front of a host."""

_TLS_SCHEMES = frozenset({"ssl", "tls", "tcps", "nio+ssl"})
_MASK = "****"
_CREDENTIALS = (
    "user and password do not stand before the host: write ?user=…&password=… behind it, "
    "or give them where the connection is made, as in create_context(user, password)"
)


class UrlError(ValueError):
    """A text that is no broker address; the error names the expected form."""


@dataclass(frozen=True, slots=True)
class TransportUri:
    """One endpoint.

    ``scheme`` is ``tcp``, ``vm``, ``udp`` or ``jgroups``.  ``host`` is a name or address without brackets; of an acceptor it may be a comma
    list of addresses to listen on; of ``vm`` it is the server number, of ``udp`` the group address, of ``jgroups`` the channel name.
    ``port`` is 0 to 65535.  ``name`` is the name of the acceptor or connector in the configuration, empty outside a configuration.
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

    ``endpoints`` carry their own parameters laid over the common ones.  ``parameters`` are the common ones: for a list the parameters after
    the parentheses, for a single endpoint its own.  ``fragment`` is the text after ``#``, whose endpoints are in ``endpoints`` too.
    """

    scheme: str
    endpoints: tuple[TransportUri, ...]
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    fragment: str = field(default="", repr=False)


def masked(text: str) -> str:
    """A URL, or a text that was meant to be one, in a form that may be shown or logged.

    The text before ``@`` and the values of parameters whose name contains "password" are replaced by ``****``; in doubt also more text.
    """
    return _WHOLE_ENDPOINT.sub(lambda found: found[1] + _masked_endpoint(found[2]), text) if "://" in text else _masked_endpoint(text)


def holds_password(name: str) -> bool:
    """Is the value of a parameter of that name not to be shown?"""
    return "password" in name.lower()


def _masked_endpoint(text: str) -> str:
    authority, mark, query = text.partition("?")
    if "@" in authority:
        authority = f"{_MASK}@{authority.rpartition('@')[2]}"
    elif any("@" in part and not _MAY_HOLD_AT.match(part) for part in re.split("[&;]", query)):
        return f"{_MASK}@{query.rpartition('@')[2]}"  # the question mark belongs to the password
    hiding = False

    def shown(found: re.Match[str]) -> str:
        nonlocal hiding
        name, _, value = found[2].partition("=")
        if not _is_parameter(found[2]):
            return "" if hiding else found[0]  # the rest of a password that holds a separator
        hiding = holds_password(unquote_plus(name))
        end = ")" if value.endswith(")") else ""
        return f"{found[1]}{name}={_MASK}{end}" if hiding else found[0]

    return authority + _PARAMETER.sub(shown, mark + query)


def _is_parameter(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and _PARAMETER_NAME.fullmatch(name) is not None


def parse_connection_url(text: str, bare: Container[str] = ()) -> ConnectionUrl:
    """Read a connection URL.  ``bare``: see :func:`parse_parameters`.  Raises :class:`UrlError`."""
    text = _checked(text)
    if not text.startswith("("):
        main, _, fragment = text.partition("#")
        first = _endpoint(main, text, bare=bare)
        more = _endpoints(fragment, first.parameters, text) if _SCHEME.match(fragment) else ()
        return ConnectionUrl(first.scheme, (first, *more), first.parameters, fragment)
    end = _END_OF_LIST.search(text)
    if end is None:
        raise UrlError(f"{_shown(text, text)}: the list of brokers has no end: expected ')', then nothing or '?' and parameters")
    query, _, fragment = text[end.end() :].removeprefix("?").partition("#")
    common = parse_parameters(query)
    endpoints = _endpoints(text[1 : end.start()], common, text)
    schemes = {endpoint.scheme for endpoint in endpoints}
    if len(schemes) > 1:
        raise UrlError(f"{_shown(text, text)}: all brokers of a list must have the same scheme, found {', '.join(sorted(schemes))}")
    return ConnectionUrl(endpoints[0].scheme, endpoints, common, fragment)


def parse_transport_uri(text: str, name: str = "", bare: Container[str] = ()) -> TransportUri:
    """Read one endpoint, as an acceptor or a connector has it.  ``name`` is put into the result.

    ``bare``: see :func:`parse_parameters`.  Raises :class:`UrlError`.
    """
    return _endpoint(text, text, name, bare)


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


def _endpoint(text: str, whole: str, name: str = "", bare: Container[str] = ()) -> TransportUri:
    """One endpoint of the URL ``whole``."""
    text = _checked(text)
    authority, _, query = text.partition("#")[0].partition("?")
    shown = _shown(authority, whole)
    scheme_match = _SCHEME.match(authority)
    if scheme_match is None:
        raise UrlError(f"{shown}: expected scheme://host:port, for example tcp://localhost:61616")
    scheme = scheme_match[1].lower()
    if scheme in _TLS_SCHEMES:
        raise UrlError(f"{shown}: TLS has no scheme of its own: write tcp://host:port?sslEnabled=true")
    if scheme not in DEFAULT_PORTS:
        raise UrlError(f"{shown}: the scheme {scheme} is not known: expected one of {', '.join(DEFAULT_PORTS)}")
    place = authority[scheme_match.end() :].rstrip("/")
    if "@" in place:
        raise UrlError(f"{shown}: {_CREDENTIALS}")
    host, port = _host_and_port(place, scheme, shown, "@" in whole)
    return TransportUri(scheme, host, port, parse_parameters(query, bare), name)


def _endpoints(text: str, common: Mapping[str, str], whole: str) -> tuple[TransportUri, ...]:
    parts = _NEXT_ENDPOINT.split(text)
    if len(parts) > ENDPOINTS_MAX:
        raise UrlError(f"{len(parts)} brokers in one address: expected at most {ENDPOINTS_MAX}")
    plain = [_endpoint(part, whole) for part in parts]
    return tuple(TransportUri(each.scheme, each.host, each.port, {**common, **each.parameters}) for each in plain)


def _host_and_port(place: str, scheme: str, shown: str, secret: bool) -> tuple[str, int]:
    """``secret``: the text may hold a part of a password, and is not shown."""
    default = DEFAULT_PORTS[scheme]
    if not place:
        raise UrlError(f"{shown}: the host is missing")
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or not host or (rest and not rest.startswith(":")):
            raise UrlError(f"{shown}: expected [IPv6 address]:port")
        return host, _port(rest[1:], default, shown, secret)
    if scheme in ("vm", "jgroups"):
        return place, default
    host, colon, port = place.rpartition(":")
    if not colon:
        return place, default
    if not host:
        raise UrlError(f"{shown}: the host is missing")
    if ":" in host and "," not in host:
        written = "[address]:port" if secret else f"[{_cut(host)}]:{_cut(port)}"
        raise UrlError(f"{shown}: write an IPv6 address in brackets: {written}")
    return host, _port(port, default, shown, secret)


def _port(text: str, default: int, shown: str, secret: bool) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or int(text) > 65535:
        if secret:
            raise UrlError(f"{shown}: the port is not a number from 0 to 65535; {_CREDENTIALS}")
        raise UrlError(f"{shown}: the port {_cut(text)!r} is not a number from 0 to 65535")
    return int(text)


def _decoded(text: str, near: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise UrlError(f"at {near}: the bytes written with % are not UTF-8") from None


def _encoded(text: str) -> str:
    return quote_plus(text)


def _shown(part: str, whole: str) -> str:
    """A part of the URL ``whole`` for a message: its start, without its parameters, which may hold passwords.

    With an ``@`` anywhere only the scheme: the place where a password before the host begins is unknown.
    """
    if "@" not in whole:
        return _cut(part.partition("?")[0])
    scheme = _SCHEME.match(part.lstrip("("))
    return f"{_cut(scheme[0]) if scheme else ''}{_MASK}"


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
