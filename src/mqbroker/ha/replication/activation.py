"""The activation of a broker of a pair: it seeks the proof that it may be active, or follows the one that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.cluster.membership.votes import connector_text as shown_to_java
from mqbroker.ha.proof.meeting import MEETING, Standing
from mqbroker.ha.proof.ports import Introduction, Purpose
from mqbroker.ha.proof.rules import ProofRules
from mqbroker.ha.proof.seeking import Seeker
from mqbroker.ha.proof.seeking_machine import holding, passive
from mqbroker.ha.replication.active_side import ActiveSide
from mqbroker.ha.replication.backup import ClusterSide
from mqbroker.ha.replication.claim import CopyFolder
from mqbroker.ha.replication.kept_voters import kept_voters
from mqbroker.ha.replication.network import ProofNetwork
from mqbroker.ha.replication.own_copy import OwnCopy
from mqbroker.ha.replication.passive_side import PassiveSide
from mqbroker.ha.replication.primary import ALREADY_REPLICATING, ReplicatedPrimary
from mqbroker.ha.replication.process_voters import ProcessVoters
from mqbroker.server.cluster_port import CopyFigures
from mqbroker.storage.errors import StorageError
from mqclient.errors import MalformedPacketError
from mqclient.wire.packets import BackupRegistration, BackupRegistrationFailed

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.locks.proof import LockProof
    from mqbroker.ha.proof.copy_keeper import CopyKeeper
    from mqbroker.messaging.ports import Clock, Store
    from mqbroker.server.server import Server
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings
    from mqclient.wire.primitives import TransportConfiguration

NOT_READ = ("nobody",)
"""Voters that never answer."""

log = Logger(namespace="mqbroker.ha")


class Candidate(Protocol):
    """The broker that wants to be active."""

    def granted(self) -> None:
        """The candidate may load the store, and serve."""

    def lost(self, reason: str) -> None:
        """The candidate may not, and writes nothing more."""

    def give_way(self, again: bool) -> None:
        """Another broker is to be active: stop in order, and then seek once more if ``again``."""

    def start_again(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """If it is active: acknowledge nothing more, write nothing more, and seek once more; if it stops already, end that at once.

        Its acceptors go over without a gap to what :meth:`take_brokers` says.
        """

    def take_brokers(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """Open the acceptors for what other brokers ask on the cluster channel, until the candidate is active."""

    def take_nobody(self) -> Deferred[Any]:
        """Close these acceptors; completes when the ports are free."""


class ReplicationActivation:
    """Implements :class:`mqbroker.node.activation.Activation` and :class:`mqbroker.ha.proof.ports.Owner`.

    ``open_side`` gives the ways to other brokers.  ``lock`` keeps changes of files together with what is told of them, and ``call`` lets
    another thread call on the loop.  ``network_answers`` and ``locks`` are those of :class:`mqbroker.ha.proof.seeking.Seeker`.
    ``neighbours`` are the voters of this process; None: no other broker runs in it.
    """

    def __init__(
        self,
        policy: ReplicationConfiguration,
        clock: Clock,
        entropy: Callable[[int], bytes],
        open_side: Callable[[], ClusterSide],
        lock: AbstractContextManager[object],
        call: Callable[[Callable[[], object]], object],
        network_answers: Callable[[], Deferred[bool]] | None = None,
        locks: LockProof | None = None,
        neighbours: ProcessVoters | None = None,
    ) -> None:
        self._policy = policy
        self._rules = ProofRules.of(policy)
        self._clock = clock
        self._entropy = entropy
        self._open_side = open_side
        self._lock = lock
        self._network_answers = network_answers
        self._locks = locks
        self._neighbours = ProcessVoters() if neighbours is None else neighbours
        self._own = own = OwnCopy(clock)
        self._network: ProofNetwork
        self._candidate: Candidate | None = None
        self._active = ActiveSide(policy, own, clock, call, self.answer, self._fail_back, self._meet, self.end_clients, self._neighbours)
        self._passive = PassiveSide(policy, own, clock, self.answer, self.refused, self._renamed)
        self._keeps_seeking = False
        """The present activation ends now, and the search for the proof does not."""
        self.gives_away = False
        self._fails_back = False
        """Has this activity ended so that its replica goes on?"""
        self._gave_all = False
        """Has everything gone to another broker, since this one was active last?"""
        self._closing: Deferred[None] = succeed(None)
        """Completes when the files of the replica are closed."""
        self._kept: Sequence[str] = NOT_READ
        """The voters, as this copy had them when it began to seek or was active last."""

    # --- the activation

    @property
    def role(self) -> str:
        return "backup" if self._policy.backup else "primary"

    @property
    def state(self) -> str:
        """The present wait of a passive broker, in few words."""
        keeper = self._own.keeper
        if keeper is None or self._own.seeker is None:
            return ""
        record = keeper.record
        if self._own.seeker.state != passive.name:
            return f"{self.role}, {self._own.seeker.state}, sequence {record.sequence}"
        if self._gave_all:
            return f"{self.role}, has given everything away, sequence {record.sequence}"
        copied = "following nobody" if self._taken is None else "in sync" if self._in_sync(keeper) else f"{self._taken >> 20} MiB copied"
        return f"{self.role}, {record.state.value}, sequence {record.sequence}, {copied}"

    @property
    def copies(self) -> CopyFigures | None:
        if self._own.keeper is None:
            return None
        sequence = self._own.keeper.record.sequence
        if self.primary is None:
            return CopyFigures(sequence, self._in_sync(self._own.keeper), self._taken, None)
        primary = self.primary
        copied, size = (None, None) if primary.progress is None else primary.progress
        return CopyFigures(sequence, primary.is_replica_in_sync, copied, size, primary.behind)

    @staticmethod
    def _in_sync(keeper: CopyKeeper) -> bool:
        """Is this replica in sync, and does its disk say so?"""
        return keeper.in_sync and keeper.record.complete

    @property
    def primary(self) -> ReplicatedPrimary | None:
        """The active side; None while this broker is passive."""
        return self._active.primary

    @property
    def _taken(self) -> int | None:
        backup = self._passive.backup
        return None if backup is None else backup.taken

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        """The file system of the next start's store.  Raises StorageError for folders that lie in each other."""
        return self._own.files(file_system, settings, self._lock)

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> CopyFolder:
        return self._own.claim(directory, writer, self._policy)

    def seek(self, candidate: Candidate) -> None:
        self._candidate = candidate
        if self._own.seeker is not None and self._own.seeker.state != passive.name:
            # The search has gone on since the last activation, and may be over.
            self._take_brokers()
            self._activate()
            return
        try:
            self._open()
        except (StorageError, OSError) as error:
            candidate.lost(str(error))
            return
        keeper, seeker = self._own.keeper, self._own.seeker
        fails_back, self._fails_back = self._fails_back, False
        # A replica that had everything, too, goes on in the place of this copy, or is met as at any start.
        self._gave_all = self._gave_all and keeper is not None and keeper.record.complete and not keeper.record.shared
        if self._gave_all:
            # Only the other copy needs this one, and it comes by itself: what it has was given away meanwhile.
            self._take_brokers()
        elif keeper is not None and keeper.record.complete and seeker is not None:
            seeker.seek(Purpose.COME_BACK if fails_back else Purpose.START)
        else:
            self._follow_silently()

    def _open(self) -> None:
        own = self._own
        own.open_record(self._entropy, self._policy.backup, self.failed)
        if own.side is None:
            own.side = self._open_side()
        if own.seeker is None:
            self._make_seeker()
            if self._locks is not None:
                self._locks.open(self._lock_lost)

    def _lock_lost(self, reason: str) -> None:
        if self._own.seeker is not None:
            self._own.seeker.lock_lost(reason)

    def _make_seeker(self) -> None:
        own = self._own
        keeper, side = own.keeper, own.side
        assert keeper is not None and side is not None
        self._network = network = ProofNetwork(side, self._ask_over_link, self._neighbours.ask, self._connector_of_node)
        shown = shown_to_java(side.own)
        own.seeker = Seeker(
            keeper,
            own.folder.node_id,
            self._rules,
            self._voters,
            network,
            self,
            self._clock,
            self._entropy,
            shown,
            self._network_answers,
            self._locks,
        )

    def _renamed(self) -> None:
        self._network.close()
        self._make_seeker()

    def cease(self) -> None:
        self._passive.stop()
        self._active.stop()
        self._candidate = None
        self._own.writer = None
        if self._keeps_seeking:
            self._keeps_seeking = False
            return
        if self._own.seeker is not None:
            self._own.seeker.cease()
            self._own.seeker = None
            self._network.close()
            if self._locks is not None:
                self._locks.close()
        self._own.keeper = None
        if self._own.side is not None:
            self._own.side.close()
            self._own.side = None

    # --- an active broker

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        """The broker is active: take replicas, answer the other copies, and vote for other nodes."""
        self.gives_away = self._policy.backup and not self._gave_all
        self._gave_all = False
        self._active.serve(server, store, kept)

    def leave(self) -> None:
        """The broker begins an orderly stop."""
        self._kept = self._voters()
        self._active.leave()

    def hand_over(self) -> None:
        """Every orderly stop but that of :meth:`hold_back` lets a replica in sync take over."""

    def hold_back(self) -> None:
        """The replica is told nothing; as after any other loss of its active broker it takes over if it gets the proof."""
        self._active.holds_back = True

    def retire(self) -> None:
        self._give_way()

    def gave_away(self, complete: bool) -> None:
        self._gave_all = complete and self._policy.backup

    def let_go(self, done: Callable[[], object]) -> None:
        """All work is written: let a replica in sync take over, then call ``done``."""
        self._active.let_go(done if self._locks is None else partial(self._locks.release, done))

    def _fail_back(self) -> None:
        self._fails_back = True
        self._give_way()

    def _give_way(self) -> None:
        if self._candidate is not None:
            self._candidate.give_way(self._policy.restart_backup)

    # --- the owner of the proof

    def begin_seeking(self) -> Deferred[None]:
        self._closing = self._passive.close_files()
        if self._locks is not None or self._own.keeper is None or self._own.keeper.record.other is None:
            return succeed(None)
        self._take_brokers()
        return self._read_voters()

    def _read_voters(self) -> Deferred[None]:
        """The disk writer reads them: it may be still busy with what the active broker has sent last."""
        own = self._own
        known: Deferred[None] = Deferred()
        found: list[Sequence[str]] = []

        def done(error: Exception | None) -> None:
            if error is not None:
                self.failed(f"the voters of this node cannot be read: {error}")
                return
            [self._kept] = found
            known.callback(None)

        own.submit([lambda: found.append(kept_voters(own.inner, own.settings))], done)
        return known

    def look_around(self) -> None:
        if self.primary is None:
            self._passive.look_around()

    def _take_brokers(self) -> None:
        if self._candidate is not None:
            self._candidate.take_brokers(self._own.folder.node_id, self._register)

    def end_clients(self) -> None:
        if self._candidate is not None:
            self._kept = self._voters()
            self._keeps_seeking = True
            self._candidate.start_again(self._own.folder.node_id, self._register)
            self._keeps_seeking = False

    def granted(self, sequence: int, text: str) -> None:
        if self.primary is not None:
            self.primary.go_on()
            return
        self._passive.stop()
        # Acceptors stay open for the other copy: a place where nobody listens looks as if nobody were active.
        self._closing.addCallback(lambda _: self._activate()).addErrback(self._defect)

    def _activate(self) -> None:
        if self._candidate is not None and self._own.seeker is not None and self._own.seeker.state == holding.name:
            self._candidate.granted()

    def _follow_silently(self) -> Deferred[Any]:
        """A replica listens nowhere."""
        closed = succeed(None) if self._candidate is None else self._candidate.take_nobody()
        return closed.addCallback(lambda _: self._follow())

    def _follow(self) -> None:
        if self._candidate is not None:
            self._passive.follow()

    def refused(self, reason: str, other: Standing | None) -> None:
        if self._candidate is not None and self.primary is None:
            self._closing.addCallback(lambda _: self._follow_silently()).addErrback(self._defect)

    def _defect(self, failure: Failure) -> None:
        log.failure("this broker can neither be active nor follow another one", failure)
        self.failed(failure.getErrorMessage())

    def stop_copying(self) -> None:
        self._passive.rest()

    def failed(self, reason: str) -> None:
        if self._candidate is not None:
            self._candidate.lost(reason)

    # --- what other brokers ask

    def _register(self, channel: ClusterChannel) -> None:
        channel.register_vote(MEETING, self._asked)
        channel.register(BackupRegistration, lambda connection, packet: BackupRegistrationFailed(ALREADY_REPLICATING))

    def _asked(self, connection: ServerConnection, question: bytes) -> Deferred[bytes]:
        return self.answer(MEETING, question)

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        if handler != MEETING or self._own.seeker is None:
            raise MalformedPacketError("Question", "handler", f"{handler[:100]!r} has no answer here")
        answered = self._own.seeker.answer(question)
        if self._gave_all and self._candidate is not None and Standing.decode(question).node_id == self._own.folder.node_id:
            self._own.seeker.seek(Purpose.START)
        return answered

    def _ask_over_link(self, connector: str, handler: str, question: bytes) -> Deferred[bytes] | None:
        other = None if self._own.keeper is None else self._own.keeper.latest.other
        if other is None or other.connector != connector:
            return None
        if self.primary is not None:
            return self.primary.ask(handler, question)
        backup = self._passive.backup
        return None if backup is None else backup.ask(handler, question)

    def _voters(self) -> Sequence[str]:
        return self._kept if self._active.voters is None else self._active.voters.members

    def _meet(self, node_id: str) -> Deferred[Introduction]:
        return self._network.meet(node_id)

    def _connector_of_node(self, node_id: str) -> TransportConfiguration | None:
        backup = self._passive.backup
        topology = self._active.topology if self.primary is not None else None if backup is None else backup.topology
        member = None if topology is None else topology.get(node_id)
        return None if member is None else member.primary
