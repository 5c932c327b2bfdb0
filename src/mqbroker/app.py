"""Assembly: a configuration goes in, a running broker comes out."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from mqbroker.checks import idle_parts
from mqbroker.clocks import ReactorClock
from mqbroker.config.cluster import ScaleDownConfiguration
from mqbroker.config.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER
from mqbroker.forms import running_form
from mqbroker.garbage import collection_paused
from mqbroker.listening import Listeners
from mqbroker.listening import StartError as StartError
from mqbroker.loop_watch import WatchThread
from mqbroker.memory_limits import default_global_max_size
from mqbroker.memory_return import MemoryReturn, trim_heap
from mqbroker.messaging.branches import xid_text
from mqbroker.messaging.core import MessagingOptions
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Recovered
from mqbroker.persistence import Persistence
from mqbroker.securing import security_of
from mqbroker.server.acceptor import Acceptor
from mqbroker.server.audit import AuditLog
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.kept_settings import restore_address_settings, restore_security_settings
from mqbroker.server.management.registry import Registry
from mqbroker.server.server import Server
from mqbroker.settings import BrokerSettings as BrokerSettings
from mqbroker.storage.errors import StorageError
from mqbroker.storage.filestore import FileStore
from mqbroker.storage.memorystore import MemoryStore

if TYPE_CHECKING:
    from mqbroker.clustering import Clustering
    from mqbroker.ha.scale_down import ScaleDown
    from mqbroker.messaging.message import Message
    from mqbroker.server.session import ServerSession

log = Logger(namespace="mqbroker")

T = TypeVar("T")

STOP_SECONDS = 10.0
"""How long an orderly stop waits for the disk before it gives up."""
BRANCHES_NAMED = 20
"""Branches in doubt that the log names at the start."""


def product_version() -> str:
    """The version of this distribution."""
    try:
        return version("mqbroker")
    except PackageNotFoundError:
        return "unpackaged"


class Broker:
    """One broker in this process.  It can be stopped and, as a new object, started again."""

    def __init__(self, settings: BrokerSettings, reactor: Any, on_failure: Callable[[str], object] | None = None) -> None:
        self.settings = settings
        self.configuration = settings.configuration
        self._reactor = reactor
        self._on_failure = on_failure
        self.on_stop_wanted: Callable[[], object] = self.stop
        """Called when management asks for an orderly stop; who runs the process may end that, too."""
        self.clock = ReactorClock(reactor)
        self.store: FileStore | MemoryStore
        self.server: Server
        self.messaging: Messaging
        self.registry = Registry()
        self.listeners: Listeners
        self._persistence = Persistence(settings, reactor, self.clock, self._in_turn, self._store_failed)
        self._watch: WatchThread | None = None
        self._memory_return: MemoryReturn | None = None
        self.clustering: Clustering | None = None
        """Those that management has made, as the store keeps them."""
        self._running = False

    @property
    def node_id(self) -> str:
        return self.store.node_id

    @property
    def data_directory(self) -> Path | None:
        """Where the journal is; None without persistence."""
        return self._persistence.directory

    @property
    def acceptors(self) -> list[Acceptor]:
        return self.listeners.acceptors

    @property
    def urls(self) -> list[str]:
        """Where clients can connect."""
        return [url for acceptor in self.acceptors for url in acceptor.urls]

    # --- start

    def start(self) -> None:
        """Start, and listen.  Raises :class:`StartError`; nothing is left open then."""
        with collection_paused():
            self._start()

    def _start(self) -> None:
        configuration = self.configuration
        for warning in self.settings.warnings:
            log.warn("{text}", text=str(warning))
        try:
            self.store = self._persistence.make_store()
            recovered = self._persistence.open(self.store)
        except (StorageError, OSError) as error:
            self._persistence.stop_writer()
            raise StartError(str(error)) from error
        try:
            kept = dict(recovered.settings)
            self._assemble(recovered)
            self.listeners.open(configuration.acceptors)
            self._join_others(kept)
            self._watch_loop()
            self.listeners.monitor(self.settings.web, self._persistence.usage)
        except BaseException:
            self._give_up()
            raise
        self._running = True
        log.info("AMQ221007: Server is now active")
        log.info(
            "AMQ221001: Apache ActiveMQ Artemis compatible message broker mqbroker version {version} ({form}) [{name}, nodeID={node}]",
            version=product_version(),
            form=running_form(),
            name=configuration.name,
            node=self.node_id,
        )

    def _join_others(self, kept: dict[tuple[str, str], str]) -> None:
        """Cluster connections, groups and bridges; their parts are imported only where there are any."""
        for text in idle_parts(self.configuration):
            log.warn("{text}", text=text)
        self.server.open_bridges = lambda: self._open_clustering(kept).bridges
        self.server.scale_down = lambda connector: self._stop_and_scale_down(connector, kept)
        if self.configuration.joins_others or any(kind == KEPT_BRIDGE_KIND for kind, _ in kept):
            try:
                self._open_clustering(kept)
            except ValueError as error:
                raise StartError(str(error)) from error

    def _open_clustering(self, kept: Mapping[tuple[str, str], str]) -> Clustering:
        clustering = self._make_clustering(kept)
        clustering.start()
        return clustering

    def _stop_and_scale_down(self, connector: str | None, kept: Mapping[tuple[str, str], str]) -> None:
        """Management wants it.  Raises ValueError for a connector that is not there."""
        if not self._running:
            return
        known = self.configuration.scale_down or ScaleDownConfiguration()
        connectors = known.connectors if connector is None else (connector, *known.connectors)
        self._make_clustering(kept).scale_down_to(replace(known, enabled=True, connectors=connectors))
        self.clock.call_later(0, self.on_stop_wanted)

    def _make_clustering(self, kept: Mapping[tuple[str, str], str]) -> Clustering:
        if self.clustering is None:
            from mqbroker.clustering import Clustering
            from mqclient.twisted import TwistedRuntime

            settings = self.settings
            self.clustering = Clustering(self.server, TwistedRuntime(self._reactor), settings.etc or settings.base, kept)
        return self.clustering

    def _leave_others(self) -> Deferred[Any]:
        return succeed(None) if self.clustering is None else self.clustering.stop()

    def _watch_loop(self) -> None:
        configuration = self.configuration
        timeout = configuration.critical_analyzer_timeout
        if not configuration.critical_analyzer or timeout <= 0:
            return
        period = configuration.critical_analyzer_check_period
        check = timeout / 2 if period is None or period <= 0 else period
        self._watch = WatchThread(self._reactor.callFromThread, timeout / 1000, check / 1000, self._loop_stalled)
        self.server.loop_lag_ms = self._watch.watch.lag_ms

    def _loop_stalled(self, reason: str) -> None:
        """Called in the watching thread: the loop that could stop the broker in order is what does not run."""
        policy = self.configuration.critical_analyzer_policy
        log.critical("AMQ224107: {reason}; the policy of the critical analyzer is {policy}", reason=reason, policy=policy)
        if policy != "LOG" and self._on_failure is not None:
            self._on_failure(f"critical analyzer: {reason}")

    def _assemble(self, recovered: Recovered) -> None:
        configuration = self.configuration
        repository = configuration.address_settings_repository()
        restore_address_settings(recovered.settings, repository, lambda text: log.warn("{text}", text=text))
        self.messaging = Messaging(
            self.store,
            self.clock,
            repository,
            configuration.wildcards,
            self._messaging_options(),
            random.random,
            lambda name: log.info("AMQ224113: {name} was not in use and has been removed", name=name),
            self._persistence.spaces if configuration.persistence_enabled else None,
        )
        if isinstance(self.store, FileStore):
            self.store.write_at_end_of(self.messaging.core.turn)
        count = self.messaging.restore(recovered)
        if count:
            log.info("{count} messages were read from the journal", count=count)
        in_doubt = self.messaging.branches.prepared()
        if in_doubt:
            names = ", ".join(xid_text(branch.xid) for branch in in_doubt[:BRANCHES_NAMED])
            log.warn("{count} XA branches are in doubt and wait for their transaction manager: {names}", count=len(in_doubt), names=names)
        self.messaging.core.apply_settings()
        for problem in self.messaging.deploy(configuration.addresses, lambda text: log.info("{text}", text=text)):
            log.warn("{problem}", problem=problem)
        try:
            self.messaging.deploy_diverts(configuration.diverts, lambda text: log.info("{text}", text=text))
        except ValueError as error:
            raise StartError(str(error)) from error
        audit = AuditLog()
        security = security_of(self.settings, recovered, self.store, self._persistence, self.clock, self._defer_to_thread, audit)
        restore_security_settings(recovered.settings, security.repository, lambda text: log.warn("{text}", text=text))
        self.server = Server(configuration, self.store, self.clock, self.messaging, security, lambda: uuid.uuid4().hex[:8])
        default = (configuration.cluster_user, configuration.cluster_password) == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD)
        if default and not configuration.cluster_connections:
            log.info(
                "AMQ222007: the cluster user and password are the built-in defaults: nobody can log in with them; change both to use them"
            )
        self.listeners = Listeners(self.server, self._reactor, self._persistence.read_bytes, list(self.settings.login_domains))
        self._manage(audit)
        self.messaging.start()
        self.server.start()
        memory = self.messaging.core.global_memory
        self._memory_return = MemoryReturn(self.clock, lambda: memory.size, trim_heap)
        self._memory_return.start()

    def _messaging_options(self) -> MessagingOptions:
        configuration = self.configuration
        names = [name for name in MessagingOptions.__slots__ if hasattr(configuration, name)]
        values = {name: getattr(configuration, name) for name in names}
        if configuration.global_max_size < 0:
            values["global_max_size"] = default_global_max_size()
        return MessagingOptions(**values)

    def _manage(self, audit: AuditLog) -> None:
        """Management answers; its parts are imported with the first request."""
        server = self.server
        self.registry.find_by("acceptor", self.listeners.find)

        def first(session: ServerSession, message: Message) -> None:
            from mqbroker.controls import register_controls
            from mqbroker.server.management.service import ManagementService

            register_controls(self.registry, server, product_version(), self._persistence.usage, lambda: self.acceptors)
            server.management = ManagementService(server, self.registry, audit).handle
            server.management(session, message)

        server.management = first

    def accept_in_process(self, number: int | None = None) -> int:
        """Take connections to ``vm://number`` (None = the first free number).  Returns the number; raises ValueError when it is taken."""
        return self.listeners.accept_in_process(number)

    # --- stop

    def stop(self) -> Deferred[None]:
        """Orderly: clients are told, what was accepted is written.  With a graceful shutdown they are waited for first."""
        if not self._running:
            return succeed(None)
        self._running = False
        self._stop_looking()
        closing = self.listeners.close()
        return self._clients_gone().addCallback(lambda _: self._leave()).addBoth(lambda _: self._stop_now(closing))

    @property
    def scales_down(self) -> bool:
        """Do the messages go to another broker when this one stops?"""
        return self.clustering is not None and self.clustering.scale_down is not None

    def cut_short(self) -> None:
        """While the broker stops: move no more messages to another one, but leave them on the disk."""
        if self.clustering is not None and self.clustering.scale_down is not None:
            self.clustering.scale_down.cut_short()

    def _leave(self) -> Deferred[Any]:
        """Leave the cluster; with scale-down configured the messages go to another broker, unless the disk has failed."""
        scale_down = None if self.clustering is None else self.clustering.scale_down
        if scale_down is None or self.store.failed:
            return self._leave_others()
        return Deferred.fromCoroutine(self._scale_down(scale_down))

    async def _scale_down(self, scale_down: ScaleDown) -> None:
        target = await scale_down.find()
        await self._leave_others()
        if target is None:
            return
        frozen: Deferred[None] = Deferred()
        self.server.freeze(lambda: frozen.callback(None))
        await frozen
        self.server.stop(target)
        self.messaging.stop()
        await scale_down.run()

    def _clients_gone(self) -> Deferred[None]:
        """Waits, where that is configured, until the last client has left by itself, or the time for it is over."""
        configuration, server = self.configuration, self.server
        if not configuration.graceful_shutdown_enabled or not server.has_clients() or self.store.failed:
            return succeed(None)
        log.info("waiting for {count} connections to end", count=len(server.connections))
        gone: Deferred[None] = Deferred()
        server.on_empty = lambda: None if gone.called else gone.callback(None)
        timeout = configuration.graceful_shutdown_timeout
        if timeout >= 0:
            limit = self.clock.call_later(timeout / 1000, server.on_empty)
            gone.addBoth(lambda _: limit.cancel())
        return gone

    def _stop_now(self, closing: Deferred[Any]) -> Deferred[None]:
        uptime = (self.clock.wall_ms() - self.server.started_ms) / 1000
        self.server.on_empty = None
        if self.clustering is not None:
            self.clustering.cut()
        self.server.stop()
        self.messaging.stop()
        written: Deferred[None] = Deferred()
        self.store.stop(lambda: None if written.called else written.callback(None))
        give_up = self.clock.call_later(STOP_SECONDS, lambda: None if written.called else written.callback(None))
        both: Deferred[Any] = gatherResults([closing, written], consumeErrors=True)

        def finished(result: object) -> None:
            give_up.cancel()
            self._persistence.stop_writer()
            log.info(
                "AMQ221002: mqbroker version {version} [{node}] stopped, uptime {uptime:.3f} seconds",
                version=product_version(),
                node=self.node_id,
                uptime=uptime,
            )

        return both.addBoth(finished)

    def _give_up(self) -> None:
        """A start that failed leaves nothing running."""
        self._stop_looking()
        self._leave_others()
        if self.clustering is not None:
            self.clustering.cut()
        for name in ("server", "messaging"):
            part = getattr(self, name, None)
            if part is not None:
                part.stop()
        self.store.withdraw()
        self._persistence.stop_writer()

    def _stop_looking(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._memory_return is not None:
            self._memory_return.stop()
            self._memory_return = None

    # --- what the layers below are given

    def _defer_to_thread(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *args)

    def _in_turn(self, function: Callable[..., object], *args: Any) -> None:
        messaging = getattr(self, "messaging", None)
        if messaging is None:
            function(*args)
        else:
            messaging.core.turn.run(function, *args)

    def _store_failed(self, reason: str) -> None:
        log.critical("AMQ222010: Critical IO Error, shutting down the server: {reason}", reason=reason)
        if self._on_failure is not None:
            self._on_failure(reason)
        else:
            # The process goes on without this broker: nobody is left waiting for an answer that cannot come.
            self.clock.call_later(0, self.stop)
