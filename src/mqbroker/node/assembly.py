"""The assembly of a broker: what one activation makes on a store that was opened and loaded (decision 16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.checks import idle_parts
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.ports import Recovered, Store
from mqbroker.node.messaging import messaging_of
from mqbroker.node.parts import Parts, StartError
from mqbroker.node.security import security_of
from mqbroker.node.stores import data_directory, written_folders
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.management.registry import Registry
from mqbroker.server.security.audit import AuditLog
from mqbroker.server.security.kept_settings import restore_security_settings
from mqbroker.server.server import ManagementHandler, Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.messaging.message.message import Message
    from mqbroker.node.clustering import Clustering
    from mqbroker.server.session_state import SessionState

log = Logger(namespace="mqbroker")


class ActiveBroker:
    """Messaging, server, management and the links to other brokers, from one activation to its end.

    ``stop_wanted`` is called when management asks for an orderly stop.
    """

    def __init__(
        self, settings: BrokerSettings, parts: Parts, store: Store, recovered: Recovered, stop_wanted: Callable[[], object]
    ) -> None:
        self.settings = settings
        self.store = store
        self.clustering: Clustering | None = None
        """Cluster connections, groups and bridges; None until the first is needed."""
        self._parts = parts
        self._stop_wanted = stop_wanted
        self.messages_recovered = len(recovered.messages)
        self._audit = AuditLog()
        self._kept: Mapping[tuple[str, str], str] = dict(recovered.settings)
        self.messaging = messaging_of(
            settings.configuration,
            store,
            recovered,
            parts.clock,
            parts.random,
            memory_default=parts.memory_default,
            disk_space=self._disk_space,
        )
        try:
            self.server = self._make_server(recovered)
        except BaseException:
            self.messaging.stop()
            raise
        self.listeners = parts.make_listeners(self.server)
        self.registry = Registry()
        self._manage()

    def _make_server(self, recovered: Recovered) -> Server:
        configuration, parts = self.settings.configuration, self._parts
        security = security_of(self.settings, recovered, self.store, parts, self._audit)
        restore_security_settings(recovered.settings, security.repository, _warn)
        default = (configuration.cluster_user, configuration.cluster_password) == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD)
        if default and not configuration.cluster_connections:
            log.info(
                "AMQ222007: the cluster user and password are the built-in defaults: nobody can log in with them; change both to use them"
            )
        return Server(configuration, self.store, parts.clock, self.messaging, security, lambda: parts.entropy(4).hex())

    # --- start

    def serve(self) -> None:
        """Take clients.  Raises :class:`StartError`."""
        self.messaging.start()
        self.server.start()
        self.listeners.open()
        for text in idle_parts(self.settings.configuration):
            log.warn("{text}", text=text)

    def join(self) -> None:
        """Join other brokers, also when management wants it later.  Raises :class:`StartError`."""
        self.server.open_bridges = lambda: self._open_clustering().bridges
        self.server.scale_down = self._stop_and_scale_down
        if self.settings.configuration.joins_others or any(kind == KEPT_BRIDGE_KIND for kind, _ in self._kept):
            try:
                self._open_clustering()
            except ValueError as error:
                raise StartError(str(error)) from error

    def _disk_space(self) -> list[DiskSpace]:
        return self._parts.disk_space(written_folders(self.settings))

    def disk_usage(self) -> float:
        """How full the disk of the journal is, 0 to 1."""
        return self._parts.disk_usage(str(data_directory(self.settings) or self.settings.base))

    def _manage(self) -> None:
        """Management answers; its parts are imported with the first request."""
        self.registry.find_by("acceptor", self.listeners.find)

        def first(session: SessionState, message: Message) -> None:
            self.open_management()(session, message)

        self.server.management = first

    def open_management(self) -> ManagementHandler:
        """Make what answers management, and register the resources that it reaches."""
        from mqbroker.node.controls import register_controls
        from mqbroker.server.management.service import ManagementService

        server = self.server
        register_controls(self.registry, server, self._parts.version, self.disk_usage, lambda: self.listeners.acceptors)
        server.management = ManagementService(server, self.registry, self._audit).handle
        return server.management

    # --- other brokers

    def _open_clustering(self) -> Clustering:
        clustering = self._make_clustering()
        clustering.start()
        return clustering

    def _make_clustering(self) -> Clustering:
        if self.clustering is None:
            from mqbroker.node.clustering import Clustering

            settings = self.settings
            self.clustering = Clustering(self.server, self._parts.make_runtime(), settings.etc or settings.base, self._kept)
        return self.clustering

    def _stop_and_scale_down(self, connector: str | None) -> None:
        """Management wants it.  Raises ValueError for a connector that is not there."""
        if not self.server.started:
            return
        known = self.settings.configuration.scale_down or ScaleDownConfiguration()
        connectors = known.connectors if connector is None else (connector, *known.connectors)
        self._make_clustering().scale_down_to(replace(known, enabled=True, connectors=connectors))
        self._parts.clock.call_later(0, self._stop_wanted)

    @property
    def scales_down(self) -> bool:
        """Do the messages go to another broker when this one stops?"""
        return self.clustering is not None and self.clustering.scale_down is not None

    def cut_short(self) -> None:
        """While the broker stops: move no more messages to another one, but leave them on the disk."""
        if self.clustering is not None and self.clustering.scale_down is not None:
            self.clustering.scale_down.cut_short()

    # --- the end

    def clients_gone(self) -> Deferred[None]:
        """Waits, where that is configured, until the last client has left by itself, or the time for it is over."""
        configuration, server = self.settings.configuration, self.server
        if not configuration.graceful_shutdown_enabled or not server.has_clients() or self.store.failed:
            return succeed(None)
        log.info("waiting for {count} connections to end", count=len(server.connections))
        gone: Deferred[None] = Deferred()
        server.on_empty = lambda: None if gone.called else gone.callback(None)
        timeout = configuration.graceful_shutdown_timeout
        if timeout >= 0:
            limit = self._parts.clock.call_later(timeout / 1000, server.on_empty)
            gone.addBoth(lambda _: limit.cancel())
        return gone

    async def leave(self) -> None:
        """Leave the other brokers; with scale-down configured the messages go to one of them, unless the disk has failed."""
        clustering = self.clustering
        if clustering is None:
            return
        scale_down = None if self.store.failed else clustering.scale_down
        target = None if scale_down is None else await scale_down.find()
        await clustering.stop()
        if scale_down is None or target is None:
            return
        frozen: Deferred[None] = Deferred()
        self.server.freeze(lambda: frozen.callback(None))
        await frozen
        self.server.stop(target)
        self.messaging.stop()
        await scale_down.run()

    def give_up(self) -> None:
        """The start has failed: leave the other brokers without waiting for them, and end."""
        if self.clustering is not None:
            self.clustering.stop()
        self.end()

    def end(self) -> None:
        """Send everybody away and do no more work; the store is not touched."""
        self.server.on_empty = None
        if self.clustering is not None:
            self.clustering.cut()
        self.server.stop()
        self.messaging.stop()


def _warn(text: str) -> None:
    log.warn("{text}", text=text)
