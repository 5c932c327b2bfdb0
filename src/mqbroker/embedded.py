"""A broker inside a program, for tests and for applications that bring their own::

    with EmbeddedBroker() as broker, ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()

It needs no files and no port.  For pytest there is a fixture, ``embedded_broker``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType

from mqbroker.app import Broker, BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqclient.blocking import get_runner
from mqclient.urls import parse_transport_uri

STOP_TIMEOUT_MS = 15_000


class EmbeddedBroker:
    """A broker that runs on the reactor of this process, or on one of its own in a daemon thread.

    ``configuration`` is used as it is; without one the broker keeps everything in memory and asks nobody for a password.  ``acceptor``
    (such as ``tcp://127.0.0.1:0``) opens a port beside the in-process way.  ``data`` is a folder for the journal: with it the broker is
    durable.
    """

    def __init__(self, configuration: Configuration | None = None, *, acceptor: str | None = None, data: str | Path | None = None) -> None:
        if configuration is None:
            configuration = Configuration(security_enabled=False, persistence_enabled=data is not None)
        if acceptor is not None:
            configuration.acceptors = [*configuration.acceptors, parse_transport_uri(acceptor, "embedded")]
        self._configuration = configuration
        self._data = None if data is None else Path(data)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._broker: Broker | None = None
        self._number: int | None = None

    @property
    def url(self) -> str:
        """The URL for clients in this process."""
        if self._number is None:
            raise RuntimeError("the embedded broker is not started")
        return f"vm://{self._number}"

    @property
    def tcp_url(self) -> str:
        """The URL for clients in other processes; needs an ``acceptor``."""
        return self.broker.urls[0]

    @property
    def broker(self) -> Broker:
        """The broker itself; it belongs to the reactor's thread."""
        if self._broker is None:
            raise RuntimeError("the embedded broker is not started")
        return self._broker

    def start(self) -> EmbeddedBroker:
        """Start and take connections.  Raises :class:`mqbroker.app.StartError`."""
        runner = get_runner()
        reactor = runner.reactor
        base = self._data or Path(self._temporary_folder() if self._configuration.persistence_enabled else ".")
        broker = Broker(BrokerSettings(self._configuration, base, large_bodies_in_memory=True), reactor)
        runner.call(broker.start)
        self._broker = broker
        self._number = runner.call(broker.accept_in_process)
        return self

    def stop(self) -> None:
        """Stop in order; a second call does nothing."""
        self._number = None
        if self._broker is not None:
            broker, self._broker = self._broker, None
            get_runner().call(broker.stop, timeout=STOP_TIMEOUT_MS)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _temporary_folder(self) -> str:
        self._temporary = tempfile.TemporaryDirectory(prefix="mqbroker-")
        return self._temporary.name

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
