"""A broker inside a program, for tests and for applications that bring their own::

    with EmbeddedBroker() as broker, ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()

It needs no files and no port.  For pytest there is a fixture, ``embedded_broker``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Event
from types import TracebackType

from mqbroker.app import Broker, BrokerSettings, StartError
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
        self._decided = Event()
        """The broker is active, or never will be."""
        self._failure: str | None = None

    @property
    def url(self) -> str:
        """The URL for clients in this process."""
        if self._number is None:
            raise RuntimeError("the embedded broker is not started, or not active yet")
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

    @property
    def is_active(self) -> bool:
        """Does it serve clients?  One of several that go on for each other may be started, and wait until it is active."""
        return self._broker is not None and self._broker.is_active

    def start(self) -> EmbeddedBroker:
        """Start and take connections.  Raises :class:`mqbroker.app.StartError`.

        A primary with a shared store returns when it is active, unless ``wait-for-activation`` is false; one with a replica always does
        then, and so does a broker that goes without high availability and has a network check.  A backup returns at once.
        """
        runner = get_runner()
        base = self._data or Path(self._temporary_folder() if self._configuration.persistence_enabled else ".")
        settings = BrokerSettings(self._configuration, base, large_bodies_in_memory=True)
        self._decided.clear()
        self._failure = None
        self._broker = broker = Broker(settings, runner.reactor, self._failed, None, lambda: self._activated(broker))
        try:
            runner.call(broker.start)
        except BaseException:
            self._broker = None
            raise
        if self._waits_for_activation:
            try:
                self.wait_for_activation()
            except StartError:
                self.stop()
                raise
        return self

    @property
    def _waits_for_activation(self) -> bool:
        shared, copied = self._configuration.shared_store, self._configuration.replication
        if shared is not None:
            return not shared.backup and shared.wait_for_activation
        if copied is not None:
            return not copied.backup
        return shared is None and self._configuration.checks_network

    def wait_for_activation(self, timeout: float | None = None) -> bool:
        """Wait until the broker is active, at most ``timeout`` seconds (None = no limit); false when it is not by then.

        Raises :class:`mqbroker.app.StartError` when it never will be.
        """
        self._decided.wait(timeout)
        if self._failure is not None:
            raise StartError(self._failure)
        return self._number is not None

    def _activated(self, broker: Broker) -> None:
        """In the reactor's thread, as the following one."""
        self._number = broker.accept_in_process(self._number)
        self._decided.set()

    def _failed(self, reason: str) -> None:
        self._failure = reason
        self._decided.set()

    def stop(self) -> None:
        """Stop in order; a second call does nothing."""
        self._number = None
        self._decided.set()
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
