"""Acceptors and connectors: their URLs, checked against the table of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from mqbroker.config.broker_xml.reader import Content, Reader
from mqbroker.config.model.transport_elements import ACCEPTOR, CONNECTOR, OTHER_PROTOCOLS, PROTOCOLS
from mqbroker.config.problems import Findings, did_you_mean
from mqbroker.config.schema.model import Item, Support
from mqclient.urls import TransportUri, UrlError, format_parameters, parse_connection_url

_PARTS = re.compile("[?&;]")
_ITEMS: dict[str, dict[str, Item]] = {
    "acceptor": {item.name: item for item in ACCEPTOR},
    "connector": {item.name: item for item in CONNECTOR},
}
PASSWORD_PARAMETERS = ("keyStorePassword", "trustStorePassword")

Unmask = Callable[[str, str, int], str]
"""Turns a password that may be masked into a plain one; also gets file and line for a message."""


def read_transport(what: str, content: Content, findings: Findings, unmask: Unmask) -> TransportUri | None:
    """The endpoint of ``content``, which is an "acceptor" or a "connector".

    None after an error, or with a warning for an acceptor without CORE among its protocols.
    """
    return _Transport(what, content, findings, unmask).read()


class _Transport:
    def __init__(self, what: str, content: Content, findings: Findings, unmask: Unmask) -> None:
        self._what = what
        self._items = _ITEMS[what]
        self._shown = f"{what} {content.name}"
        self._content = content
        self._findings = findings
        self._unmask = unmask

    def read(self) -> TransportUri | None:
        uri = self._endpoint()
        if uri is None or (self._what == "acceptor" and not self._speaks_core(uri)):
            return None
        return self._checked(uri)

    def _endpoint(self) -> TransportUri | None:
        text = _overridden(self._content.text, self._content.values.get("parameters", {}))
        parts = [part.strip() for part in _PARTS.split(text)]
        bare = [part for part in parts if part in self._items or OTHER_PROTOCOLS.fullmatch(part)]
        try:
            url = parse_connection_url(text, bare)
        except UrlError as error:
            self._error(str(error))
            return None
        if len(url.endpoints) > 1:
            self._error(f"expected one URL, found {len(url.endpoints)}")
            return None
        uri = url.endpoints[0]
        if uri.scheme not in ("tcp", "vm"):
            self._error(f"the scheme {uri.scheme} cannot be used here: expected tcp or vm")
            return None
        for name in bare:
            if name in self._items and self._items[name].support is not Support.IGNORED:
                self._warn(f"{self._shown}: {name} has no value: its default holds")
        return replace(uri, name=self._content.name or "")

    def _checked(self, uri: TransportUri) -> TransportUri:
        reader = Reader(self._findings)
        parameters = dict(uri.parameters)
        for name, text in uri.parameters.items():
            shown = f"{self._shown}: {name}"
            item = self._items.get(name)
            if item is not None:
                # As it is checked: a line break behind "true" must not turn TLS off.
                parameters[name] = text.strip()
                reader.value(item, text.strip(), *self._content.place, shown)
                if name in PASSWORD_PARAMETERS:
                    parameters[name] = self._unmask(text, *self._content.place)
            elif not OTHER_PROTOCOLS.fullmatch(name):
                hint = did_you_mean(name, self._items)
                self._warn(f"{shown} is not a known parameter and has no effect{hint}")
        return replace(uri, parameters=parameters)

    def _speaks_core(self, uri: TransportUri) -> bool:
        text = uri.parameters.get("protocols", uri.parameters.get("protocol", ""))
        asked = [part.strip().upper() for part in text.split(",") if part.strip()]
        for name in asked:
            if name not in PROTOCOLS:
                hint = did_you_mean(name, PROTOCOLS)
                self._warn(f"{self._shown}: the protocol {name} is not known{hint}")
        known = [name for name in asked if name in PROTOCOLS]
        if known and "CORE" not in known:
            self._warn(f"{self._shown} is not opened: of its protocols ({', '.join(known)}) none is CORE")
            return False
        others = [name for name in known if name != "CORE"]
        if others:
            self._warn(f"{self._shown}: only CORE is spoken, not {', '.join(others)}")
        return True

    def _error(self, text: str) -> None:
        self._findings.error(*self._content.place, f"{self._shown}: {text}")

    def _warn(self, text: str) -> None:
        self._findings.warn(*self._content.place, text)


def _overridden(text: str, parameters: Mapping[str, str]) -> str:
    """A URL with the host, the port and the parameters that properties give it; a text that is empty is the default URL."""
    if text and not parameters:
        return text
    place = {key.lower(): value for key, value in parameters.items() if key.lower() in ("host", "port")}
    plain = format_parameters({key: value for key, value in parameters.items() if key.lower() not in place})
    base, *query = _PARTS.split(text, maxsplit=1)
    if place or not text:
        host, _, port = base.partition("://")[2].rpartition(":") if text else ("localhost", ":", "61616")
        base = f"tcp://{place.get('host', host)}:{place.get('port', port)}"
    return f"{base}?{'&'.join(filter(None, (*query, plain)))}"
