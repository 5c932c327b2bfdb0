"""The ports that serve metrics and health over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from mqbroker.config.model.monitoring_ports import Binding, bindings
from mqbroker.listening import reason_of
from mqbroker.node.parts import Observed, StartError

if TYPE_CHECKING:
    from twisted.internet.interfaces import IListeningPort

    from mqbroker.config.instance.broker_settings import BrokerSettings

log = Logger(namespace="mqbroker")


class MonitoringPages:
    """The ports of health and metrics that the configuration asks for."""

    def __init__(self, settings: BrokerSettings, reactor: Any, observed: Observed) -> None:
        self._settings = settings
        self._reactor = reactor
        self._observed = observed
        self._ports: list[IListeningPort] = []

    @property
    def urls(self) -> list[str]:
        """The URLs of the open ports."""
        hosts: list[Any] = [port.getHost() for port in self._ports]
        return [f"http://{host.host}:{host.port}" for host in hosts]

    def open(self) -> None:
        """Open the ports, unless they are open.  Raises :class:`StartError`; every port is closed again then."""
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
                # The configuration asks for Artemis's console on this port, not for metrics: the broker starts without it.
                log.warn("{text}", text=text)
                continue
            self._ports.append(port)
            log.info("health{metrics} at {url}", metrics=" and metrics" if binding.metrics else "", url=self.urls[-1])

    def _metrics(self) -> Iterator[bytes]:
        from mqbroker.server.observation.metrics import render

        return render(self._observed.figures())

    def close(self) -> Deferred[Any]:
        """Completes when every port is closed."""
        ports, self._ports = self._ports, []
        return gatherResults([maybeDeferred(port.stopListening) for port in ports], consumeErrors=True)


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

    from mqbroker.server.observation.health import FewConnections, health_root

    make: Any = Site
    site = make(health_root(live, ready, metrics if binding.metrics else None))
    site.noisy = False
    site.displayTracebacks = False
    site.log = lambda request: None
    limited = FewConnections(site)  # type: ignore[no-untyped-call]
    port: IListeningPort = reactor.listenTCP(binding.port, limited, interface="" if binding.host == "0.0.0.0" else binding.host)
    return port
