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

AGAIN_SECONDS, AGAIN_SECONDS_MAX = 1.0, 60.0
"""Until a backup that has ended by itself is started again; twice as long after each further end, up to the second one."""

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

    def start(self, hosted: Hosted, left: Callable[[str], object], failed: Callable[[str], object]) -> HostedBroker:
        """Start a backup.

        ``left`` is called with the reason when it is to run no longer, ``failed`` when it cannot go on.  Raises HostingError.
        """

    def keeps(self, hosted: Hosted) -> Deferred[bool]:
        """May a backup that has ended have what its node needs?"""


class _Backup:
    """One hosted backup, also while it is being started and stopped."""

    def __init__(self, number: int) -> None:
        self.number = number
        """0 while its place is looked for."""
        self.hosted: Hosted | None = None
        """None while its place is looked for."""
        self.broker: HostedBroker | None = None
        self.asker: ServerConnection | None = None
        """The connection over which it was asked for last; its end tells the other broker that the backup is there no longer."""
        self.ends = False
        self.waiting: list[Deferred[None]] = []
        """Results that complete when it has ended."""
        self.begun = 0.0
        """Monotonic time of its last start."""
        self.pause = AGAIN_SECONDS
        """Until the next start, if it ends by itself."""
        self.problem = ""
        """Why it has failed, as the log has it."""
        self.is_to_return = False
        """Has it ended, and is it started again?"""
        self.return_timer: Cancellable | None = None

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
        """By the node id of their primaries; also those that have ended and are started again."""
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
                self._host_again(backup, hosted)

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
        """The hosted backups as management shows them."""
        return [
            HostedFigures(hosted_name(backup.number), node_id, self._state(backup))
            for node_id, backup in self._backups.items()
            if backup.number
        ]

    @staticmethod
    def _state(backup: _Backup) -> str:
        if backup.is_to_return:
            return "failed" if backup.problem else "ended"
        return "starting" if backup.broker is None else backup.broker.state

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
        count = self._count_beside(asked.node_id)
        return Offer(count, own, ours and not self._stopped and count < self._configuration.max_backups).encode()

    def _hosts(self, node_id: str | None) -> bool:
        backup = self._backups.get(node_id or "")
        return backup is not None and backup.broker is not None and not backup.ends

    def _count_beside(self, node_id: str | None) -> int:
        """The backups beside one of ``node_id`` that has ended: its primary may ask for it, and need not wait until it is started again."""
        own = self._backups.get(node_id or "")
        return len(self._backups) - (own is not None and own.is_to_return)

    def _asked(self, connection: ServerConnection, packet: BackupRequest) -> Packet | Deferred[Packet]:
        node_id = packet.node_id or ""
        if connection.product == PRODUCT and self._hosts(node_id):
            self._backups[node_id].asker = connection
            return BackupRequestResponse(True)
        try:
            folders = self._check(connection, packet)
        except HostingError as error:
            return self._refused(node_id, str(error))
        if node_id in self._backups:
            self._forget(node_id)
        backup = self._backups[node_id] = _Backup(0)
        placed = self._process.find_place(node_id, folders, [each.number for each in self._backups.values()])
        started: Deferred[Packet] = placed.addCallback(partial(self._start, backup, connection))
        return started.addErrback(partial(self._failed, node_id))

    def _check(self, connection: ServerConnection, packet: BackupRequest) -> dict[str, str] | None:
        """The folders of the backup, None for one with a copy of its own.  Raises HostingError with the reason for a refusal."""
        policy, count = self._configuration, self._count_beside(packet.node_id)
        if connection.product != PRODUCT:
            raise HostingError("it is a Java broker, whose journal is another one")
        if not packet.node_id or packet.node_id == self._server.node_id:
            raise HostingError("it does not say which node it is")
        known = self._backups.get(packet.node_id)
        if (known is not None and not known.is_to_return) or self._stopped:
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
        if any(each.number == hosted.number for each in self._backups.values()):
            raise HostingError("another backup has got its place meanwhile")
        backup.number, backup.asker = hosted.number, connection
        self._begin(backup, hosted)
        return BackupRequestResponse(True)

    def _begin(self, backup: _Backup, hosted: Hosted) -> None:
        """Raises HostingError."""
        what = "AMQ221049: Activating Replica" if hosted.folders is None else "AMQ221050: Activating Shared Store Backup"
        if not backup.problem:
            log.info("{what} for node: {node}, as {name}", what=what, node=hosted.node_id, name=hosted.name)
        backup.hosted, backup.begun = hosted, self._clock.monotonic()
        backup.broker = self._process.start(hosted, partial(self._left, hosted, backup), partial(self._lost, hosted, backup))

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
            if forgotten and (backup.waits or backup.is_to_return) and member is not None and member.primary is not None:
                self._ask_whether_wanted(node_id, backup, member.primary)

    def _ask_whether_wanted(self, node_id: str, backup: _Backup, place: TransportConfiguration) -> None:
        def answered(answer: bytes) -> None:
            if answer and not Decoder(answer, WANTED_VOTE).boolean() and (backup.waits or backup.is_to_return):
                self._end_later(node_id, backup, "its primary has another one", False)

        question = wanted_question(self._server.node_id)
        asked = Deferred.fromCoroutine(ask_once(self._side, place, lambda java: None if java else (WANTED_VOTE, question)))
        asked.addCallback(answered).addErrback(lambda failure: log.debug("no answer of {node}: {why}", node=node_id, why=failure.value))

    # --- backups that are needed, and have ended

    def _host_again(self, backup: _Backup, hosted: Hosted) -> None:
        backup.is_to_return = False
        try:
            self._begin(backup, hosted)
        except HostingError as error:
            self._tell(backup, hosted, str(error))
            self._return_later(backup, hosted)

    def _tell(self, backup: _Backup, hosted: Hosted, problem: str) -> None:
        if problem != backup.problem:
            log.critical("the hosted backup {name} cannot go on, and is started again: {reason}", name=hosted.name, reason=problem)
            backup.problem = problem

    def _return_later(self, backup: _Backup, hosted: Hosted) -> None:
        """Nobody else asks for the backup of a primary that has gone; its place stays taken, since it may have the newest copy."""
        backup.is_to_return = True
        backup.return_timer = self._clock.call_later(backup.pause, self._return, backup, hosted)
        backup.pause = min(backup.pause * 2, AGAIN_SECONDS_MAX)

    def _return(self, backup: _Backup, hosted: Hosted) -> None:
        backup.return_timer = None

        def known(keeps: bool) -> None:
            if self._backups.get(hosted.node_id) is not backup:
                return  # this broker stops, or the primary has asked
            if keeps:
                self._host_again(backup, hosted)
            else:
                self._forget(hosted.node_id)

        self._process.keeps(hosted).addCallback(known).addErrback(partial(self._failed, hosted.node_id))

    def _forget(self, node_id: str) -> None:
        backup = self._backups.pop(node_id)
        if backup.return_timer is not None:
            backup.return_timer.cancel()
            backup.return_timer = None

    # --- the end

    def _left(self, hosted: Hosted, backup: _Backup, reason: str) -> None:
        """A copy may be the newest one still, if nobody could take over; a primary asks anew in any case."""
        self._begin_pauses_anew(backup)
        self._end_later(hosted.node_id, backup, reason, hosted.folders is None)

    def _lost(self, hosted: Hosted, backup: _Backup, reason: str) -> None:
        self._begin_pauses_anew(backup)
        self._tell(backup, hosted, reason)
        self._end_later(hosted.node_id, backup, reason, True)

    def _begin_pauses_anew(self, backup: _Backup) -> None:
        """After a backup has run for a while: its end has another cause than the last one."""
        if self._clock.monotonic() - backup.begun >= AGAIN_SECONDS_MAX:
            backup.pause, backup.problem = AGAIN_SECONDS, ""

    def _end_later(self, node_id: str, backup: _Backup, reason: str, returns: bool) -> None:
        """A hosted broker is in the middle of its work now."""
        if reason != backup.problem:
            log.info("the hosted backup of {node} ends: {reason}", node=node_id, reason=reason)

        def end() -> None:
            if self._backups.get(node_id) is backup:
                self._end(node_id, returns)

        self._clock.call_later(0, end)

    def _end(self, node_id: str, returns: bool = False) -> Deferred[None]:
        """Completes when the backup has left nothing open."""
        backup = self._backups[node_id]
        if backup.is_to_return:
            self._forget(node_id)
        if backup.broker is None:
            return succeed(None)  # it is not started any more
        over: Deferred[None] = Deferred()
        backup.waiting.append(over)

        def ended(result: object) -> None:
            asker, hosted = backup.asker, backup.hosted
            backup.asker = None
            backup.broker = None
            backup.ends = False
            if returns and hosted is not None and not self._stopped:
                self._return_later(backup, hosted)
            else:
                del self._backups[node_id]
            if asker is not None and not asker.closed:
                asker.server.turn.run(asker.disconnect, DisconnectV3(asker.server.node_id, REASON_SCALE_DOWN, None))
            waiting, backup.waiting = backup.waiting, []
            for each in waiting:
                each.callback(None)

        if not backup.ends:
            backup.ends = True
            backup.broker.stop().addBoth(ended)
        return over
