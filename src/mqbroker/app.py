"""The broker of this process: its parts of the real world, and the watches over loop and memory."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from mqbroker import __version__
from mqbroker.config.instance.broker_settings import BrokerSettings as BrokerSettings
from mqbroker.listening import Listeners
from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqbroker.messaging.administration.registrar import LocalRegistrar
from mqbroker.monitoring import MonitoringPages
from mqbroker.node.activation import Surroundings, make_activation
from mqbroker.node.life import BrokerLife
from mqbroker.node.life_machine import active, leaving
from mqbroker.node.parts import NetworkWatch, Observed, Parts
from mqbroker.node.parts import StartError as StartError
from mqbroker.node.presence import ClusterPresence, open_side
from mqbroker.node.stores import data_directory, make_store
from mqbroker.process.beats import BeatThread
from mqbroker.process.clocks import ReactorClock
from mqbroker.process.forms import running_form
from mqbroker.process.garbage import collection_paused
from mqbroker.process.localfs import LocalFileSystem, replace_file
from mqbroker.process.loop_watch import WatchThread
from mqbroker.process.memory_limits import default_global_max_size
from mqbroker.process.memory_return import MemoryReturn, trim_heap
from mqbroker.process.threads import ThreadedDiskWriter

if TYPE_CHECKING:
    from mqbroker.colocation import Colocation
    from mqbroker.config.model.database import DatabaseStoreConfiguration
    from mqbroker.ha.locks.proof import LockProof
    from mqbroker.ha.replication.process_voters import ProcessVoters
    from mqbroker.messaging.messaging import Messaging
    from mqbroker.messaging.ports import Store
    from mqbroker.node.clustering import Clustering
    from mqbroker.server.management.registry import Registry
    from mqbroker.server.observation.metrics import MetricsSource
    from mqbroker.server.server import Server
    from mqbroker.server.transport.acceptor import Acceptor, ConnectingServer
    from mqbroker.storage.sql.database import Database
    from mqclient.core.runtime import Runtime

log = Logger(namespace="mqbroker")

T = TypeVar("T")


class Broker:
    """One broker on the reactor of this process.  It can be stopped and started again.

    ``on_failure`` is told why the broker cannot go on: it serves nobody any more, and writes nothing.  ``on_stop_wanted`` is
    called when management asks for an orderly stop, by default :meth:`stop`; who runs the process may end that, too.  ``on_active`` is
    called whenever the broker has become active, ``on_restart_wanted`` when management wants the broker to read its files again; None =
    that cannot be asked for.  ``neighbours`` are the voters of this process, if another broker of it hosts this one.
    Raises :class:`StartError` for a network check that cannot be made.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        reactor: Any,
        on_failure: Callable[[str], object] | None = None,
        on_stop_wanted: Callable[[], object] | None = None,
        on_active: Callable[[], object] = lambda: None,
        on_restart_wanted: Callable[[], object] | None = None,
        neighbours: ProcessVoters | None = None,
    ) -> None:
        self.settings = settings
        self.configuration = settings.configuration
        self.clock = ReactorClock(reactor)
        self.listeners: Listeners
        self.pages: MonitoringPages
        self._reactor = reactor
        self._on_failure = on_failure
        self._on_active = on_active
        self._on_restart_wanted = on_restart_wanted
        self._watch: WatchThread | None = None
        self._memory_return: MemoryReturn | None = None
        self._network = self._network_watch()
        self._neighbours = neighbours or self._process_voters()
        etc = settings.etc or settings.base
        presence = ClusterPresence(self.configuration, etc, self._make_runtime, lambda: self.clustering if self.is_active else None)
        outside = Surroundings(
            self.clock,
            os.urandom,
            presence,
            lambda name: open_side(self.configuration, name, etc, self._make_runtime()),
            threading.Lock(),
            self._call_from_thread,
            None if self._network is None else self._network.look,
            self._lock_proof(),
            self._waiting_database(),
            BeatThread,
            lambda in_turn: ThreadedDiskWriter.of_reactor(reactor, in_turn),
            self._neighbours,
        )
        self._activation = make_activation(self.configuration, outside)
        self._colocation = self._make_colocation()
        self._life = BrokerLife(settings, self._parts(), self._store_failed, on_stop_wanted or self.stop, self._activated)

    # --- what it is made of

    def _call_from_thread(self, function: Callable[[], object]) -> None:
        """Let the loop call ``function``; a reactor is asked for this only where there are threads."""
        self._reactor.callFromThread(function)

    def _parts(self) -> Parts:
        reactor = self._reactor
        return Parts(
            clock=self.clock,
            file_system=LocalFileSystem(),
            make_writer=lambda in_turn: ThreadedDiskWriter.of_reactor(reactor, in_turn),
            entropy=os.urandom,
            random=random.random,
            defer_to_thread=self._defer_to_thread,
            read_file=self._read_file,
            write_file=self._write_file,
            disk_space=_disk_space,
            disk_usage=_disk_usage,
            make_runtime=self._make_runtime,
            make_store=make_store,
            make_listeners=self._make_listeners,
            make_pages=self._make_pages,
            activation=self._activation,
            registrar=LocalRegistrar(),
            loop_lag_ms=lambda: None if self._watch is None else self._watch.watch.lag_ms(),
            memory_default=default_global_max_size,
            version=__version__,
            network=self._network,
            database=self._database(self.configuration.database_store),
            record=self._database(self._record),
            colocation=lambda: None if self._colocation is None else self._colocation.figures,
            restart=self._on_restart_wanted,
        )

    @property
    def _record(self) -> DatabaseStoreConfiguration | None:
        """The database of the change record of a cluster of peers."""
        home = self.configuration.home_cluster
        return None if home is None or home.record is None else home.record.database

    def _waiting_database(self) -> Database | None:
        """The database of brokers that share it, without waits that outlast a lease or a stamp.  Raises :class:`StartError`."""
        configuration, home = self.configuration.database_store, self.configuration.home_cluster
        if configuration is None:
            return None
        if self.configuration.shared_store is not None:
            limit = configuration.lock_renew_period
        elif home is not None and home.enhanced is not None:
            limit = max(1000, round(home.enhanced.patience_s * 1000))
        else:
            return None
        return self._make_database(replace(configuration, network_timeout=min(configuration.network_timeout, limit)), patient=False)

    def _database(self, configuration: DatabaseStoreConfiguration | None) -> Database | None:
        """Raises :class:`StartError`."""
        return None if configuration is None else self._make_database(configuration)

    def _make_database(self, configuration: DatabaseStoreConfiguration, patient: bool = True) -> Database:
        from mqbroker.process.databases import make_database
        from mqbroker.process.mounts import read_mounts

        try:
            return make_database(configuration, self.settings.base, read_mounts(), patient)
        except ValueError as error:
            raise StartError(str(error)) from error

    def _make_colocation(self) -> Colocation | None:
        if self.configuration.colocated is None:
            return None
        from mqbroker.colocation import Colocation

        def make_broker(settings: BrokerSettings, failed: Callable[[str], object], stop_wanted: Callable[[], object]) -> Broker:
            return Broker(settings, self._reactor, failed, stop_wanted, neighbours=self._neighbours)

        files = LocalFileSystem()
        return Colocation(self.settings, self.clock, files, self._make_runtime, self._defer_to_thread, make_broker, self.accept_in_process)

    def _process_voters(self) -> ProcessVoters | None:
        """The voters of a process that may have more than one broker; None in any other."""
        if self.configuration.colocated is None:
            return None
        from mqbroker.ha.replication.process_voters import ProcessVoters

        return ProcessVoters()

    def _network_watch(self) -> NetworkWatch | None:
        """Raises :class:`StartError`."""
        if not self.configuration.checks_network:
            return None
        from mqbroker.reachability import make_network_check

        try:
            return make_network_check(self.configuration, self.clock, self._reactor, self._defer_to_thread)
        except ValueError as error:
            raise StartError(str(error)) from error

    def _lock_proof(self) -> LockProof | None:
        """Raises :class:`StartError`."""
        policy = self.configuration.replication
        if policy is None or policy.manager is None:
            return None
        from mqbroker.lock_managers import make_lock_proof

        try:
            return make_lock_proof(policy, self.clock, self._reactor)
        except ValueError as error:
            raise StartError(str(error)) from error

    def _defer_to_thread(self, function: Callable[..., T], *args: Any) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), function, *args)

    def _read_file(self, path: str) -> bytes:
        return (self.settings.base / path).read_bytes()

    def _write_file(self, path: str, data: bytes) -> None:
        """Replace a file: afterwards it has the old content or the new one, whatever happens."""
        replace_file(self.settings.base / path, data)

    def _make_runtime(self) -> Runtime:
        from mqclient.twisted import TwistedRuntime

        return TwistedRuntime(self._reactor)

    def _make_listeners(self, server: ConnectingServer) -> Listeners:
        self.listeners = Listeners(server, self.settings, self._reactor, self._read_file)
        return self.listeners

    def _make_pages(self, observed: Observed) -> MonitoringPages:
        self.pages = MonitoringPages(self.settings, self._reactor, observed)
        return self.pages

    # --- what there is of it

    @property
    def store(self) -> Store:
        return self._life.active.store

    @property
    def messaging(self) -> Messaging:
        return self._life.active.messaging

    @property
    def server(self) -> Server:
        return self._life.active.server

    @property
    def registry(self) -> Registry:
        return self._life.active.registry

    @property
    def clustering(self) -> Clustering | None:
        return self._life.active.others.clustering

    @property
    def node_id(self) -> str:
        return self.store.node_id

    def figures(self) -> MetricsSource:
        return self._life.figures()

    @property
    def data_directory(self) -> Path | None:
        """The folder of the journal; None without persistence."""
        return data_directory(self.settings)

    @property
    def acceptors(self) -> list[Acceptor]:
        return self.listeners.acceptors

    @property
    def urls(self) -> list[str]:
        """The URLs of the acceptors."""
        return [url for acceptor in self.acceptors for url in acceptor.urls]

    # --- start

    @collection_paused()
    def start(self) -> None:
        """Start, and listen.  Raises :class:`StartError`; nothing is left open then."""
        for warning in self.settings.warnings:
            log.warn("{text}", text=str(warning))
        if self.configuration.checks_network:
            from mqbroker.reachability import remarks_of

            for remark in remarks_of(self.configuration):
                log.warn("{text}", text=remark)
        if self.configuration.shared_store is not None or self.configuration.replication is not None:
            from mqbroker.availability import refusal, start_warnings
            from mqbroker.process.mounts import read_mounts

            reason = refusal(self.settings, read_mounts())
            if reason is not None:
                raise StartError(reason)
            for remark in start_warnings(self.settings):
                log.warn("{text}", text=remark)
        self._life.start()
        if self._colocation is not None:
            self._colocation.begun()

    @property
    def state(self) -> str:
        """The state of its life, such as active or passive."""
        return self._life.state

    @property
    def is_active(self) -> bool:
        """Does the broker serve clients?"""
        return self._life.state == active.name

    def _activated(self) -> None:
        self._stop_looking()
        self._memory_return = MemoryReturn(self.clock, lambda: self._life.memory_size, trim_heap)
        self._memory_return.start()
        # After the start, because the loop stands while the journal is read.
        self._watch_loop()
        log.info("AMQ221007: Server is now active" if self._activation.role == "primary" else "AMQ221010: Backup Server is now active")
        log.info(
            "AMQ221001: Apache ActiveMQ Artemis compatible message broker mqbroker version {version} ({form}) [{name}, nodeID={node}]",
            version=__version__,
            form=running_form(),
            name=self.configuration.name,
            node=self.node_id,
        )
        if self._colocation is not None:
            self._colocation.activated(self.server)
        self._on_active()

    def _watch_loop(self) -> None:
        configuration = self.configuration
        timeout = configuration.critical_analyzer_timeout
        if not configuration.critical_analyzer or timeout <= 0:
            return
        period = configuration.critical_analyzer_check_period
        check = timeout / 2 if period is None or period <= 0 else period
        self._watch = WatchThread(self._reactor.callFromThread, timeout / 1000, check / 1000, self._loop_stalled)

    def _loop_stalled(self, reason: str) -> None:
        """Runs in the watching thread: an orderly stop needs the loop, which does not run."""
        policy = self.configuration.critical_analyzer_policy
        log.critical("AMQ224107: {reason}; the policy of the critical analyzer is {policy}", reason=reason, policy=policy)
        if policy != "LOG" and self._on_failure is not None:
            self._on_failure(f"critical analyzer: {reason}")

    def accept_in_process(self, number: int | None = None) -> int:
        """Take connections to ``vm://number`` (None = the first free number).  Returns the number; raises ValueError when it is taken."""
        return self.listeners.accept_in_process(number)

    # --- stop

    def stop(self) -> Deferred[None]:
        """Stop in order: clients are told, accepted messages are written.  With a graceful shutdown clients may end by themselves first.

        Hosted backups stop before: one of them may just give its messages to this broker.
        """
        if self._colocation is not None:
            return self._colocation.stop().addBoth(lambda _: self._stop())
        return self._stop()

    def _stop(self) -> Deferred[None]:
        if self._life.state != active.name:
            return self._life.stop()
        self._stop_looking()
        started_ms = self.server.started_ms

        def stopped(result: T) -> T:
            log.info(
                "AMQ221002: mqbroker version {version} [{node}] stopped, uptime {uptime:.3f} seconds",
                version=__version__,
                node=self.node_id,
                uptime=(self.clock.wall_ms() - started_ms) / 1000,
            )
            return result

        return self._life.stop().addBoth(stopped)

    @property
    def scales_down(self) -> bool:
        """Do the messages go to another broker when this one stops, or those of a hosted backup?"""
        hosted = self._colocation is not None and self._colocation.scales_down
        return hosted or (self._life.state in (active.name, leaving.name) and self._life.active.others.scales_down)

    def cut_short(self) -> None:
        """While the broker stops: move no more messages to another one, but leave them on the disk."""
        if self._colocation is not None:
            self._colocation.cut_short()
        if self._life.state in (active.name, leaving.name):
            self._life.active.others.cut_short()

    def _stop_looking(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._memory_return is not None:
            self._memory_return.stop()
            self._memory_return = None

    def _store_failed(self, reason: str) -> None:
        log.critical("AMQ222010: Critical IO Error, shutting down the server: {reason}", reason=reason)
        if self._on_failure is not None:
            self._on_failure(reason)
        self._stop_looking()
        if self._colocation is not None:
            self._colocation.stop()


def _disk_space(folders: Sequence[str]) -> list[DiskSpace]:
    usages = [(folder, shutil.disk_usage(folder)) for folder in folders]
    return [DiskSpace(folder, usage.free, usage.total) for folder, usage in usages]


def _disk_usage(folder: str) -> float:
    usage = shutil.disk_usage(folder)
    return usage.used / usage.total if usage.total else 0.0
