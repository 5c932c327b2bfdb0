"""Addresses and connection attributes of Open Message Queue, translated into a connection URL of this client.

An address list is ``mq://a:7676/jms,mq://b:7676/jms``, also with ``mqtcp://`` and ``mqssl://``.  Attributes are those of Open Message
Queue's connection factories, such as ``imqReconnectEnabled``; they may also be parameters of any connection URL.  Source: the Open Message
Queue 4.5 administration guide, "Connection Factory Attributes"; defaults are those of its code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mqclient.text import nearest_name
from mqclient.urls import ENDPOINTS_MAX, ConnectionUrl, TransportUri, UrlError, masked, parse_connection_url, parse_parameters

PREFIX: Final = "imq"
"""Every attribute begins so, and no parameter of Artemis does."""

PORT: Final = 7676
"""Port of an address that names none: Open Message Queue's port mapper, mqbroker's service ``jms``."""

DEFAULTS: Final = {
    "imqAddressList": "",
    "imqBrokerHostName": "localhost",
    "imqBrokerHostPort": str(PORT),
    "imqAddressListBehavior": "PRIORITY",
    "imqAddressListIterations": "1",
    "imqReconnectEnabled": "false",
    "imqReconnectAttempts": "0",
    "imqReconnectInterval": "3000",
    "imqPingInterval": "30",
    "imqPingAckTimeout": "0",
    "imqAbortOnPingAckTimeout": "false",
    "imqSocketConnectTimeout": "0",
    "imqAckTimeout": "0",
    "imqDefaultUsername": "",
    "imqDefaultPassword": "",
    "imqConfiguredClientID": "",
}
"""The attributes that have an effect, with their defaults.  Where brokers are named by an address list, host or port, user and password are
``guest`` unless they are given."""

_OLD_NAMES: Final = {
    "imqReconnect": "imqReconnectEnabled",
    "imqReconnectRetries": "imqReconnectAttempts",
    "imqReconnectDelay": "imqReconnectInterval",
}
"""Spellings of earlier versions, which are still accepted."""

_TTL: Final = 60_000
"""ms: the default of ``connectionTTL``."""

_SERVICES: Final = {"mq": "jms", "mqtcp": "jms", "mqssl": "ssljms"}
_ADDRESS_LIST = re.compile(r"\(?\s*mq(?:tcp|ssl)?://", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:([a-z]+)://)?(\[[^\]]+\]|[^:/\[\]]*)(?::([0-9]+))?(?:/(\w*))?", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,\s]+")


def connection_url(text: str, attributes: Mapping[str, str] | None = None) -> ConnectionUrl:
    """Read a connection URL of Artemis, or an address list of Open Message Queue with parameters behind ``?``.

    ``attributes`` count more than those in the text.  Raises UrlError for a text or a value that cannot be, with the name of the attribute.
    """
    endpoints: Sequence[TransportUri] = ()
    if _ADDRESS_LIST.match(text):
        addresses, _, query = text.strip().partition("?")
        parameters: Mapping[str, str] = parse_parameters(query)
        listed = {"imqAddressList": addresses.strip("() ")}
    else:
        url = parse_connection_url(text)
        endpoints, parameters, listed = url.endpoints, url.parameters, {}
    given = {**listed, **_attributes_in(parameters), **_attributes_in(attributes or {})}
    if not given:
        return url
    places = [given[name] for name in ("imqBrokerHostName", "imqBrokerHostPort") if name in given]
    if places and "imqAddressList" not in given:
        given["imqAddressList"] = ":".join(given.get(name, DEFAULTS[name]) for name in ("imqBrokerHostName", "imqBrokerHostPort"))
    if "imqAddressList" in given:
        endpoints = _endpoints(given["imqAddressList"])
        given = {"imqDefaultUsername": "guest", "imqDefaultPassword": "guest", **given}
    return _translated(endpoints, parameters, given)


def _attributes_in(parameters: Mapping[str, str]) -> dict[str, str]:
    return {_OLD_NAMES.get(name, name): value for name, value in parameters.items() if name.startswith(PREFIX)}


def _others_in(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if not name.startswith(PREFIX)}


def _endpoints(text: str) -> tuple[TransportUri, ...]:
    parts = [part for part in _SEPARATOR.split(text.strip()) if part]
    if not parts:
        raise UrlError("imqAddressList is empty: expected mq://host:port/jms, several with commas between them")
    if len(parts) > ENDPOINTS_MAX:
        raise UrlError(f"{len(parts)} brokers in imqAddressList: expected at most {ENDPOINTS_MAX}")
    return tuple(_endpoint(part) for part in parts)


def _endpoint(text: str) -> TransportUri:
    found = _ADDRESS.fullmatch(text)
    shown = masked(text)
    scheme = "mq" if found is None else (found[1] or "mq").lower()
    if scheme in ("http", "https"):
        raise UrlError(f"{shown}: HTTP tunnels of Open Message Queue are not spoken: expected mq://, mqtcp:// or mqssl://")
    if found is None or scheme not in _SERVICES:
        raise UrlError(f"{shown}: expected mq://host:port/jms, mqtcp://host:port/jms or mqssl://host:port/ssljms")
    service = found[4] or _SERVICES[scheme]
    if service != _SERVICES[scheme]:
        written = "mqssl" if service == "ssljms" else scheme
        hint = f"write {written}://host:port/{_SERVICES[written]}, with the port of that service"
        raise UrlError(f"{shown}: the service {service} is not looked up at the port mapper: {hint}")
    port = int(found[3] or PORT)
    if port > 65535:
        raise UrlError(f"{shown}: the port is not a number from 0 to 65535")
    parameters = {"sslEnabled": "true"} if scheme == "mqssl" else {}
    return TransportUri("tcp", found[2].strip("[]") or "localhost", port, parameters)


def _translated(endpoints: Sequence[TransportUri], parameters: Mapping[str, str], given: Mapping[str, str]) -> ConnectionUrl:
    """The parameters that the attributes mean lie under those that are written in the words of Artemis."""
    unknown = {name: value for name, value in given.items() if name not in DEFAULTS}
    meant = {**_meaning(given), **unknown, **_others_in(parameters)}
    each = tuple(replace(one, parameters={**meant, **_others_in(one.parameters)}) for one in endpoints)
    return ConnectionUrl(endpoints[0].scheme, each, meant)


def _meaning(given: Mapping[str, str]) -> dict[str, str]:
    def text(name: str) -> str:
        return given.get(name, DEFAULTS[name]).strip()

    def flag(name: str) -> bool:
        if text(name).lower() not in ("true", "false"):
            raise UrlError(f"{name}={text(name)}: expected true or false")
        return text(name).lower() == "true"

    def number(name: str, least: int | None = None) -> int:
        try:
            found = int(text(name))
        except ValueError:
            raise UrlError(f"{name}={text(name)}: expected a whole number") from None
        if least is not None and found < least:
            raise UrlError(f"{name}={found}: expected at least {least}")
        return found

    behavior = text("imqAddressListBehavior").upper()
    if behavior not in ("PRIORITY", "RANDOM"):
        raise UrlError(f"imqAddressListBehavior={behavior}: expected PRIORITY or RANDOM")
    iterations, attempts = number("imqAddressListIterations"), number("imqReconnectAttempts")
    rounds = iterations * max(attempts, 1) if iterations > 0 else -1
    interval, ping, answer = number("imqReconnectInterval", 0), number("imqPingInterval"), number("imqPingAckTimeout", 0)
    connect, call = number("imqSocketConnectTimeout", 0), number("imqAckTimeout", 0)
    reconnects, aborts = flag("imqReconnectEnabled"), flag("imqAbortOnPingAckTimeout")
    meaning = {
        "useTopologyForLoadBalancing": "false",
        "connectionLoadBalancingPolicyClassName": "RandomSticky" if behavior == "RANDOM" else "FirstElement",
        "initialConnectAttempts": str(-1 if attempts < 0 else rounds),
        "reconnectAttempts": str(max(attempts, -1) if reconnects else 0),
        "failoverAttempts": str(rounds if reconnects and attempts >= 0 else 0),
        "retryInterval": str(interval),
        "maxRetryInterval": str(interval),
        "clientFailureCheckPeriod": str(ping * 1000 if ping > 0 else -1),
    }
    if ping <= 0:
        meaning["connectionTTL"] = "-1"
    elif aborts and answer:
        meaning["connectionTTL"] = str(ping * 1000 + answer)
    elif ping * 1000 >= _TTL:
        meaning["connectionTTL"] = str(2 * ping * 1000)  # the broker would end a connection between two pings
    if connect:
        meaning["connect-timeout-millis"] = str(connect)
    if call:
        meaning["callTimeout"] = str(call)
    for name, parameter in (("imqDefaultUsername", "user"), ("imqDefaultPassword", "password"), ("imqConfiguredClientID", "clientID")):
        if given.get(name):
            meaning[parameter] = given[name]
    return meaning


def unknown_attribute(name: str) -> str:
    """A sentence for the log about an attribute that has no effect here."""
    near = nearest_name(name, DEFAULTS)
    return f"the attribute {name} is not known and does nothing{f'; is {near} meant?' if near else ''}"
