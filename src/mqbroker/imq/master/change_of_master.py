"""Another broker becomes the master while the cluster runs [B8.6], on all three sides: the old master, the new one, the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.imq.links.requests import Peer, Peers
from mqbroker.imq.record.changes import Recorded
from mqbroker.imq.record.codec import change_of, values_of
from mqbroker.imq.record.record import PAGE_MAX, ChangeRecord
from mqclient.errors import IllegalStateError, MQError, OperationTimeoutError
from mqclient.management import ManagementError

if TYPE_CHECKING:
    from mqbroker.config.model.home_cluster import HomeCluster
    from mqbroker.imq.master.own_record import OwnRecord
    from mqbroker.imq.master.recording import Recording
    from mqbroker.messaging.ports import Cancellable
    from mqbroker.server.server_state import ServerState

log = Logger(namespace="mqbroker.imq")

TOLD_SECONDS = 5.0
"""After this time the old master has told all to which it has a link; then the new one tells its own."""


class Status(StrEnum):
    """How a change of the master ends, by the names of OpenMQ.

    After OK everything is changed; after ERROR and TIMEOUT the outcome is to be looked up at both brokers; after all others nothing is.
    """

    OK = "OK"
    BAD_REQUEST = "BAD_REQUEST"
    NOT_ALLOWED = "NOT_ALLOWED"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    UNAVAILABLE = "UNAVAILABLE"
    ERROR = "ERROR"


class MasterChangeError(IllegalStateError):
    """A change of the master that was not made, or whose outcome is not known; the text begins with the status."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status


class ChangeOfMaster:
    """The changes of the master that this broker takes part in.

    ``new_id`` gives unique names.  :meth:`start` goes on with a change whose outcome was not known when the broker stopped.
    """

    def __init__(
        self,
        server: ServerState,
        cluster: HomeCluster,
        peers: Peers,
        recording: Recording,
        own: OwnRecord,
        new_id: Callable[[], str],
    ) -> None:
        self._server = server
        self._cluster = cluster
        self._peers = peers
        self._recording = recording
        self._own = own
        self._new_id = new_id
        self._prepared: tuple[str, str, list[Recorded]] | None = None
        """Values from the old master to this broker: the name of the change, the old master, and the record so far."""
        self._asking = False
        """Is a successor asked, or about to be asked as soon as what this broker has noted of it is durable?"""
        self._telling: Cancellable | None = None

    def start(self) -> None:
        mastership = self._recording.mastership
        if mastership is None:
            return
        if mastership.successor is not None and self._recording.is_master:
            self._recording.keeping.blocked = f"whether {mastership.successor} is the master broker is not known"
        self._peers.linked.subscribe(self._linked)

    def stop(self) -> None:
        """Tell nobody any more."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    # --- the old master

    def change(self, master: str) -> Deferred[None]:
        """Make ``master`` (host:port) the master.  Fails with :class:`MasterChangeError`."""
        return Deferred.fromCoroutine(self._change(master))

    async def _change(self, master: str) -> None:
        peer = self._checked(master)
        if peer is None:
            return
        recording = self._recording
        keeping, mastership = recording.keeping, recording.mastership
        assert mastership is not None
        keeping.blocked = f"{master} is being made the master broker"
        change = self._new_id()
        self._asking = True
        try:
            await self._stored()
            await self._prepare(peer, change)
            mastership.hand_over(master, change)
            await self._stored()
        except Exception:
            self._stay()
            raise
        finally:
            self._asking = False
        # Its link may be another one by now.
        await self._switch(self._peers.at(master) or peer, change)

    def _checked(self, master: str) -> Peer | None:
        """The new master; None where nothing is to be done."""
        recording = self._recording
        if recording.mastership is None:
            raise MasterChangeError(Status.PRECONDITION_FAILED, "this cluster has no master broker")
        fixed = self._fixed()
        if fixed is not None:
            raise MasterChangeError(Status.NOT_ALLOWED, fixed)
        if not recording.is_master:
            if recording.master_peer() is None:
                raise MasterChangeError(Status.UNAVAILABLE, f"the master broker {recording.master} is not linked")
            raise MasterChangeError(Status.NOT_ALLOWED, f"{recording.place} is not the master broker; ask {recording.master}")
        if not master:
            raise MasterChangeError(Status.BAD_REQUEST, "imq.cluster.masterbroker is missing")
        if master == recording.place:
            return None
        if recording.keeping.blocked is not None:
            raise MasterChangeError(Status.PRECONDITION_FAILED, recording.keeping.blocked)
        peer = self._peers.at(master)
        if peer is None:
            raise MasterChangeError(Status.PRECONDITION_FAILED, f"{master} is not linked")
        return peer

    def _fixed(self) -> str | None:
        """Why this broker takes part in no change of the master; None if it does."""
        if not self._cluster.dynamic_change_master:
            return "imq.cluster.dynamicChangeMasterBrokerEnabled is not true"
        if self._cluster.master_from_command_line:
            return "the command line of this broker gives imq.cluster.masterbroker: write it into the cluster file instead"
        return None

    async def _stored(self) -> None:
        """Wait until everything on record is durable."""
        store, stored = self._server.store, Deferred[None]()

        def done() -> None:
            if not stored.called:
                stored.callback(None)

        def too_late() -> None:
            if not stored.called:
                waited = self._cluster.change_master_wait_s
                stored.errback(MasterChangeError(Status.PRECONDITION_FAILED, f"changes under way have not ended within {waited:g} s"))

        limit = self._server.clock.call_later(self._cluster.change_master_wait_s, self._server.turn.run, too_late)
        store.when_synced(store.ticket(), done)
        try:
            await stored
        finally:
            limit.cancel()

    async def _prepare(self, peer: Peer, change: str) -> None:
        """Send the compressed record."""
        changes = [values_of(each) for each in self._own.renewed().changes]
        for first in range(0, len(changes), PAGE_MAX):
            complete = first + PAGE_MAX >= len(changes)
            try:
                await peer.ask("prepareMaster", change, self._recording.place, changes[first : first + PAGE_MAX], complete)
            except OperationTimeoutError as error:
                raise MasterChangeError(Status.UNAVAILABLE, f"{peer.name} has not answered: {error}") from error
            except MQError as error:
                raise MasterChangeError(Status.PRECONDITION_FAILED, f"{peer.name} cannot be the master broker: {error}") from error

    async def _switch(self, peer: Peer, change: str) -> None:
        recording, asked, error = self._recording, peer.name, None
        self._asking = True
        try:
            since = await peer.ask("newMaster", change, recording.place, asked, self._server.node_id)
        except Exception as failure:
            since, error = None, failure
        finally:
            self._asking = False
        if recording.master != recording.place:
            since = recording.master  # others have told it while the answer was under way
        elif isinstance(error, ManagementError):
            self._stay()
            raise MasterChangeError(Status.PRECONDITION_FAILED, f"{asked} has not become the master broker: {error}") from error
        elif error is not None:
            recording.keeping.blocked = f"whether {asked} is the master broker is not known"
            if not recording.stopped:
                recording.later(TOLD_SECONDS, self._ask_again)
            text = f"whether {asked} is the master broker is not known: {error}. Look at both with query bkr"
            raise MasterChangeError(Status.ERROR, text) from error
        self._switched(since or asked, asked)
        if since not in (None, asked):
            raise MasterChangeError(Status.ERROR, f"{since} has become the master broker since {asked} was told")

    def _stay(self) -> None:
        """This broker stays the master."""
        recording = self._recording
        if recording.stopped:
            return  # the next start finds nothing that was begun
        assert recording.mastership is not None
        recording.mastership.settle(recording.place)
        recording.keeping.blocked = None
        recording.release()
        if recording.mastership.changed:
            self._tell_all()

    def _switched(self, master: str, asked: str) -> None:
        """The new master has become so: this broker follows it, and tells all others but the one that was asked."""
        recording = self._recording
        log.info("{master} is the master broker now", master=master)
        recording.keeping.blocked = None
        recording.master_changed(master)
        self._own.replace(None)
        self._tell_all(master, asked)

    def _tell_all(self, *know: str) -> None:
        """Tell all linked members who is the master, but those that ``know``."""
        for peer in list(self._peers.by_id.values()):
            if peer.name not in know:
                self._tell(peer)

    def _tell(self, peer: Peer) -> None:
        """Tell ``peer`` once what this broker knows is durable: after a crash nobody would be the master of whom others have heard."""
        store = self._server.store
        store.when_synced(store.ticket(), self._tell_stored, peer)

    def _tell_stored(self, peer: Peer) -> None:
        recording = self._recording
        if recording.stopped or recording.keeping.blocked is not None:
            return  # when another change has ended, all members are told
        peer.ask("newMaster", "", recording.place, recording.master, self._server.node_id).addErrback(self._not_told, peer)

    def _linked(self, peer: Peer) -> None:
        """A member is linked: ask a successor whose answer is missing, and tell others who is the master, unless their files say so."""
        recording, mastership = self._recording, self._recording.mastership
        assert mastership is not None
        if mastership.successor == peer.name and mastership.change is not None and not self._asking:
            Deferred.fromCoroutine(self._switch(peer, mastership.change)).addErrback(self._still_unknown)
        elif recording.keeping.blocked is not None:
            return  # another broker may be the master by now; those that are linked are told when this is known
        elif mastership.changed and recording.synchronised and peer.name != mastership.master:
            self._tell(peer)

    def _ask_again(self) -> None:
        """The link to the successor may never have been lost, or be there again: then only its answer was."""
        mastership = self._recording.mastership
        assert mastership is not None
        peer = None if mastership.successor is None else self._peers.at(mastership.successor)
        if peer is not None:
            self._linked(peer)

    @staticmethod
    def _still_unknown(failure: Failure) -> None:
        log.warn("{reason}", reason=failure.getErrorMessage())

    @staticmethod
    def _not_told(failure: Failure, peer: Peer) -> None:
        log.warn("{peer} does not know the new master broker: {reason}", peer=peer.name, reason=failure.getErrorMessage())

    # --- the new master, and the others

    @property
    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """The operations of other members that this part answers."""
        return {"prepareMaster": self.answer_prepare, "newMaster": self.answer_new_master}

    def answer_prepare(self, change: Any, old: Any, changes: Any, complete: Any) -> None:
        """The master sends its record to the broker that is to be the next master."""
        recording = self._recording
        fixed = self._fixed()
        if fixed is not None:
            raise ManagementError(f"{Status.NOT_ALLOWED}: {fixed}")
        if not recording.synchronised or recording.is_master or old != recording.master:
            raise ManagementError(f"{Status.PRECONDITION_FAILED}: {recording.place} does not follow the change record of {old}")
        known = self._prepared
        so_far = known[2] if known is not None and known[0] == change else []
        so_far += [change_of(each) for each in changes]
        self._prepared = str(change), str(old), so_far
        if complete:
            ChangeRecord.load(so_far)  # raises

    def answer_new_master(self, change: Any, by: Any, master: Any, node_id: Any) -> str | None:
        """The broker ``by`` says that ``master`` is the master from now on; it may be this one, by a change that was prepared.

        Returns the master (host:port) where another broker has become so since the change.
        """
        recording = self._recording
        mastership = recording.mastership
        if mastership is None:
            raise ManagementError("this cluster has no master broker")
        if master == recording.place:
            return self._become_master(str(change), str(by))
        if by not in (mastership.master, master):
            raise ManagementError(f"{by} is not the master broker, and says that {master} is")
        if master != mastership.master:
            log.info("{by} says that {master} is the master broker now", by=by, master=master)
            recording.keeping.blocked = None  # whatever this broker has begun as the master is decided
            recording.master_changed(str(master))
        return None

    def _become_master(self, change: str, by: str) -> str | None:
        recording = self._recording
        assert recording.mastership is not None
        if recording.is_master and recording.mastership.change == change:
            return None  # the answer was lost
        prepared = self._prepared
        if prepared is None or prepared[:2] != (change, by):
            if recording.master != by:
                return recording.master  # the answer was lost, and this broker has handed the record over since
            raise ManagementError(f"{Status.PRECONDITION_FAILED}: nothing was prepared for this change of the master broker")
        self._prepared = None
        log.info("this broker is the master broker now, in the place of {old}", old=by)
        self._own.replace(ChangeRecord.load(prepared[2]))
        recording.master_changed(recording.place, change)
        self._tell_later(by)
        return None

    def _tell_later(self, knows: str) -> None:
        self.stop()
        self._telling = self._server.clock.call_later(TOLD_SECONDS, self._server.turn.run, self._tell_now, knows)

    def _tell_now(self, knows: str) -> None:
        self._telling = None
        if self._recording.keeping.blocked is not None:
            # Another change is under way: the next master may be so already, and would believe that this one is.
            self._tell_later(knows)
        else:
            self._tell_all(knows)
