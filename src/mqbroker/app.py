"""Assembly: a configuration goes in, a running broker comes out."""

from __future__ import annotations

import os
import random
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
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
from mqbroker.config.problems import ConfigurationError
from mqbroker.garbage import collection_paused
from mqbroker.listening import Listeners
from mqbroker.listening import StartError as StartError
from mqbroker.localfs import LocalFileSystem, replace_file
from mqbroker.loop_watch import WatchThread
from mqbroker.memory_limits import default_global_max_size
from mqbroker.messaging.branches import xid_text
from mqbroker.messaging.core import MessagingOptions
from mqbroker.messaging.disk_guard import DiskSpace
from mqbroker.messaging.messaging import Messaging
from mqbroker.messaging.ports import Recovered, Store
from mqbroker.server.acceptor import Acceptor
from mqbroker.server.audit import AuditLog
from mqbroker.server.bridge_port import KEPT_BRIDGE_KIND
from mqbroker.server.login import LoginStep
from mqbroker.server.management.registry import Registry
from mqbroker.server.security import SecurityManager
from mqbroker.server.server import Server
from mqbroker.server.users import KeptUsers, KeptUsersLoginModule
from mqbroker.settings import BrokerSettings as BrokerSettings
from mqbroker.storage.errors import StorageError
from mqbroker.storage.filestore import FileStore
from mqbroker.storage.memorystore import MemoryStore
from mqbroker.storage.settings import StoreSettings
from mqbroker.threads import ThreadedDiskWriter

if TYPE_CHECKING:
    from mqbroker.clustering import Clustering
    from mqbroker.ha.scale_down import ScaleDown
    from mqbroker.messaging.message import Message
    from mqbroker.server.session import ServerSession

log = Logger(namespace="mqbroker")

T = TypeVar("T")

KEPT_USER_KIND = "user"
"""The kind of settings under which the store keeps the users of basic security."""

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


class _KeptUserStore:
    """Keeps users in the bindings."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, name: str, record: str) -> None:
        batch = self._store.begin()
        batch.put_setting(KEPT_USER_KIND, name, record)
        self._store.commit(batch)

    def delete(self, name: str) -> None:
        batch = self._store.begin()
        batch.delete_setting(KEPT_USER_KIND, name)
        self._store.commit(batch)


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
        self._disk_writer: ThreadedDiskWriter | None = None
        self._watch: WatchThread | None = None
        self.clustering: Clustering | None = None
        """Those that management has made, as the store keeps them."""
        self._running = False

    @property
    def node_id(self) -> str:
        return self.store.node_id

    @property
    def data_directory(self) -> Path | None:
        """Where the journal is; None without persistence."""
        return self._path(self.configuration.journal_directory) if self.configuration.persistence_enabled else None

    @property
    def acceptors(self) -> list[Acceptor]:
        return self.listeners.acceptors

    @property
    def urls(self) -> list[str]:
        """Where clients can connect."""
        return [f"tcp://{address.host}:{address.port}" for acceptor in self.acceptors for address in acceptor.addresses]

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
            recovered = self._open_store()
        except (StorageError, OSError) as error:
            self._stop_disk_writer()
            raise StartError(str(error)) from error
        try:
            kept = dict(recovered.settings)
            self._assemble(recovered)
            self.listeners.open(configuration.acceptors)
            self._join_others(kept)
            self._watch_loop()
            self.listeners.monitor(self.settings.web, self._disk_usage)
        except BaseException:
            self._give_up()
            raise
        self._running = True
        log.info("AMQ221007: Server is now active")
        log.info(
            "AMQ221001: Apache ActiveMQ Artemis compatible message broker mqbroker version {version} [{name}, nodeID={node}]",
            version=product_version(),
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

    def _open_store(self) -> Recovered:
        configuration = self.configuration
        if not configuration.persistence_enabled:
            self.store = MemoryStore(os.urandom, self._large_body_files(), self._store_failed)
            return Recovered()
        file_system = LocalFileSystem()
        self._disk_writer = ThreadedDiskWriter.of_reactor(self._reactor, self._in_turn)
        self.store = FileStore(self._store_settings(), file_system, self._disk_writer, self.clock, os.urandom, self._store_failed)
        self.store.open()
        return self.store.load()

    def _large_body_files(self) -> tuple[LocalFileSystem, str, ThreadedDiskWriter] | None:
        """Where large bodies go when nothing else is kept; None keeps them in memory."""
        if self.settings.large_bodies_in_memory:
            return None
        self._disk_writer = ThreadedDiskWriter.of_reactor(self._reactor, self._in_turn)
        return LocalFileSystem(), str(self._path(self.configuration.large_messages_directory)), self._disk_writer

    def _store_settings(self) -> StoreSettings:
        configuration = self.configuration
        lock = configuration.node_manager_lock_directory
        return StoreSettings(
            journal_directory=str(self._path(configuration.journal_directory)),
            bindings_directory=str(self._path(configuration.bindings_directory)),
            large_messages_directory=str(self._path(configuration.large_messages_directory)),
            paging_directory=str(self._path(configuration.paging_directory)),
            purge_page_folders=configuration.purge_page_folders,
            compress_pages=configuration.compress_pages,
            lock_directory=None if lock is None else str(self._path(lock)),
            create_journal_directory=configuration.create_journal_dir,
            create_bindings_directory=configuration.create_bindings_dir,
            journal_file_size=configuration.journal_file_size,
            journal_compact_min_files=configuration.journal_compact_min_files,
            journal_compact_percentage=configuration.journal_compact_percentage,
            journal_datasync=configuration.journal_datasync,
            large_message_sync=configuration.large_message_sync,
        )

    def _assemble(self, recovered: Recovered) -> None:
        configuration = self.configuration
        repository = configuration.address_settings_repository()
        self.messaging = Messaging(
            self.store,
            self.clock,
            repository,
            configuration.wildcards,
            self._messaging_options(),
            random.random,
            lambda name: log.info("AMQ224113: {name} was not in use and has been removed", name=name),
            self._disk_spaces if configuration.persistence_enabled else None,
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
        security = self._security(audit, recovered)
        self.server = Server(configuration, self.store, self.clock, self.messaging, security, lambda: uuid.uuid4().hex[:8])
        default = (configuration.cluster_user, configuration.cluster_password) == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD)
        if default and not configuration.cluster_connections:
            log.warn(
                "AMQ222007: the cluster user and password are the built-in defaults: nobody can log in with them; change both to use them"
            )
        self.listeners = Listeners(self.server, self._reactor, self._read_bytes, list(self.settings.login_domains))
        self._manage(audit)
        self.messaging.start()
        self.server.start()

    def _security(self, audit: AuditLog, recovered: Recovered) -> SecurityManager:
        settings = self.settings
        login: Sequence[Any] | None = settings.login
        if settings.basic_security is not None:
            login = [LoginStep("required", KeptUsersLoginModule(self._kept_users(settings.basic_security, recovered)))]
        try:
            return SecurityManager(
                self.configuration,
                login,
                self._defer_to_thread,
                self.clock,
                self._read_bytes,
                settings.etc or settings.base,
                certificate_login=settings.certificate_login,
                domains=settings.login_domains,
                clustered=bool(self.configuration.cluster_connections),
                audit=audit,
                write_file=self._write_bytes,
                entropy=os.urandom,
            )
        except ConfigurationError as error:
            raise StartError(str(error)) from error

    def _kept_users(self, properties: dict[str, str], recovered: Recovered) -> KeptUsers:
        records = {key: value for (kind, key), value in recovered.settings.items() if kind == KEPT_USER_KIND}
        users = KeptUsers(records, _KeptUserStore(self.store), os.urandom)
        name, password = properties.get("bootstrapUser"), properties.get("bootstrapPassword")
        if name and password:
            users.bootstrap(name, password, properties.get("bootstrapRole", ""))
        return users

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
            from mqbroker.server.management.service import ManagementService

            self._register_controls()
            server.management = ManagementService(server, self.registry, audit).handle
            server.management(session, message)

        server.management = first

    def _register_controls(self) -> None:
        from mqbroker.server.management.address_control import AddressControl
        from mqbroker.server.management.bridge_control import find_bridge
        from mqbroker.server.management.broker_control import BrokerControl, BrokerStatus
        from mqbroker.server.management.cluster_control import find_broadcast_group, find_cluster_connection
        from mqbroker.server.management.divert_control import DivertControl
        from mqbroker.server.management.queue_control import QueueControl

        server, core = self.server, self.messaging.core
        status = BrokerStatus(product_version(), self._disk_usage, lambda: self.acceptors)
        self.registry.register("broker", BrokerControl(server, status, server.security.users()))
        diverts = self.messaging.diverts
        self.registry.find_by("divert", lambda name: None if (divert := diverts.find(name)) is None else DivertControl(divert))
        self.registry.find_by("queue", lambda name: QueueControl(server, core.queues[name]) if name in core.queues else None)
        self.registry.find_by("address", lambda name: AddressControl(server, core.addresses[name]) if name in core.addresses else None)
        self.registry.find_by("bridge", lambda name: find_bridge(server, name))
        self.registry.find_by("clusterconnection", lambda name: find_cluster_connection(server, name))
        self.registry.find_by("broadcastgroup", lambda name: find_broadcast_group(server, name))

    def accept_in_process(self, number: int | None = None) -> int:
        """Take connections to ``vm://number`` (None = the first free number).  Returns the number; raises ValueError when it is taken."""
        return self.listeners.accept_in_process(number)

    # --- stop

    def stop(self) -> Deferred[None]:
        """Orderly: clients are told, what was accepted is written.  With a graceful shutdown they are waited for first."""
        if not self._running:
            return succeed(None)
        self._running = False
        self._stop_watch()
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
        """Leave the cluster; with scale-down configured the messages go to another broker."""
        scale_down = None if self.clustering is None else self.clustering.scale_down
        return self._leave_others() if scale_down is None else Deferred.fromCoroutine(self._scale_down(scale_down))

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
        if not configuration.graceful_shutdown_enabled or not server.has_clients():
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
        self.server.stop()
        self.messaging.stop()
        written: Deferred[None] = Deferred()
        self.store.stop(lambda: None if written.called else written.callback(None))
        give_up = self.clock.call_later(STOP_SECONDS, lambda: None if written.called else written.callback(None))
        both: Deferred[Any] = gatherResults([closing, written], consumeErrors=True)

        def finished(result: object) -> None:
            give_up.cancel()
            self._stop_disk_writer()
            log.info(
                "AMQ221002: mqbroker version {version} [{node}] stopped, uptime {uptime:.3f} seconds",
                version=product_version(),
                node=self.node_id,
                uptime=uptime,
            )

        return both.addBoth(finished)

    def _give_up(self) -> None:
        """A start that failed leaves nothing running."""
        self._stop_watch()
        self._leave_others()
        for name in ("server", "messaging"):
            part = getattr(self, name, None)
            if part is not None:
                part.stop()
        self.store.abort()
        self._stop_disk_writer()

    def _stop_watch(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _stop_disk_writer(self) -> None:
        if self._disk_writer is not None:
            self._disk_writer.close()
            self._disk_writer = None

    # --- what the layers below are given

    def _path(self, text: str) -> Path:
        return self.settings.base / text

    def _read_bytes(self, path: str) -> bytes:
        return self._path(path).read_bytes()

    def _write_bytes(self, path: str, data: bytes) -> None:
        replace_file(self._path(path), data)

    def _defer_to_thread(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *args)

    def _in_turn(self, function: Callable[..., object], *args: Any) -> None:
        messaging = getattr(self, "messaging", None)
        if messaging is None:
            function(*args)
        else:
            messaging.core.turn.run(function, *args)

    def _disk_spaces(self) -> list[DiskSpace]:
        """The disks below the folders that the broker writes to."""
        configuration = self.configuration
        folders = (
            configuration.journal_directory,
            configuration.paging_directory,
            configuration.large_messages_directory,
            configuration.bindings_directory,
        )
        usages = [(str(self._path(folder)), shutil.disk_usage(self._path(folder))) for folder in folders]
        return [DiskSpace(path, usage.free, usage.total) for path, usage in usages]

    def _disk_usage(self) -> float:
        directory = self.data_directory or self.settings.base
        usage = shutil.disk_usage(directory)
        return usage.used / usage.total if usage.total else 0.0

    def _store_failed(self, reason: str) -> None:
        log.critical("AMQ222010: Critical IO Error, shutting down the server: {reason}", reason=reason)
        if self._on_failure is not None:
            self._on_failure(reason)
