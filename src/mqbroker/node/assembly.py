"""The assembly of a broker: the parts of one activation, on a store that was opened and loaded (decision 16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.checks import idle_parts
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.messaging.ports import Recovered, Store
from mqbroker.node.messaging import messaging_of
from mqbroker.node.others import Others
from mqbroker.node.parts import Listeners, Parts
from mqbroker.node.security import security_of
from mqbroker.node.stores import data_directory, show_database, written_folders
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.management.registry import Registry
from mqbroker.server.security.audit import AuditLog
from mqbroker.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from mqbroker.cluster.grouping.grouping import GroupingHandler
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.imq.enhanced.membership import Membership
    from mqbroker.messaging.administration.registrar import Registrar
    from mqbroker.messaging.core import MessagingCore
    from mqbroker.messaging.message.message import Message
    from mqbroker.node.clustering import Clustering
    from mqbroker.node.homes import HomeFiles, RecordDatabase
    from mqbroker.node.retirement import Retirement
    from mqbroker.server.management.service import ManagementService
    from mqbroker.server.session_state import SessionState
    from mqbroker.storage.sql.connections import Outage

log = Logger(namespace="mqbroker")


class ActiveBroker:
    """Messaging, server, management and the links to other brokers, from one activation to its end.

    ``stop_wanted`` is called when management asks for an orderly stop.  ``ways_in``: those that are open already, for another server;
    None = there are none.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        parts: Parts,
        store: Store,
        recovered: Recovered,
        stop_wanted: Callable[[], object],
        ways_in: Listeners | None = None,
    ) -> None:
        configuration = settings.configuration
        self.settings = settings
        self.store = store
        self.messages_recovered = len(recovered.messages)
        self._parts = parts
        self._stop_wanted = stop_wanted
        self._kept: Mapping[tuple[str, str], str] = _kept(recovered)
        self._audit = AuditLog()
        self._management: ManagementService | None = None
        self._grouping: GroupingHandler | None = None
        self._retirement: Retirement | None = None
        self._waiting: list[Callable[[], object]] = []
        """Functions that end the waiting for the last client."""
        self.messaging = messaging_of(
            configuration,
            store,
            recovered,
            parts.clock,
            parts.random,
            memory_default=parts.memory_default,
            disk_space=partial(parts.disk_space, written_folders(settings)),
            registrar=self._home_registrar(configuration.home_cluster)
            if configuration.home_cluster and configuration.cluster_connections
            else parts.registrar,
            make_grouping=self._make_grouping,
        )
        activation = parts.activation
        self.others = Others(
            configuration,
            self._make_clustering,
            lambda: parts.clock.call_later(0, stop_wanted),
            activation.hand_over,
            lambda: activation.copies,
            parts.colocation,
        )
        try:
            security = security_of(settings, recovered, store, parts, self._audit)
            self.server = Server(
                configuration, store, parts.clock, self.messaging, security, lambda: parts.entropy(4).hex(), self.others, self._manage
            )
        except BaseException:
            self.messaging.stop()
            raise
        self._outage: Outage | None = None
        if parts.database is not None and configuration.persistence_enabled:
            self._outage = show_database(self.server.gauges, store)
        self._are_open = ways_in is not None
        self.listeners = ways_in or parts.make_listeners(self.server)
        self.registry = Registry()
        self.registry.find_by("acceptor", self.listeners.find)

    def _make_clustering(self) -> Clustering:
        from mqbroker.node.clustering import Clustering

        runtime, folder = self._parts.make_runtime(), self.settings.etc or self.settings.base
        clustering = Clustering(
            self.server, runtime, folder, self._kept, self._grouping, self._home_files(), self._record_database(), self._membership()
        )
        if clustering.homes is not None:
            clustering.homes.register(self.registry)
        return clustering

    def _home_files(self) -> HomeFiles | None:
        if self.settings.imq is None:
            return None
        from mqbroker.node.homes import HomeFiles

        return HomeFiles(self.settings.imq, self._parts.read_file, self._parts.write_file)

    def _membership(self) -> Membership | None:
        home = self.settings.configuration.home_cluster
        if home is None or home.enhanced is None:
            return None
        from mqbroker.node.enhanced import EnhancedActivation

        activation = self._parts.activation
        return activation.membership if isinstance(activation, EnhancedActivation) else None

    def _record_database(self) -> RecordDatabase | None:
        parts = self._parts
        if parts.record is None:
            return None
        from mqbroker.node.homes import RecordDatabase

        return RecordDatabase(parts.record, lambda: parts.make_writer(self.server.turn.run), parts.restart)

    @staticmethod
    def _home_registrar(cluster: HomeCluster) -> Registrar:
        from mqbroker.imq.definitions.auto_creation import AutoCreation
        from mqbroker.imq.definitions.registrar import HomeRegistrar

        return HomeRegistrar(AutoCreation(cluster.autocreate_queue, cluster.autocreate_topic))

    def _make_grouping(self, core: MessagingCore) -> GroupingHandler:
        from mqbroker.node.grouping import make_grouping

        configuration = self.settings.configuration.grouping_handler
        assert configuration is not None
        self._grouping = make_grouping(configuration, core, self._kept, lambda: self.server)
        return self._grouping

    def _manage(self, session: SessionState, message: Message) -> None:
        (self._management or self.open_management()).handle(session, message)

    def open_management(self) -> ManagementService:
        """Make the management service and register the resources; both are imported with the first request."""
        from mqbroker.node.controls import register_controls
        from mqbroker.server.management.service import ManagementService

        register_controls(self.registry, self.server, self._parts.version, self.disk_usage, lambda: self.listeners.acceptors)
        if self.settings.imq is not None:
            from mqbroker.node.imq_controls import register_imq

            register_imq(self.registry, self.server, self.settings.imq, self._parts, self._stop_wanted, self.others)
        self._management = ManagementService(self.server, self.registry, self._audit)
        return self._management

    def disk_usage(self) -> float:
        """The used part of the disk of the journal, 0 to 1."""
        return self._parts.disk_usage(str(data_directory(self.settings) or self.settings.base))

    def problem(self) -> str | None:
        """Why clients can be served not at all or only in part, in one line; None when they can."""
        return self.server.problem() or (None if self._outage is None else self._outage.problem())

    # --- start

    def serve(self) -> None:
        """Take clients.  Raises :class:`StartError`."""
        self.messaging.start()
        self.server.start()
        if self._are_open:
            self.listeners.serve(self.server)
        else:
            self.listeners.open()
        for text in idle_parts(self.settings.configuration):
            log.warn("{text}", text=text)

    def join(self) -> None:
        """Join other brokers, if the configuration or a kept bridge asks for it.  Raises :class:`StartError`."""
        if self.settings.configuration.joins_others or any(kind == KEPT_BRIDGE_KIND for kind, _ in self._kept):
            self.others.join()
            if self.settings.imq is not None:
                # The broker may become active again in this process, and must not forget or restore anything then.
                self.settings.imq = replace(self.settings.imq, start=self.settings.imq.start.again())

    def retire(self, leave: Callable[[], object]) -> None:
        """Look for a broker that takes the messages; ``leave`` is called as soon as there is one."""
        from mqbroker.node.retirement import Retirement

        configuration, clustering = self.settings.configuration.scale_down, self.others.clustering
        assert configuration is not None and clustering is not None
        self._retirement = Retirement(self._parts.clock, clustering, configuration, leave)

    # --- the end

    def clients_gone(self) -> Deferred[None]:
        """Completes when the last client has left by itself, or its time is over; at once without a graceful shutdown."""
        self._retire_no_more()
        configuration, server = self.settings.configuration, self.server
        if not configuration.graceful_shutdown_enabled or not server.has_clients() or self.store.failed:
            return succeed(None)
        log.info("waiting for {count} connections to end", count=len(server.connections))
        gone: Deferred[None] = Deferred()
        self._waiting.append(server.emptied.subscribe(partial(gone.callback, None)))
        timeout = configuration.graceful_shutdown_timeout
        if timeout >= 0:
            self._waiting.append(self._parts.clock.call_later(timeout / 1000, gone.callback, None).cancel)
        return gone.addBoth(lambda _: self._wait_no_more())

    def _retire_no_more(self) -> None:
        if self._retirement is not None:
            self._retirement.stop()

    def _wait_no_more(self) -> None:
        while self._waiting:
            self._waiting.pop()()

    async def leave(self, returns: bool) -> None:
        """Leave the other brokers; with scale-down the messages go to another broker, unless the disk has failed or it ``returns``."""
        clustering = self.others.clustering
        if clustering is None:
            return
        scale_down = None if self.store.failed or returns else clustering.scale_down
        target = None if scale_down is None else await scale_down.find()
        await clustering.stop()
        if scale_down is None:
            return
        if target is None:
            scale_down.tell_problem()
            self._parts.activation.gave_away(complete=False)
            return
        frozen: Deferred[None] = Deferred()
        self.server.freeze(lambda: frozen.callback(None))
        await frozen
        self.server.stop(target)
        self.messaging.stop()
        await scale_down.run()
        self._parts.activation.gave_away(scale_down.complete)

    def give_up(self) -> None:
        """The start has failed: leave the other brokers without waiting for them, and end."""
        self.listeners.close()
        if self.others.clustering is not None:
            self.others.clustering.stop()
        self.end()

    def end(self) -> None:
        """Disconnect all peers and do no more work; the store is not touched."""
        self._retire_no_more()
        self._wait_no_more()
        if self.others.clustering is not None:
            self.others.clustering.cut()
        self.server.stop()
        self.messaging.stop()


def _kept(recovered: Recovered) -> dict[tuple[str, str], str]:
    """The settings of this broker, and those of others that it has taken over and not read before it ended."""
    settings = dict(recovered.settings)
    if recovered.inherited:
        from mqbroker.imq.definitions.temporary import KIND, inherited_destinations

        settings = {(KIND, name): text for name, text in inherited_destinations(recovered.inherited).items()} | settings
    return settings
