"""The backups of other brokers in this process, and the search for a host of the own one (Artemis manual, "Colocated Backup Servers")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.ha.colocated.folders import kept_node, node_in
from mqbroker.ha.colocated.hosted_configuration import FOLDERS, Hosted, HostingError, hosted_configuration, replica_folders
from mqbroker.ha.colocated.hosting import Hosting
from mqbroker.ha.colocated.requesting import HostSearch
from mqbroker.node.parts import StartError
from mqbroker.node.presence import open_side
from mqbroker.server.cluster_port import ColocatedFigures
from mqbroker.storage.errors import StorageError
from mqclient.wire.packets import BackupRequest

if TYPE_CHECKING:
    from mqbroker.cluster.membership.topology import ClusterTopology
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.messaging.ports import Clock
    from mqbroker.server.server import Server
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqclient.core.runtime import Runtime

PLACES_MAX = 1000
"""Numbers that hosted backups can have: their ports are further and further away."""

UNREADABLE = "(unreadable)"

log = Logger(namespace="mqbroker.ha")


class ProcessBroker(Protocol):
    """One broker of this process, as :class:`mqbroker.app.Broker` is one."""

    @property
    def state(self) -> str: ...

    @property
    def scales_down(self) -> bool: ...

    def start(self) -> None:
        """Raises StartError."""

    def stop(self) -> Deferred[None]: ...

    def cut_short(self) -> None: ...


class Colocation:
    """Implements :class:`mqbroker.ha.colocated.hosting.HostProcess`.

    ``make_broker(settings, failed, stop_wanted)`` makes a broker of this process.  ``accept`` takes connections from this process, under
    a number or the first free one, and returns the number.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        file_system: FileSystem,
        make_runtime: Callable[[], Runtime],
        defer_to_thread: Callable[..., Deferred[Any]],
        make_broker: Callable[[BrokerSettings, Callable[[str], object], Callable[[], object]], ProcessBroker],
        accept: Callable[[int | None], int],
    ) -> None:
        configuration = settings.configuration
        assert configuration.colocated is not None
        self._settings = settings
        self._policy = configuration.colocated
        self._make_runtime = make_runtime
        self._defer_to_thread = defer_to_thread
        self._make_broker = make_broker
        self._accept = accept
        self._file_system = file_system
        self._hosting = Hosting(self._policy, self, clock)
        self._brokers: list[ProcessBroker] = []
        self._in_process: int | None = None
        """The number of this broker in its process; None as long as no backup needs it."""
        self._side: ClusterSide | None = None
        self._search: HostSearch | None = None

    @property
    def figures(self) -> ColocatedFigures:
        return ColocatedFigures(None if self._search is None else self._search.host, self._hosting.figures)

    # --- life

    def begun(self) -> None:
        """The own broker has begun to start: host again what may be the newest copy of its node, or what its primary waits for.

        That cannot wait until the own broker is active: after an outage of all its proof may depend on the nodes of such copies.
        """
        configuration, scale_down = self._settings.configuration, self._policy.scale_down
        if configuration.replication is None or not (scale_down is None or not scale_down.enabled or scale_down.names_target):
            return  # with a shared store only the primary waits; and a target that is the own broker has to be there
        self._hosting.open()
        folder = self._path(configuration.node_manager_lock_directory or configuration.journal_directory)
        kept = self._defer_to_thread(lambda: self._find_kept(node_in(self._file_system, folder)))
        kept.addCallback(self._hosting.resume)
        kept.addErrback(lambda failure: log.failure("this broker does not know yet which backups it has hosted", failure))

    def activated(self, server: Server) -> None:
        """The own broker is active: it hosts backups from now on, and has its own one hosted.

        Not when it has become active while :meth:`stop` ends what it hosts: the own broker is stopped next.
        """
        if not self._hosting.open():
            return
        assert server.cluster is not None
        configuration, connections = self._settings.configuration, server.cluster.connections
        replication = configuration.replication
        name = next(iter(connections)) if replication is None or replication.cluster_name is None else replication.cluster_name
        topology: ClusterTopology = connections[name].topology  # type: ignore[assignment]
        if self._policy.scale_down is not None:
            self._be_reached_in_process()
        self._stop_asking()
        self._side = side = open_side(configuration, name, self._settings.etc or self._settings.base, self._make_runtime())
        if self._policy.request_backup:
            request = partial(self._request, server.node_id)
            self._search = HostSearch(side, self._policy, server.node_id, lambda: topology, request, lambda: server.started)
            self._search.register(server.cluster_channel)
            self._search.start()
        kept = self._defer_to_thread(self._find_kept, server.node_id)
        kept.addCallback(self._hosting.resume)
        kept.addCallback(lambda _: self._hosting.serve(server, topology, side))
        kept.addErrback(lambda failure: log.failure("this broker hosts no backups", failure))

    def _be_reached_in_process(self) -> None:
        try:
            self._in_process = self._accept(self._in_process)
        except ValueError as error:
            log.warn("hosted backups cannot scale down to this broker: {error}", error=error)

    def stop(self) -> Deferred[Any]:
        """End all hosted backups, and ask nobody any more.  Completes when everything is closed."""
        self._stop_asking()
        return self._hosting.stop()

    def _stop_asking(self) -> None:
        if self._search is not None:
            self._search.stop()
            self._search = None
        if self._side is not None:
            self._side.close()
            self._side = None

    @property
    def scales_down(self) -> bool:
        """Does a hosted backup give its messages away when it stops?"""
        return any(broker.scales_down for broker in self._brokers)

    def cut_short(self) -> None:
        for broker in self._brokers:
            if broker.scales_down:
                broker.cut_short()

    def _request(self, node_id: str, count: int) -> BackupRequest:
        """The request to a host that has told ``count``."""
        configuration = self._settings.configuration
        if configuration.shared_store is None:
            return BackupRequest(count, None, None, None, None, node_id)
        journal, bindings, large_messages, paging = (self._path(getattr(configuration, name)) for name in FOLDERS)
        return BackupRequest(count, journal, bindings, large_messages, paging, node_id)

    def _path(self, folder: str) -> str:
        return str((self._settings.base / folder).absolute())

    # --- hosted backups

    def find_place(self, node_id: str, folders: Mapping[str, str] | None, taken: Collection[int]) -> Deferred[Hosted]:
        return self._defer_to_thread(self._find_place, node_id, folders, frozenset(taken))

    def _find_place(self, node_id: str, folders: Mapping[str, str] | None, taken: Collection[int]) -> Hosted:
        free = [number for number in range(1, PLACES_MAX + 1) if number not in taken]
        if folders is None:
            free = self._replica_places(node_id, free)
        else:
            self._check_shared(node_id, folders["journal_directory"])
        if not free:
            raise HostingError("every place has a copy of another node")
        return Hosted(free[0], node_id, folders)

    def _check_shared(self, node_id: str, journal: str) -> None:
        """A folder of the same name that is another one would look like that of a node which never ran, and the backup wait for ever."""
        try:
            found = node_in(self._file_system, journal)
        except (StorageError, OSError) as error:
            raise HostingError(str(error)) from error
        if found != node_id:
            raise HostingError(f"{journal} is not the folder of {node_id} on this machine (it has {found or 'no node'}); is it shared?")

    def _replica_places(self, node_id: str, free: list[int]) -> list[int]:
        """The best place first: what another node may need stays, and what there is of the own one is used."""
        found = []
        for number in free:
            kept = self._kept(number)
            if kept == node_id:
                return [number]
            if kept is None:
                found.append(number)
                if not self._file_system.exists(self._replica_journal(number)):
                    break  # nothing was ever hosted here, nor behind it
        return found

    def _replica_journal(self, number: int) -> str:
        return self._path(replica_folders(self._settings.configuration, number)["journal_directory"])

    def _kept(self, number: int) -> str | None:
        """The node that may need what is in this place; :data:`UNREADABLE` when nobody can tell."""
        try:
            return kept_node(self._file_system, self._replica_journal(number))
        except (StorageError, OSError) as error:
            log.warn("the place of the hosted backup {number} is left alone: {error}", number=number, error=error)
            return UNREADABLE

    def _find_kept(self, own: str | None) -> list[Hosted]:
        """The places of complete copies of other nodes; a shared store needs none."""
        found: list[Hosted] = []
        if self._settings.configuration.replication is None:
            return found
        for number in range(1, PLACES_MAX + 1):
            if not self._file_system.exists(self._replica_journal(number)):
                break
            kept = self._kept(number)
            if kept not in (None, UNREADABLE, own, *(each.node_id for each in found)):
                found.append(Hosted(number, str(kept), None))
        return found

    def keeps(self, hosted: Hosted) -> Deferred[bool]:
        if hosted.folders is not None:
            return succeed(True)  # the store of its primary
        return self._defer_to_thread(lambda: self._kept(hosted.number) in (hosted.node_id, UNREADABLE))

    def start(self, hosted: Hosted, left: Callable[[str], object], failed: Callable[[str], object]) -> ProcessBroker:
        configuration = hosted_configuration(self._settings.configuration, hosted, self._in_process)
        settings = replace(self._settings, configuration=configuration, web=(), warnings=())
        try:
            broker = self._make_broker(settings, failed, lambda: left("it has given way, or was stopped"))
            broker.start()
        except StartError as error:
            raise HostingError(str(error)) from error
        self._brokers = [*(each for each in self._brokers if each.state != "stopped"), broker]
        return broker
