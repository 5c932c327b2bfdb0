"""Acceptors and connectors: their URLs, checked against the table of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mqbroker.config.broker_xml.reader import Reader
from mqbroker.config.schema.model import Item, Support
from mqbroker.config.schema.transport import ACCEPTOR, CONNECTOR, OTHER_PROTOCOLS, PROTOCOLS
from mqclient.text import nearest_name
from mqclient.urls import TransportUri, UrlError, parse_connection_url

_PARTS = re.compile("[?&;]")
PASSWORD_PARAMETERS = ("keyStorePassword", "trustStorePassword")

Unmask = Callable[[str, str, int], str]
"""Turns a password that may be masked into a plain one; also gets file and line for a message."""


@dataclass(frozen=True, slots=True)
class Written:
    """A URL as it stands in a file."""

    text: str
    name: str
    file: str
    line: int


class TransportReader:
    """Turns written URLs into endpoints.  Errors and warnings go to the reader's findings."""

    def __init__(self, reader: Reader, unmask: Unmask) -> None:
        self._reader = reader
        self._findings = reader.findings
        self._unmask = unmask
        self._acceptor_items = {item.name: item for item in ACCEPTOR}
        self._connector_items = {item.name: item for item in CONNECTOR}

    def acceptor(self, written: Written) -> TransportUri | None:
        """The endpoint to listen on; None after an error, or with a warning when CORE is not among its protocols."""
        uri = self._endpoint(written, "acceptor", self._acceptor_items)
        if uri is None or not self._speaks_core(uri, written):
            return None
        return self._checked(uri, written, "acceptor", self._acceptor_items)

    def connector(self, written: Written) -> TransportUri | None:
        """The endpoint to connect to; None after an error."""
        uri = self._endpoint(written, "connector", self._connector_items)
        return None if uri is None else self._checked(uri, written, "connector", self._connector_items)

    def _endpoint(self, written: Written, what: str, items: dict[str, Item]) -> TransportUri | None:
        parts = [part.strip() for part in _PARTS.split(written.text)]
        bare = [part for part in parts if part in items or OTHER_PROTOCOLS.fullmatch(part)]
        try:
            url = parse_connection_url(written.text, bare)
        except UrlError as error:
            self._findings.error(written.file, written.line, f"{what} {written.name}: {error}")
            return None
        if len(url.endpoints) > 1:
            self._findings.error(written.file, written.line, f"{what} {written.name}: expected one URL, found {len(url.endpoints)}")
            return None
        uri = url.endpoints[0]
        if uri.scheme not in ("tcp", "vm"):
            self._findings.error(
                written.file, written.line, f"{what} {written.name}: the scheme {uri.scheme} cannot be used here: expected tcp or vm"
            )
            return None
        for name in bare:
            if name in items and items[name].support is not Support.IGNORED:
                self._findings.warn(written.file, written.line, f"{what} {written.name}: {name} has no value: its default holds")
        return replace(uri, name=written.name)

    def _checked(self, uri: TransportUri, written: Written, what: str, items: dict[str, Item]) -> TransportUri:
        parameters = dict(uri.parameters)
        for name, text in uri.parameters.items():
            shown = f"{what} {written.name}: {name}"
            item = items.get(name)
            if item is None:
                self._unknown(name, shown, written, items)
                continue
            self._reader.value(item, text.strip(), written.file, written.line, shown)
            if name in PASSWORD_PARAMETERS:
                parameters[name] = self._unmask(text, written.file, written.line)
        return replace(uri, parameters=parameters)

    def _unknown(self, name: str, shown: str, written: Written, items: Iterable[str]) -> None:
        if OTHER_PROTOCOLS.fullmatch(name):
            return
        near = nearest_name(name, items)
        hint = f"; did you mean {near}?" if near else ""
        self._findings.warn(written.file, written.line, f"{shown} is not a known parameter and has no effect{hint}")

    def _speaks_core(self, uri: TransportUri, written: Written) -> bool:
        text = uri.parameters.get("protocols", uri.parameters.get("protocol", ""))
        asked = [part.strip().upper() for part in text.split(",") if part.strip()]
        for name in asked:
            if name not in PROTOCOLS:
                near = nearest_name(name, PROTOCOLS)
                hint = f"; did you mean {near}?" if near else ""
                self._findings.warn(written.file, written.line, f"acceptor {written.name}: the protocol {name} is not known{hint}")
        known = [name for name in asked if name in PROTOCOLS]
        if not known or "CORE" in known:
            others = [name for name in known if name != "CORE"]
            if others:
                text = f"acceptor {written.name}: only CORE is spoken, not {', '.join(others)}"
                self._findings.warn(written.file, written.line, text)
            return True
        text = f"acceptor {written.name} is not opened: of its protocols ({', '.join(known)}) none is CORE"
        self._findings.warn(written.file, written.line, text)
        return False
