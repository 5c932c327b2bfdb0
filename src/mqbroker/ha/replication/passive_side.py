"""A passive broker of a pair: it follows the active one, copies it, and takes over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from mqbroker.ha.proof.copy_record import OtherCopy
from mqbroker.ha.proof.meeting import Activity, Standing
from mqbroker.ha.proof.ports import Purpose, UnreachableError
from mqbroker.ha.proof.rules import RETRY_SECONDS_MIN
from mqbroker.ha.proof.seeking import not_met
from mqbroker.ha.proof.seeking_machine import passive
from mqbroker.ha.replication.backup import ReplicatedBackup
from mqbroker.ha.replication.connectors import connector_text
from mqbroker.ha.replication.following import Registration
from mqbroker.storage.mirror.former import empty_folders, keep_for_good
from mqbroker.storage.mirror.replica_folder import ReplicaFolder
from mqclient.protocol.topology import same_place

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.config.model.cluster import ReplicationConfiguration
    from mqbroker.ha.proof.copy_keeper import Copying, CopyKeeper
    from mqbroker.ha.replication.backup import ClusterSide
    from mqbroker.ha.replication.own_copy import OwnCopy
    from mqbroker.ha.replication.packets import Welcome
    from mqbroker.messaging.ports import Clock
    from mqclient.protocol.topology import TopologyMember
    from mqclient.wire.primitives import TransportConfiguration

REST_SECONDS = 1.0
"""After a copy has given itself up, before it looks for an active broker again."""

WORD_SECONDS = 15.0
"""How long a copy that has given itself up listens for another one that has done so; the other one comes every few seconds."""

FOLLOW_MS = 5000
"""``vote-retry-wait`` of Artemis, which ``retry-replication-wait`` is unless it is set, or that is."""

LOCKED_FOLLOW_MS = 2000
"""``retry-replication-wait`` with a lock manager."""

log = Logger(namespace="mqbroker.ha")


class PassiveSide:
    """Implements :class:`mqbroker.ha.replication.following.FollowingOwner`.

    ``answer`` answers questions of the proof, ``refused`` is told when this copy is to follow, as
    :meth:`mqbroker.ha.proof.ports.Owner.refused`, and ``renamed`` when it has taken another node id.
    """

    def __init__(
        self,
        policy: ReplicationConfiguration,
        own: OwnCopy,
        clock: Clock,
        answer: Callable[[str, bytes], Deferred[bytes]],
        refused: Callable[[str, Standing | None], object],
        renamed: Callable[[], object],
    ) -> None:
        self.answer = answer
        self.backup: ReplicatedBackup | None = None
        """None while this broker neither follows nor has just followed."""
        self._policy = policy
        self._own = own
        self._clock = clock
        self._refused = refused
        self._renamed = renamed
        self._looks = False
        """Does it look for a broker that is active as its node?"""
        self._seeks_at = 0.0
        """Until then the lock manager is not asked again."""

    def follow(self) -> None:
        side = self._own.side
        if side is None:
            return
        self.stop()
        wait = _retry_seconds(self._policy)
        places = self._own.known_places
        self.backup = ReplicatedBackup(side, wait, self._registration, places, self, self._visit, self._meet_noted)
        self.backup.start()

    def stop(self) -> None:
        if self.backup is not None:
            self.backup.stop()
            self.backup = None

    def close_files(self) -> Deferred[None]:
        """Leave the active broker; completes when the files of the replica are closed."""
        closed: Deferred[None] = Deferred()
        if self.backup is None:
            closed.callback(None)
        else:
            self.backup.leave_folder(lambda: closed.callback(None))
        return closed

    def rest(self) -> None:
        """Leave the active broker, and follow again after a while: this copy has given itself up."""
        if self.backup is not None:
            self.backup.leave_folder(lambda: None)
            self._clock.call_later(REST_SECONDS, self._follow_again, self.backup)

    def _follow_again(self, backup: ReplicatedBackup) -> None:
        """After this copy has given itself up: the word is given, and the connection was needed for it."""
        seeker = self._own.seeker
        if backup is not self.backup or seeker is None or backup.is_searching:
            return
        if seeker.state == passive.name:
            self.follow()
        else:
            self._clock.call_later(REST_SECONDS, self._follow_again, backup)

    def look_around(self) -> None:
        """This copy finds no proof: meet the broker that is active as its node, if the cluster knows one."""
        side = self._own.side
        if side is not None and not self._looks:
            self._looks = True
            side.runtime.spawn(self._meet_active(side))

    async def _meet_active(self, side: ClusterSide) -> None:
        try:
            for member in await side.members(side.places()):
                seeker, place = self._own.seeker, member.primary
                if seeker is None or place is None or same_place(place, side.own) or member.node_id != self._own.folder.node_id:
                    continue
                await seeker.meet(connector_text(place))
        except Exception as error:  # a defect must not keep this copy from looking again
            side.runtime.log_failure("the search for an active broker failed", error)
        finally:
            self._looks = False

    # --- other copies

    def _registration(self) -> Registration:
        keeper, side, policy = self._own.keeper, self._own.side, self._policy
        assert keeper is not None and side is not None
        bound = keeper.record.usable
        node_id = self._own.folder.node_id if bound or not policy.backup else policy.node_id or ""
        wants_failback = not policy.backup and policy.coordination_id is None
        return Registration(side.credentials, side.own, wants_failback, keeper.record.copy_id, node_id, policy.group_name)

    def _visit(self, member: TopologyMember) -> Deferred[bool]:
        """The broker does not take this replica: it may be another copy that seeks.  Brokers of other nodes have no answer to a visit."""
        if member.primary is None or member.node_id != self._own.folder.node_id:
            return succeed(False)
        return self._meet(member.primary).addErrback(not_met).addCallback(lambda _: True)

    def _meet(self, place: TransportConfiguration) -> Deferred[Any]:
        seeker = self._own.seeker
        if seeker is None:
            return succeed(None)

        def met(other: Standing) -> None:
            complete = self._own.keeper is not None and self._own.keeper.record.complete
            if complete and other.activity is Activity.SEEKING and other.node_id == self._own.folder.node_id:
                seeker.seek(Purpose.START)

        return seeker.visit(connector_text(place)).addCallback(met)

    def _meet_noted(self) -> Deferred[Any]:
        """Nobody is active as far as this replica hears: the other copy may wait for its word."""

        def listen(failure: Failure) -> None:
            if isinstance(failure.value, UnreachableError) and self.backup is not None:
                self._take_word()
            not_met(failure)

        if self._policy.manager is not None:
            self._seek_again()
            return succeed(None)
        places = self._own.known_places()
        return self._meet(places[0]).addErrback(listen) if places else succeed(None)

    def _seek_again(self) -> None:
        """Nobody is active, and the lock manager may have this copy go on: it is asked anew, but not all the time."""
        seeker, now = self._own.seeker, self._clock.monotonic()
        if seeker is not None and seeker.may_seek and now >= self._seeks_at:
            self._seeks_at = now + _retry_seconds(self._policy)
            seeker.seek(Purpose.START)

    def _take_word(self) -> None:
        """If both copies have given themselves up to each other, each would visit and none be visited: one of them listens, for a while."""
        keeper, seeker = self._own.keeper, self._own.seeker
        if keeper is None or seeker is None or not keeper.record.retractable:
            return

        def end() -> None:
            # The copy is complete with the word of the other one, also while that is being written.
            if seeker is self._own.seeker and not keeper.latest.complete and seeker.state != passive.name:
                seeker.cease()
                self._refused("the other copy has not come", None)

        seeker.seek(Purpose.START)
        self._clock.call_later(WORD_SECONDS, end)

    # --- the copy of the active broker

    def begin_copy(self, welcome: Welcome) -> Deferred[Copying]:
        keeper, seeker = self._own.keeper, self._own.seeker
        assert keeper is not None and seeker is not None
        other = OtherCopy(welcome.copy_id, connector_text(welcome.connector))
        copying = seeker.begin_copy(other)
        if keeper.record.diverged:
            copying.addCallback(partial(self._put_away, keeper))
        return copying.addCallback(partial(self._adopt, welcome.node_id))

    def _put_away(self, keeper: CopyKeeper, copying: Copying) -> Deferred[Copying]:
        """Keep the messages that no other copy has: that is noted before anything is copied, or a part of a copy would be kept, too."""
        kept: Deferred[Copying] = Deferred()

        def done(error: Exception | None) -> None:
            if error is not None:
                kept.errback(error)
            else:
                keeper.put_away().addCallback(lambda _: copying).chainDeferred(kept)

        self._own.submit([partial(keep_for_good, self._own.inner, self._own.roots)], done)
        return kept

    def _adopt(self, node_id: str, copying: Copying) -> Deferred[Copying]:
        adopted: Deferred[Copying] = Deferred()
        changed = node_id != self._own.folder.node_id

        def done(error: Exception | None) -> None:
            if error is not None:
                adopted.errback(error)
                return
            if changed:
                self._renamed()
            adopted.callback(copying)

        self._own.submit([partial(self._own.folder.rename, node_id)], done)
        return adopted

    def make_folder(self, answer: Callable[[int], object], failed: Callable[[str], object]) -> ReplicaFolder:
        own = self._own
        assert own.writer is not None
        begin = partial(empty_folders, own.inner, own.roots, self._policy.max_saved_replicated_journals_size)
        return ReplicaFolder(own.inner, own.roots, own.writer, begin, answer, failed)

    def in_sync(self) -> None:
        """Nothing is to be done: the record says so."""

    def take_over(self) -> None:
        if self._own.seeker is not None:
            self._own.seeker.seek(Purpose.TAKE_OVER)

    def lost(self, reason: str) -> None:
        keeper, seeker = self._own.keeper, self._own.seeker
        if keeper is None or seeker is None or seeker.state != passive.name:
            return
        log.warn("the active broker is lost: {reason}", reason=reason)
        if keeper.latest.complete:
            # Also while that is being written: the active broker has noted this copy, and finds somebody who seeks at its place.
            seeker.seek(Purpose.TAKE_OVER)
        elif self.backup is not None:
            self.backup.start()


def _retry_seconds(policy: ReplicationConfiguration) -> float:
    """Between two rounds of looking for an active broker."""
    if policy.manager is not None:
        settings: tuple[int | None, ...] = (policy.retry_replication_wait, LOCKED_FOLLOW_MS)
    else:
        settings = (policy.retry_replication_wait, policy.vote_retry_wait, FOLLOW_MS)
    wait = next(each for each in settings if each is not None)
    return max(wait / 1000, RETRY_SECONDS_MIN)
