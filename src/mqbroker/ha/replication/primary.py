"""The active broker of a pair: it takes one replica at a time, and goes on without one when there is none.

A copy of any broker may be that replica, as a colocated one hosts again what it has hosted before.  The primary that is back is preferred:
unless it has everything it does not get its place back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mqbroker.ha.at_latest import AtLatest
from mqbroker.ha.proof.copy_record import CONNECTOR_SIZE_MAX, CopyRecord, OtherCopy
from mqbroker.ha.replication.connectors import connector_text
from mqbroker.ha.replication.packets import VERSION, Welcome
from mqbroker.ha.replication.replica import Buffers, Replica
from mqbroker.server.transport.cluster_channel import PRODUCT
from mqbroker.storage.mirror.feed import Progress, ReplicaFeed
from mqclient.protocol.topology import TopologyMember
from mqclient.wire.packets import BackupRegistration, BackupRegistrationFailed

if TYPE_CHECKING:
    from mqbroker.cluster.connection import ClusterConnection
    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.proof.copy_keeper import CopyKeeper
    from mqbroker.ha.proof.seeking import Seeker
    from mqbroker.messaging.ports import Clock
    from mqbroker.server.server import Server
    from mqbroker.server.transport.connection import ServerConnection
    from mqbroker.storage.disk.diskwriter import DiskWriter
    from mqbroker.storage.mirror.mirrored import MirroredFileSystem
    from mqbroker.storage.tickets import Tickets

FAILED = 0
"""The answer to a replica that cannot be taken: it stops."""
ALREADY_REPLICATING = 2
"""The answer to a replica that may try another primary."""

PREFERENCE_PAUSE = 60.0
"""Seconds for which no replica is given up for a primary that is back, after one has left before it had all data."""

HAND_OVER_SECONDS = 5.0
"""How long an orderly stop waits until the replica has everything."""

log = Logger(namespace="mqbroker.ha")


@dataclass(frozen=True, slots=True)
class MirroredStore:
    """The store of the active broker, and the file system that tells of its changes.

    ``datasync``: its work is synced.  ``call`` lets another thread call on the loop.
    """

    tickets: Tickets
    files: MirroredFileSystem
    writer: DiskWriter
    datasync: bool
    call: Callable[[Callable[[], object]], object]


class ReplicatedPrimary:
    """The active side, from one activation to its end.

    ``connection`` is the cluster connection of the pair.  ``proof_wanted()`` is called when the broker may go on only with a proof;
    :meth:`go_on` tells that it is there.  ``failback()`` is called when a primary that is back has all data, and is to be active again.
    ``end_clients()`` is called when the replica is lost in an orderly stop: the broker can answer durable work no more, and ends at once.
    """

    def __init__(
        self,
        policy: ReplicationConfiguration,
        server: Server,
        store: MirroredStore,
        connection: ClusterConnection,
        keeper: CopyKeeper,
        seeker: Seeker,
        answer: Callable[[str, bytes], Deferred[bytes]],
        proof_wanted: Callable[[], object],
        failback: Callable[[], object],
        end_clients: Callable[[], object],
    ) -> None:
        self.replica: Replica | None = None
        """The present one; also one that was given up, as long as its word may be the proof."""
        self._next: Replica | None = None
        """The primary that is back: it gets the place of the present replica, which was given up for it."""
        self._preferred_from = 0.0
        """Until then no replica is given up for a primary: one has left before it had all data."""
        self._policy = policy
        self._server = server
        self._clock: Clock = server.clock
        self._store = store
        self._connection = connection
        self._keeper = keeper
        self._seeker = seeker
        self._answer = answer
        self._proof_wanted = proof_wanted
        self._failback = failback
        self._end_clients = end_clients
        self._stopping = False
        self._over = False

    def start(self) -> None:
        """Take replicas from now on."""
        self._server.cluster_channel.register(BackupRegistration, self._registered)

    # --- state

    @property
    def is_replica_in_sync(self) -> bool:
        return self.replica is not None and self.replica.is_in_sync

    @property
    def progress(self) -> Progress | None:
        """How far the copy of the replica has come; None without one."""
        return None if self.replica is None else self.replica.progress

    @property
    def behind(self) -> int | None:
        """Bytes that the replica was sent and has not answered; None without one."""
        return None if self.replica is None else self.replica.behind

    @property
    def sequence(self) -> int:
        return self._keeper.record.sequence

    # --- pairing

    def _registered(self, connection: ServerConnection, packet: BackupRegistration) -> BackupRegistrationFailed | None:
        taken = self.replica is not None and not self._is_preferred(packet)
        if connection.product != PRODUCT or taken or connection.link is not None or self._stopping:
            # A Java replica is sent on, too: it knows another stream.
            return BackupRegistrationFailed(ALREADY_REPLICATING)
        if len(connector_text(packet.connector)) > CONNECTOR_SIZE_MAX:
            log.warn("a replica at {place} is refused: its connector is too long", place=connection.remote)
            return BackupRegistrationFailed(FAILED)
        replica = Replica(
            self,
            connection,
            packet.connector,
            packet.wants_failback,
            self._clock,
            self._connection.configuration.call_timeout / 1000,
            self._policy.initial_replication_sync_timeout / 1000,
        )
        if self.replica is None:
            self.replica = replica
        else:
            self._next = replica
            self.replica.end("the primary is back, and copies in its place")
        return None

    def _is_preferred(self, packet: BackupRegistration) -> bool:
        """Is it the primary that is back, and the present replica another copy?"""
        comes_back = packet.wants_failback and self._gives_way and self._next is None
        # Without the question for a proof a replica that is given up could take over.
        may_give_up = self._policy.vote_on_replication_failure is not False and self._clock.monotonic() >= self._preferred_from
        return comes_back and may_give_up and self.replica is not None and not self.replica.wants_failback

    @property
    def _gives_way(self) -> bool:
        return self._policy.backup and self._policy.allow_failback

    def has_place(self, replica: Replica) -> bool:
        return replica is self.replica

    def _give_place(self) -> None:
        """The former replica has gone, and nothing depends on it."""
        self.replica, self._next = self._next, None
        if self.replica is not None:
            self.replica.welcome()

    def welcome(self) -> Welcome:
        record = self._keeper.record
        return Welcome(VERSION, record.copy_id, self._server.node_id, self._connection.own_connector, self._gives_way)

    def make_feed(self, send: Callable[[Buffers], object], copied: Callable[[], object], lost: Callable[[str], object]) -> ReplicaFeed:
        store = self._store
        return ReplicaFeed(store.files, store.writer, store.tickets, store.datasync, store.call, send, copied, lost)

    def note(self, other: OtherCopy) -> Deferred[CopyRecord]:
        return self._seeker.note(other)

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        return self._answer(handler, question)

    def in_sync(self, replica: Replica) -> None:
        now = self._clock.wall_ms()
        topology = self._connection.topology
        topology.backup_announced(TopologyMember(self._server.node_id, now, backup=replica.connector), now)
        if replica.wants_failback and self._gives_way:
            log.info("AMQ221039: the primary is back, and has all data: this backup gives way to it")
            self._clock.call_later(0, self._failback)

    def left(self, replica: Replica, proof_needed: bool) -> None:
        if replica.wants_failback and not proof_needed:
            self._preferred_from = self._clock.monotonic() + PREFERENCE_PAUSE
        if replica is self._next:
            self._next = None
        elif proof_needed:
            # The replica stays the announced backup: if it takes over, clients of this broker must know where to go.
            self._clock.call_later(0, self._unproven)
        else:
            self._backup_left()
            self._give_place()

    def _backup_left(self) -> None:
        topology = self._connection.topology
        member = topology.get(self._server.node_id)
        if member is not None and member.backup is not None and not self._stopping:
            topology.backup_left(member.backup)

    def _unproven(self) -> None:
        """A replica that may be complete has gone.  A broker that stops lets it go on, and waits no longer for clients it cannot answer."""
        if self._over:
            return
        if self._stopping:
            self._end_clients()
        else:
            self._proof_wanted()

    def go_on(self) -> None:
        """No other copy is or can become active: what has waited is answered."""
        replica = self.replica
        self._backup_left()
        self._give_place()
        if replica is not None:
            replica.forget()

    # --- the proof

    def ask(self, handler: str, data: bytes) -> Deferred[bytes] | None:
        """Ask the replica over its connection; None without one."""
        return None if self.replica is None else self.replica.ask(handler, data)

    # --- the end

    def stop_called(self) -> None:
        """The broker stops in order: take no replica any more, and tell the one that is there."""
        self._stopping = True
        if self._next is not None:
            self._next.end("this broker stops")
        if self.replica is not None and self.replica.is_in_sync:
            self.replica.stop_called()

    def hand_over(self, done: Callable[[], object]) -> None:
        """All work is written: a replica in sync takes over once it has it; then ``done``, after :data:`HAND_OVER_SECONDS` at the latest.

        The replica asks this copy to give itself up, over its connection, and leaves when it is active.
        """
        replica = self.replica
        if replica is None or not replica.is_in_sync:
            done()
            return
        finish = AtLatest(self._clock, HAND_OVER_SECONDS, done)

        def drained() -> None:
            if finish.over or not replica.is_in_sync:
                finish()
            else:
                self._seeker.cease()
                replica.fail_over(finish)

        replica.when_drained(drained)

    def stop(self) -> None:
        """The activation is over."""
        self._stopping = self._over = True
        for replica in (self._next, self.replica):
            if replica is not None:
                replica.end("this broker is not active any more")
                replica.cut()
