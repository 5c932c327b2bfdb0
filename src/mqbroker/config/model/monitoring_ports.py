"""The ports that serve metrics and health over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from mqbroker.config.model.configuration import MetricsConfiguration

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8161
"""The port of Artemis's web console, which also shows the metrics there."""


class Binding(NamedTuple):
    """A port that serves ``/health``, and ``/metrics`` when ``metrics`` is true."""

    host: str
    port: int
    metrics: bool


def bindings(metrics: MetricsConfiguration | None, web: Sequence[str]) -> tuple[list[Binding], list[str]]:
    """The ports to open, and warnings about configured ports that are not opened.

    ``web`` are the addresses of an instance's web console (``http://localhost:8161``).  The plugin's properties ``host`` and ``port`` come
    first; without them its metrics are where the console would be.  Raises ValueError for an invalid port.
    """
    shown = metrics is not None and metrics.plugin_class_name is not None
    warnings: list[str] = []
    found: list[Binding] = []
    properties = metrics.plugin_properties if metrics is not None else {}
    if shown and ("host" in properties or "port" in properties):
        found.append(Binding(properties.get("host", DEFAULT_HOST), _port(properties.get("port")), True))
        shown = False
    for address in web:
        parts = urlsplit(address)
        if parts.scheme != "http" or not parts.hostname:
            warnings.append(f"web binding {address} is not opened: health and metrics are served over plain http only")
            continue
        host = DEFAULT_HOST if parts.hostname == "localhost" else parts.hostname
        found.append(Binding(host, DEFAULT_PORT if parts.port is None else parts.port, shown))
    if shown and not found:
        found.append(Binding(DEFAULT_HOST, DEFAULT_PORT, True))
    return found, warnings


def _port(text: str | None) -> int:
    if text is None:
        return DEFAULT_PORT
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"metrics plugin: port={text} is not a port; expected a number from 0 to 65535")
    return int(text)
