"""The activation of a broker of a pair: it seeks the proof that it may be active, or follows the one that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.cluster.membership.votes import connector_text as shown_to_java
from mqbroker.ha.one_copy import vote_for_others
from mqbroker.ha.proof.copy_keeper import Copying, CopyKeeper
from mqbroker.ha.proof.copy_record import CopyRecord, read_record
from mqbroker.ha.proof.meeting import MEETING, Activity, Standing
from mqbroker.ha.proof.ports import Purpose
from mqbroker.ha.proof.rules import ProofRules, warnings_at_start
from mqbroker.ha.proof.seeking import Seeker
from mqbroker.ha.proof.seeking_machine import passive
from mqbroker.ha.proof.voters import Voters
from mqbroker.ha.replication.backup import ClusterSide, ReplicatedBackup
from mqbroker.ha.replication.claim import CopyFolder
from mqbroker.ha.replication.connectors import connector_of, connector_text
from mqbroker.ha.replication.following import Registration
from mqbroker.ha.replication.kept_voters import kept_voters
from mqbroker.ha.replication.network import ProofNetwork
from mqbroker.ha.replication.primary import ALREADY_REPLICATING, MirroredStore, ReplicatedPrimary
from mqbroker.storage.disk.diskwriter import Done, Step, run_steps
from mqbroker.storage.errors import StorageError
from mqbroker.storage.mirror.former import empty_folders
from mqbroker.storage.mirror.mirrored import MirroredFileSystem
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from mqbroker.storage.mirror.roots import Roots
from mqclient.errors import MalformedPacketError
from mqclient.wire.packets import BackupRegistration, BackupRegistrationFailed

if TYPE_CHECKING:
    from mqbroker.cluster.connection import ClusterConnection
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.replication.packets import Welcome
    from mqbroker.messaging.ports import Clock, Store
    from mqbroker.server.server import Server
    from mqbroker.server.transport.cluster_channel import ClusterChannel
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.disk.filesystem import FileSystem
    from mqbroker.storage.settings import StoreSettings
    from mqbroker.storage.tickets import Tickets
    from mqclient.protocol.topology import TopologyMember
    from mqclient.wire.primitives import TransportConfiguration

WARN_SECONDS = 10.0
"""After an activation, before it is said what the proof lacks: by then the other brokers of the cluster are known."""

REST_SECONDS = 1.0
"""After a copy has given itself up, before it looks for an active broker again."""

log = Logger(namespace="mqbroker.ha")


class Candidate(Protocol):
    """The broker that wants to be active."""

    def granted(self) -> None:
        """The candidate may load the store, and serve."""

    def lost(self, reason: str) -> None:
        """The candidate may not, and writes nothing more."""

    def give_way(self, again: bool) -> None:
        """Another broker is to be active: stop in order, and then seek once more if ``again``."""

    def start_again(self) -> bool:
        """Acknowledge nothing more, write nothing more, and seek once more; false for a broker that stops anyway."""

    def take_brokers(self, node_id: str, register: Callable[[ClusterChannel], object]) -> None:
        """Open the acceptors for what other brokers ask on the cluster channel."""

    def take_nobody(self) -> Deferred[Any]:
        """Close these acceptors; completes when the ports are free."""


class ReplicationActivation:
    """Implements :class:`mqbroker.node.activation.Activation`, :class:`mqbroker.ha.proof.ports.Owner` and
    :class:`mqbroker.ha.replication.following.FollowingOwner`.

    ``open_side`` gives the ways to other brokers.  ``lock`` keeps changes of files together with what is told of them, and ``call`` lets
    another thread call on the loop.
    """

    def __init__(
        self,
        policy: ReplicationConfiguration,
        clock: Clock,
        entropy: Callable[[int], bytes],
        open_side: Callable[[], ClusterSide],
        lock: AbstractContextManager[object],
        call: Callable[[Callable[[], object]], object],
    ) -> None:
        self.primary: ReplicatedPrimary | None = None
        """The active side; None while this broker is passive."""
        self._policy = policy
        self._rules = ProofRules(not policy.backup, policy.quorum_size, policy.check_for_active_server, policy.vote_on_replication_failure)
        self._network: ProofNetwork
        self._clock = clock
        self._entropy = entropy
        self._open_side = open_side
        self._lock = lock
        self._call = call
        self._inner: FileSystem
        self._mirrored: MirroredFileSystem
        self._settings: StoreSettings
        self._roots: Roots
        self._folder: CopyFolder
        self._writer: DiskWriter | None = None
        self._candidate: Candidate | None = None
        self._keeper: CopyKeeper | None = None
        self._seeker: Seeker | None = None
        self._side: ClusterSide | None = None
        self._backup: ReplicatedBackup | None = None
        self._connection: ClusterConnection
        self._active_voters: Voters | None = None
        self._is_granted = False
        """The proof came while there was no candidate."""
        self._keeps_seeking = False
        """The present activation ends, and the search for the proof does not."""
        self._closing: Deferred[Any] = succeed(None)
        """Completes when the files of the replica are closed."""
        self._diverged = False
        """Does the journal that is put away hold messages that no other copy has?"""

    # --- the activation

    @property
    def role(self) -> str:
        return "backup" if self._policy.backup else "primary"

    @property
    def state(self) -> str:
        """The present wait of a passive broker, in few words."""
        if self._keeper is None or self._seeker is None:
            return ""
        record = self._keeper.record
        if self._seeker.state != passive.name:
            return f"{self._seeker.state}, sequence {record.sequence}"
        taken = None if self._backup is None else self._backup.taken
        copied = "following nobody" if taken is None else f"{taken >> 20} MiB copied"
        return f"replica, {record.state.value}, sequence {record.sequence}, {copied}"

    def files(self, file_system: FileSystem, settings: StoreSettings) -> FileSystem:
        """The file system of the next start's store.  Raises StorageError for folders that lie in each other."""
        self._inner, self._settings = file_system, settings
        self._roots = Roots.of(settings)
        self._mirrored = MirroredFileSystem(file_system, self._roots, self._lock)
        return self._mirrored

    def claim(self, file_system: FileSystem, directory: str, writer: DiskWriter) -> CopyFolder:
        self._writer = writer
        self._folder = CopyFolder(self._inner, directory, self._policy.backup)
        return self._folder

    def seek(self, candidate: Candidate) -> None:
        self._candidate = candidate
        if self._is_granted:
            self._is_granted = False
            candidate.granted()
            return
        if self._keeps_seeking and self._seeker is not None and self._seeker.state != passive.name:
            self._keeps_seeking = False
            self._take_brokers()
            return
        self._keeps_seeking = False
        try:
            keeper = self._open_keeper()
        except (StorageError, OSError) as error:
            candidate.lost(str(error))
            return
        if keeper.record.complete and self._seeker is not None:
            self._seeker.seek(Purpose.START)
        else:
            self._follow()

    def _open_keeper(self) -> CopyKeeper:
        directory = self._settings.node_directory
        if self._keeper is None:
            record = read_record(self._inner, directory) or CopyRecord.first(self._entropy, not self._policy.backup)
            self._keeper = CopyKeeper(self._inner, directory, record, self._submit, self.failed)
        if self._side is None:
            self._side = self._open_side()
        if self._seeker is None:
            self._make_seeker()
        return self._keeper

    def _make_seeker(self) -> None:
        keeper, side = self._keeper, self._side
        assert keeper is not None and side is not None
        self._network = network = ProofNetwork(side, self._ask_over_link, self._connector_of_node)
        own = shown_to_java(side.own)
        self._seeker = Seeker(keeper, self._folder.node_id, self._rules, self._voters, network, self, self._clock, self._entropy, own)

    def _submit(self, steps: Sequence[Step], done: Done) -> None:
        if self._writer is not None:
            self._writer.submit(steps, done)
        else:
            self._clock.call_later(0, done, run_steps(steps))

    def cease(self) -> None:
        if self._backup is not None:
            self._backup.stop()
            self._backup = None
        if self.primary is not None:
            self.primary.stop()
            self.primary = None
        self._active_voters = None
        self._candidate = None
        self._writer = None
        if self._keeps_seeking:
            return
        if self._seeker is not None:
            self._seeker.cease()
            self._seeker = None
            self._network.close()
        self._keeper = None
        if self._side is not None:
            self._side.close()
            self._side = None

    # --- an active broker

    def serve(self, server: Server, store: Store, kept: Mapping[tuple[str, str], str]) -> None:
        """The broker is active: take replicas, answer the other copies, and vote for other nodes."""
        vote_for_others(server, store, kept)
        keeper, seeker, writer = self._keeper, self._seeker, self._writer
        assert keeper is not None and seeker is not None and writer is not None and server.cluster is not None
        connections = server.cluster.connections
        connection = cast("ClusterConnection", connections[self._policy.cluster_name or next(iter(connections))])
        turn = server.turn

        def call(function: Callable[[], object]) -> None:
            self._call(partial(turn.run, function))

        mirrored = MirroredStore(cast("Tickets", store), self._mirrored, writer, self._settings.journal_datasync, call)
        self.primary = ReplicatedPrimary(
            self._policy,
            server,
            mirrored,
            connection,
            keeper,
            seeker,
            self.answer,
            partial(seeker.seek, Purpose.GO_ON),
            self._fail_back,
        )
        self._connection = connection
        self.primary.start()
        server.cluster_channel.register_vote(MEETING, self._asked)
        self._active_voters = voters = Voters(store, server.node_id, kept)
        connection.topology.add_listener(partial(self._member_seen, voters))
        self._clock.call_later(WARN_SECONDS, self._warn, voters)

    def _member_seen(self, voters: Voters, member: TopologyMember, up: bool) -> None:
        if up and voters is self._active_voters:
            voters.join(member.node_id)

    def _warn(self, voters: Voters) -> None:
        """Say what weakens the guarantee that two copies are never active, now that the other brokers had time to be seen."""
        if voters is self._active_voters:
            for text in warnings_at_start(self._rules, voters.members, self._network.is_java):
                log.warn("{text}", text=text)

    def leave(self) -> None:
        """The broker begins an orderly stop."""
        self._active_voters = None
        if self.primary is not None:
            self.primary.stop_called()

    def hand_over(self) -> None:
        """Every orderly stop lets a replica in sync take over."""

    def let_go(self, done: Callable[[], object]) -> None:
        """Everything is written: let a replica in sync take over, then call ``done``."""
        if self.primary is None:
            done()
        else:
            self.primary.hand_over(done)

    def _fail_back(self) -> None:
        if self._candidate is not None:
            self._candidate.give_way(self._policy.restart_backup)

    # --- the owner of the proof

    def begin_seeking(self) -> None:
        closing: Deferred[Any] = Deferred()
        self._closing = closing
        if self._backup is None:
            closing.callback(None)
        else:
            self._backup.leave_folder(lambda: closing.callback(None))
        if self._keeper is not None and self._keeper.record.shared:
            self._take_brokers()

    def _take_brokers(self) -> None:
        if self._candidate is not None:
            self._candidate.take_brokers(self._folder.node_id, self._register)

    def end_clients(self) -> None:
        if self._candidate is not None:
            self._keeps_seeking = True
            self._keeps_seeking = self._candidate.start_again()

    def granted(self, sequence: int, text: str) -> None:
        if self.primary is not None:
            self.primary.go_on()
        elif self._candidate is None:
            self._is_granted = True
        else:
            if self._backup is not None:
                self._backup.stop()
                self._backup = None
            self._closing.addCallback(lambda _: self._take_nobody()).addCallback(lambda _: self._activate())

    def _take_nobody(self) -> Deferred[Any]:
        return succeed(None) if self._candidate is None else self._candidate.take_nobody()

    def _activate(self) -> None:
        if self._candidate is not None:
            self._candidate.granted()

    def refused(self, reason: str, other: Standing | None) -> None:
        if self._candidate is not None and self.primary is None:
            self._closing.addCallback(lambda _: self._take_nobody()).addCallback(lambda _: self._follow())

    def stop_copying(self) -> None:
        if self._backup is not None:
            self._backup.leave_folder(lambda: None)
            self._clock.call_later(REST_SECONDS, self._follow_again, self._backup)

    def _follow_again(self, backup: ReplicatedBackup) -> None:
        """After this copy has given itself up: the word is given, and the connection was needed for it."""
        seeker = self._seeker
        if backup is not self._backup or seeker is None:
            return
        if seeker.state == passive.name:
            self._follow()
        else:
            self._clock.call_later(REST_SECONDS, self._follow_again, backup)

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
        if handler != MEETING or self._seeker is None:
            raise MalformedPacketError("Question", "handler", f"{handler[:100]!r} has no answer here")
        return self._seeker.answer(question)

    def _ask_over_link(self, handler: str, question: bytes) -> Deferred[bytes] | None:
        if self.primary is not None:
            return self.primary.ask(handler, question)
        return None if self._backup is None else self._backup.ask(handler, question)

    def _voters(self) -> Sequence[str]:
        if self._active_voters is not None:
            return self._active_voters.members
        try:
            return kept_voters(self._inner, self._settings)
        except (StorageError, OSError, ValueError) as error:
            self.failed(f"the voters of this node cannot be read: {error}")
            return ("nobody",)

    def _connector_of_node(self, node_id: str) -> TransportConfiguration | None:
        topology = self._connection.topology if self.primary is not None else None if self._backup is None else self._backup.topology
        member = None if topology is None else topology.get(node_id)
        return None if member is None else member.primary

    # --- a passive broker

    def _follow(self) -> None:
        side, policy = self._side, self._policy
        if side is None or self._candidate is None:
            return
        wait = policy.vote_retry_wait if policy.retry_replication_wait is None else policy.retry_replication_wait
        if self._backup is not None:
            self._backup.stop()
        self._backup = ReplicatedBackup(side, wait / 1000, self._registration, self._known_places, self, self._visit)
        self._backup.start()

    def _registration(self) -> Registration:
        keeper, side, policy = self._keeper, self._side, self._policy
        assert keeper is not None and side is not None
        node_id = self._folder.node_id if not policy.backup or keeper.record.shared else ""
        return Registration(side.credentials, side.own, not policy.backup, keeper.record.copy_id, node_id, policy.group_name)

    def _known_places(self) -> list[TransportConfiguration]:
        other = None if self._keeper is None else self._keeper.record.other
        try:
            return [] if other is None else [connector_of(other.connector)]
        except ValueError as error:
            log.warn("the place of the other copy cannot be read: {error}", error=error)
            return []

    def _visit(self, place: TransportConfiguration) -> Deferred[Any]:
        """The broker at ``place`` does not take this replica: it may be another copy that seeks."""
        seeker = self._seeker
        if seeker is None:
            return succeed(None)

        def met(other: Standing) -> None:
            complete = self._keeper is not None and self._keeper.record.complete
            if complete and other.activity is Activity.SEEKING and other.node_id == self._folder.node_id:
                seeker.seek(Purpose.START)

        return seeker.visit(connector_text(place)).addCallback(met).addErrback(lambda failure: None)

    def begin_copy(self, welcome: Welcome) -> Deferred[Copying]:
        keeper, seeker = self._keeper, self._seeker
        assert keeper is not None and seeker is not None
        self._diverged = keeper.record.diverged
        return seeker.begin_copy().addCallback(partial(self._adopt, welcome.node_id))

    def _adopt(self, node_id: str, copying: Copying) -> Deferred[Copying]:
        adopted: Deferred[Copying] = Deferred()
        changed = node_id != self._folder.node_id

        def done(error: Exception | None) -> None:
            if error is not None:
                adopted.errback(error)
                return
            if changed:
                self._make_seeker()
            adopted.callback(copying)

        self._submit([partial(self._folder.rename, node_id)], done)
        return adopted

    def make_folder(self, answer: Callable[[int], object], failed: Callable[[str], object]) -> ReplicaFolder:
        assert self._writer is not None
        saved = self._policy.max_saved_replicated_journals_size
        begin = partial(empty_folders, self._inner, self._roots, saved, self._diverged)
        return ReplicaFolder(self._inner, self._roots, self._writer, begin, answer, failed)

    def in_sync(self) -> None:
        """Nothing is to be done: the record says so."""

    def take_over(self) -> None:
        if self._seeker is not None:
            self._seeker.seek(Purpose.TAKE_OVER)

    def lost(self, reason: str) -> None:
        keeper, seeker = self._keeper, self._seeker
        if keeper is None or seeker is None or seeker.state != passive.name:
            return
        log.warn("the active broker is lost: {reason}", reason=reason)
        if keeper.record.complete:
            seeker.seek(Purpose.TAKE_OVER)
        elif self._backup is not None:
            self._backup.start()
