"""Where metrics and health are served over HTTP, and the ports that do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from mqbroker.config.model.configuration import MetricsConfiguration
from mqbroker.listening import reason_of
from mqbroker.node.parts import Observed, StartError

if TYPE_CHECKING:
    from twisted.internet.interfaces import IListeningPort

    from mqbroker.settings import BrokerSettings

log = Logger(namespace="mqbroker")

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8161
"""The port of Artemis's web console, which also shows the metrics there."""


class Binding(NamedTuple):
    """A port that serves ``/health``, and ``/metrics`` when ``metrics`` is true."""

    host: str
    port: int
    metrics: bool


def bindings(metrics: MetricsConfiguration | None, web: Sequence[str]) -> tuple[list[Binding], list[str]]:
    """The ports to open, and warnings about those that are not.

    ``web`` are the addresses of an instance's web console (``http://localhost:8161``).  The plugin's properties ``host`` and ``port`` come
    first; without them its metrics are where the console would be.  Raises ValueError for a port that is none.
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


class MonitoringPages:
    """The ports of health and metrics that the configuration asks for."""

    def __init__(self, settings: BrokerSettings, reactor: Any, observed: Observed) -> None:
        self._settings = settings
        self._reactor = reactor
        self._observed = observed
        self._ports: list[IListeningPort] = []

    @property
    def urls(self) -> list[str]:
        """Where metrics and health are served."""
        hosts: list[Any] = [port.getHost() for port in self._ports]
        return [f"http://{host.host}:{host.port}" for host in hosts]

    def open(self) -> None:
        """Does nothing when they are open.  Raises :class:`StartError`; everything is closed again then."""
        if self._ports:
            return
        try:
            found, warnings = bindings(self._settings.configuration.metrics, self._settings.web)
        except ValueError as error:
            raise StartError(str(error)) from error
        for warning in warnings:
            log.warn("{text}", text=warning)
        for binding in found:
            try:
                port = serve(self._reactor, binding, self._observed.live, self._observed.ready, self._metrics)
            except CannotListenError as error:
                text = f"metrics and health cannot be served at {binding.host}:{binding.port}: {reason_of(error)}"
                if binding.metrics:
                    self.close()
                    raise StartError(text) from error
                # Nobody asked for more than Artemis's console on this port: messages go on without it.
                log.warn("{text}", text=text)
                continue
            self._ports.append(port)
            log.info("health{metrics} at {url}", metrics=" and metrics" if binding.metrics else "", url=self.urls[-1])

    def _metrics(self) -> Iterator[bytes]:
        from mqbroker.server.observation.metrics import render

        return render(self._observed.figures())

    def close(self) -> Deferred[Any]:
        """Completes when everything is closed."""
        ports, self._ports = self._ports, []
        return gatherResults([maybeDeferred(port.stopListening) for port in ports], consumeErrors=True)


def _port(text: str | None) -> int:
    if text is None:
        return DEFAULT_PORT
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"metrics plugin: port={text} is not a port; expected a number from 0 to 65535")
    return int(text)


def serve(
    reactor: Any,
    binding: Binding,
    live: Callable[[], str | None],
    ready: Callable[[], str | None],
    metrics: Callable[[], Iterator[bytes]],
) -> IListeningPort:
    """Open one port.  Raises :class:`~twisted.internet.error.CannotListenError`."""
    # Imported here: most brokers serve no HTTP, and it costs them time at the start.
    from twisted.web.server import Site

    from mqbroker.server.observation.health import few_connections, health_root

    make: Any = Site
    site = make(health_root(live, ready, metrics if binding.metrics else None))
    site.noisy = False
    site.displayTracebacks = False
    site.log = lambda request: None
    port: IListeningPort = reactor.listenTCP(
        binding.port, few_connections(site), interface="" if binding.host == "0.0.0.0" else binding.host
    )
    return port
