"""A broker hosts backups of others in its process.

Source: the Artemis manual, "Colocated Backup Servers"; ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger

from mqbroker.cluster.membership.votes import HOSTED, OFFER_VOTE, WANTED_VOTE, Offer, wanted_question
from mqbroker.config.model.cluster import ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.ha.colocated.hosted_configuration import FOLDERS, Hosted, HostingError, hosted_name
from mqbroker.ha.replication.one_question import ask_once
from mqbroker.server.cluster_port import HostedFigures
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqclient.wire.packets import REASON_SCALE_DOWN, BackupRequest, BackupRequestResponse, DisconnectV3, Packet
from mqclient.wire.primitives import Decoder

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.config.model.cluster import ColocatedConfiguration
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.server.server import Server
    from mqbroker.server.transport.connection import ServerConnection
    from mqclient.protocol.topology import Topology
    from mqclient.wire.primitives import TransportConfiguration

LOOK_SECONDS = 30.0
"""Between two looks at backups whose primaries have no connection to this broker."""

PASSIVE = "passive"
"""The state of a broker that waits."""

log = Logger(namespace="mqbroker.ha")


class HostedBroker(Protocol):
    """A backup that runs in this process."""

    @property
    def state(self) -> str:
        """active, passive and so on."""

    def stop(self) -> Deferred[None]: ...


class HostProcess(Protocol):
    """The process in which backups are hosted."""

    def find_place(self, node_id: str, folders: dict[str, str] | None, taken: Collection[int]) -> Deferred[Hosted]:
        """The place for a backup of ``node_id`` beside those with the numbers ``taken``.  Fails with HostingError where there is none."""

    def start(self, hosted: Hosted, ended: Callable[[str], object]) -> HostedBroker:
        """Start a backup.  ``ended`` is called with the reason when it is to run no longer.  Raises HostingError."""


class _Backup:
    """One hosted backup, also while it is being started and stopped."""

    def __init__(self, number: int) -> None:
        self.number = number
        """0 while its place is looked for."""
        self.broker: HostedBroker | None = None
        self.asker: ServerConnection | None = None
        """The connection over which it was asked for last; its end tells the other broker that the backup is there no longer."""
        self.ends = False
        self.waiting: list[Deferred[None]] = []
        """Results that complete when it has ended."""

    @property
    def waits(self) -> bool:
        """Is it passive?"""
        return self.broker is not None and not self.ends and self.broker.state == PASSIVE


class Hosting:
    """The backups in one process, from the first request until :meth:`stop`."""

    def __init__(self, configuration: ColocatedConfiguration, process: HostProcess, clock: Clock) -> None:
        self._configuration = configuration
        self._side: ClusterSide
        self._timer: Cancellable | None = None
        self._process = process
        self._clock = clock
        self._backups: dict[str, _Backup] = {}
        """By the node id of their primaries."""
        self._stopped = False
        self._stops = 0
        """Calls of :meth:`stop` that are not over."""
        self._server: Server
        self._topology: Topology

    def open(self) -> bool:
        """Take requests again after :meth:`stop`, from the next :meth:`serve` on.  Not while that still ends backups: False then."""
        if not self._stops:
            self._stopped = False
        return not self._stops

    def resume(self, found: Iterable[Hosted]) -> None:
        """Host again what this process has hosted before its last end: a copy that is complete may be the newest one of its node."""
        for hosted in found:
            if hosted.node_id not in self._backups and len(self._backups) < self._configuration.max_backups and not self._stopped:
                backup = self._backups[hosted.node_id] = _Backup(hosted.number)
                try:
                    self._begin(backup, hosted)
                except HostingError as error:
                    del self._backups[hosted.node_id]
                    log.warn("the backup of {node} cannot be hosted again: {error}", node=hosted.node_id, error=error)

    def serve(self, server: Server, topology: Topology, side: ClusterSide) -> None:
        """This broker is active: take requests of the members in ``topology``, which are reached as ``side`` says."""
        if self._stopped:
            return
        self._server, self._topology, self._side = server, topology, side
        self._look_later()
        server.cluster_channel.register_vote(OFFER_VOTE, self._offer)
        server.cluster_channel.register(BackupRequest, self._asked)

    @property
    def figures(self) -> list[HostedFigures]:
        """What management shows."""
        return [
            HostedFigures(hosted_name(backup.number), node_id, "starting" if backup.broker is None else backup.broker.state)
            for node_id, backup in self._backups.items()
            if backup.number
        ]

    def stop(self) -> Deferred[Any]:
        """End all backups.  Completes when everything is closed."""
        self._stopped = True
        self._stops += 1
        self._look_no_more()

        def over(result: Any) -> Any:
            self._stops -= 1
            return result

        return gatherResults([self._end(node_id) for node_id in list(self._backups)], consumeErrors=True).addBoth(over)

    # --- requests

    def _offer(self, connection: ServerConnection, vote: bytes) -> bytes:
        asked, own = Offer.decode(vote), self._server.node_id
        ours = connection.product == PRODUCT
        if ours and self._hosts(asked.node_id):
            return Offer(HOSTED, own, True).encode()
        count = len(self._backups)
        return Offer(count, own, ours and not self._stopped and count < self._configuration.max_backups).encode()

    def _hosts(self, node_id: str | None) -> bool:
        backup = self._backups.get(node_id or "")
        return backup is not None and backup.broker is not None and not backup.ends

    def _asked(self, connection: ServerConnection, packet: BackupRequest) -> Packet | Deferred[Packet]:
        node_id = packet.node_id or ""
        if connection.product == PRODUCT and self._hosts(node_id):
            self._backups[node_id].asker = connection
            return BackupRequestResponse(True)
        try:
            folders = self._check(connection, packet)
        except HostingError as error:
            return self._refused(node_id, str(error))
        backup = self._backups[node_id] = _Backup(0)
        placed = self._process.find_place(node_id, folders, [each.number for each in self._backups.values()])
        started: Deferred[Packet] = placed.addCallback(partial(self._start, backup, connection))
        return started.addErrback(partial(self._failed, node_id))

    def _check(self, connection: ServerConnection, packet: BackupRequest) -> dict[str, str] | None:
        """The folders of the backup, None for one with a copy of its own.  Raises HostingError with the reason for a refusal."""
        policy, count = self._configuration, len(self._backups)
        if connection.product != PRODUCT:
            raise HostingError("it is a Java broker, whose journal is another one")
        if not packet.node_id or packet.node_id == self._server.node_id:
            raise HostingError("it does not say which node it is")
        if packet.node_id in self._backups or self._stopped:
            raise HostingError("a backup of this node is just being started, or ends")
        if packet.backup_size != count or count >= policy.max_backups:
            raise HostingError(f"it was told of {packet.backup_size} backups, there are {count}, and max-backups is {policy.max_backups}")
        if (packet.journal_directory is not None) != isinstance(policy.backup, SharedStoreConfiguration):
            raise HostingError("one of the two has a shared store, and the other one replication")
        if isinstance(policy.backup, ReplicationConfiguration):
            member = self._topology.get(packet.node_id)
            group = None if member is None else member.backup_group_name
            if group != policy.backup.group_name:
                raise HostingError(f"its group-name is {group}, and that of hosted backups is {policy.backup.group_name}")
            return None
        folders = {name: getattr(packet, name) or "" for name in FOLDERS}
        if not all(folder.startswith("/") for folder in folders.values()):
            raise HostingError("its folders are not absolute")
        return folders

    def _start(self, backup: _Backup, connection: ServerConnection, hosted: Hosted) -> BackupRequestResponse:
        if self._stopped:
            raise HostingError("this broker stops")
        backup.number, backup.asker = hosted.number, connection
        self._begin(backup, hosted)
        return BackupRequestResponse(True)

    def _begin(self, backup: _Backup, hosted: Hosted) -> None:
        """Raises HostingError."""
        what = "AMQ221049: Activating Replica" if hosted.folders is None else "AMQ221050: Activating Shared Store Backup"
        log.info("{what} for node: {node}, as {name}", what=what, node=hosted.node_id, name=hosted.name)
        backup.broker = self._process.start(hosted, partial(self._ended, hosted.node_id, backup))

    def _failed(self, node_id: str, failure: Failure) -> BackupRequestResponse:
        del self._backups[node_id]
        if not isinstance(failure.value, HostingError):
            log.failure("a backup of {node} cannot be hosted", failure, node=node_id)
        return self._refused(node_id, failure.getErrorMessage())

    def _refused(self, node_id: str, reason: str) -> BackupRequestResponse:
        log.info("this broker does not host a backup of {node}: {reason}", node=node_id[:100] or "(nobody)", reason=reason)
        return BackupRequestResponse(False)

    # --- backups that nobody needs

    def _look_later(self) -> None:
        self._look_no_more()
        self._timer = self._clock.call_later(LOOK_SECONDS, self._look)

    def _look_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """A primary that had lost this broker may have its backup elsewhere now."""
        self._look_later()
        for node_id, backup in self._backups.items():
            member = self._topology.get(node_id)
            forgotten = backup.asker is None or backup.asker.closed
            if forgotten and backup.waits and member is not None and member.primary is not None:
                self._ask_whether_wanted(node_id, backup, member.primary)

    def _ask_whether_wanted(self, node_id: str, backup: _Backup, place: TransportConfiguration) -> None:
        def answered(answer: bytes) -> None:
            if answer and not Decoder(answer, WANTED_VOTE).boolean() and backup.waits:
                self._ended(node_id, backup, "its primary has another one")

        question = wanted_question(self._server.node_id)
        asked = Deferred.fromCoroutine(ask_once(self._side, place, lambda java: None if java else (WANTED_VOTE, question)))
        asked.addCallback(answered).addErrback(lambda failure: log.debug("no answer of {node}: {why}", node=node_id, why=failure.value))

    # --- the end

    def _ended(self, node_id: str, backup: _Backup, reason: str) -> None:
        """A hosted broker has failed, or has given way to its primary; it is in the middle of its work now."""
        log.info("the hosted backup of {node} ends: {reason}", node=node_id, reason=reason)

        def end() -> None:
            if self._backups.get(node_id) is backup:
                self._end(node_id)

        self._clock.call_later(0, end)

    def _end(self, node_id: str) -> Deferred[None]:
        """Completes when the backup has left nothing open."""
        backup = self._backups[node_id]
        if backup.broker is None:
            return succeed(None)  # it is not started any more
        over: Deferred[None] = Deferred()
        backup.waiting.append(over)

        def ended(result: object) -> None:
            del self._backups[node_id]
            asker = backup.asker
            if asker is not None and not asker.closed:
                asker.server.turn.run(asker.disconnect, DisconnectV3(asker.server.node_id, REASON_SCALE_DOWN, None))
            for each in backup.waiting:
                each.callback(None)

        if not backup.ends:
            backup.ends = True
            backup.broker.stop().addBoth(ended)
        return over
