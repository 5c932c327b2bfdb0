"""XA requests of a session: its work in branches, and the requests of a transaction manager about branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from mqbroker.messaging.delivery.branches import Branch, XACode, XAError, xid_text
from mqbroker.messaging.delivery.transaction import Transaction
from mqclient.errors import MQError, TransactionRolledBackError
from mqclient.wire import packets as wire

if TYPE_CHECKING:
    from mqbroker.server.session.session_consumers import SessionConsumers
    from mqbroker.server.session_state import SessionState


def _answered(request: Callable[[SessionBranches, Any], int]) -> Callable[[SessionBranches, Any], None]:
    """A handler that answers once the work up to the ticket of ``request`` is durable, or answers with the error of ``request``.

    An error tells what has become of a branch, as that it is known no more: the answer waits until that is durable, too.
    """

    def handle(branches: SessionBranches, packet: Any) -> None:
        session = branches._session
        try:
            ticket = request(branches, packet)
        except XAError as error:
            session.reply(wire.XaResponse(True, error.code, str(error)), session.server.store.ticket())
        except MQError as error:
            # The error is only answered: it concerns the named branch, not the session's own.
            session.reply_error(error)
        else:
            session.reply(wire.XaResponse(False, 0), ticket)

    return handle


class SessionBranches:
    """The branches of one session.  ``active`` is the branch of its sends and acknowledgements, None outside of branches."""

    __slots__ = ("_branches", "_consumers", "_session", "_timeout_seconds", "active")

    def __init__(self, session: SessionState, consumers: SessionConsumers) -> None:
        self._session = session
        self._consumers = consumers
        self._branches = session.server.messaging.branches
        self._timeout_seconds = 0
        self.active: Branch | None = None

    def _start(self, packet: wire.XaStart) -> int:
        self._check_session()
        session = self._session
        branch = self._branches.start(packet.xid, session.connection, self._timeout_seconds)
        replaced = self.active
        if replaced is not None:
            self.leave()
            if replaced.rolled_back is None:
                self._branches.replace(replaced, packet.xid)
        self._enter(branch)
        return 0

    def _end(self, packet: wire.XaEnd) -> int:
        branch = self.active
        if branch is not None and branch.xid == packet.xid:
            self.leave()
            if branch.rolled_back is not None:
                raise XAError(branch.rolled_back, f"this branch was rolled back: {xid_text(packet.xid)}")
            return 0
        branch = self._branches.find(packet.xid)
        if not branch.suspended:
            if branch.transaction.prepared is None and branch.rolled_back is None:
                return 0  # the branch has ended already: transaction managers may repeat the request
            raise XAError(XACode.WRONG_STATE, f"this branch is not suspended, and the session does not work in it: {xid_text(packet.xid)}")
        branch.suspended = False
        return 0

    def _join(self, packet: wire.XaJoin) -> int:
        self._check_session()
        branch = self._branches.find(packet.xid)
        if branch is self.active:
            return 0
        self._check_idle()
        if branch.suspended:
            raise XAError(XACode.WRONG_STATE, f"this branch is suspended: {xid_text(packet.xid)}")
        self._enter(branch)
        return 0

    def _suspend(self, packet: wire.XaSuspend) -> int:
        branch = self.active
        if branch is None:
            raise XAError(XACode.WRONG_STATE, "this session does not work in a branch")
        self.leave()
        if branch.rolled_back is not None:
            raise XAError(branch.rolled_back, f"this branch was rolled back: {xid_text(branch.xid)}")
        branch.suspended = True
        return 0

    def _resume(self, packet: wire.XaResume) -> int:
        self._check_session()
        branch = self._branches.find(packet.xid)
        self._check_idle()
        if not branch.suspended:
            raise XAError(XACode.WRONG_STATE, f"this branch is not suspended: {xid_text(packet.xid)}")
        self._enter(branch)
        branch.suspended = False
        return 0

    def _check_session(self) -> None:
        if not self._session.xa:
            raise XAError(XACode.WRONG_STATE, "this session was not opened for XA")

    def _check_idle(self) -> None:
        if self.active is not None:
            raise XAError(XACode.WRONG_STATE, f"this session works in another branch: {xid_text(self.active.xid)}")

    def _enter(self, branch: Branch) -> None:
        session = self._session
        self._branches.enter(branch, session)
        self.active = branch
        session.transaction = branch.transaction
        session.auto_commit_sends = session.auto_commit_acks = False

    def leave(self) -> None:
        """Leave the active branch."""
        branch, self.active = self.active, None
        if branch is not None:
            session = self._session
            session.transaction = Transaction()
            session.auto_commit_sends = session.auto_commit_acks = True
            self._branches.leave(branch, session)

    def give_up(self) -> Transaction:
        """Take the session's uncommitted work.  After that the active branch, if any, can only be rolled back."""
        session = self._session
        branch = self.active
        if branch is None:
            transaction, session.transaction = session.transaction, Transaction()
            return transaction
        work = self._branches.fail(branch)
        self.leave()
        return work

    # --- the transaction manager's requests

    def _prepare(self, packet: wire.XaPrepare) -> int:
        return self._branches.prepare(packet.xid)

    def _commit(self, packet: wire.XaCommit) -> int:
        return self._branches.commit(packet.xid, packet.one_phase, self._session.context)

    def _forget(self, packet: wire.XaForget) -> int:
        return self._branches.forget(packet.xid)

    def _rollback(self, packet: wire.XaRollback) -> int:
        """Roll a branch back.  Java clients forget all delivered messages then, so these go back to the queues, too."""
        if self.active is not None and self.active.xid == packet.xid:
            raise XAError(XACode.WRONG_STATE, f"this session works in the branch: {xid_text(packet.xid)}")
        try:
            ticket = self._branches.rollback(packet.xid)
        except XAError as error:
            if error.code is XACode.UNKNOWN_XID:
                # The branch may have timed out, or ended with its connection.
                self._session.server.messaging.settlement.rollback(self.give_up())
                self._take_back()
            raise
        self._take_back()
        return ticket

    def _take_back(self) -> None:
        session = self._session
        _, prefetched = self._consumers.take_back(keep_first_counts=False)
        session.server.messaging.settlement.cancel(prefetched)
        self._consumers.started_changed()

    def _failed(self, packet: wire.XaFailed) -> None:
        """A reconnected client names the branch of its old session, which can only be rolled back."""
        branches, xid = self._branches, packet.xid
        if self.active is not None or not self._session.xa:
            return
        try:
            branch = branches.find(xid) if branches.knows(xid) else branches.start(xid, self._session.connection, self._timeout_seconds)
        except XAError:
            return
        if not branch.prepared:
            branch.transaction.mark_rollback_only(
                TransactionRolledBackError(f"the connection failed while there was work in this branch: {xid_text(xid)}")
            )
            self._enter(branch)

    def _in_doubt(self, packet: wire.XaInDoubtXids) -> None:
        session = self._session
        session.reply(wire.XaInDoubtXidsResponse(tuple(self._branches.in_doubt())), session.server.store.ticket())

    def _set_timeout(self, packet: wire.XaSetTimeout) -> None:
        """Set the timeout of the active branch and of later branches of the session."""
        valid = packet.timeout_seconds >= 0
        if valid:
            self._timeout_seconds = packet.timeout_seconds
            if self.active is not None:
                self._branches.set_timeout(self.active, packet.timeout_seconds)
        self._session.reply(wire.XaSetTimeoutResponse(valid))

    def _get_timeout(self, packet: wire.XaGetTimeout) -> None:
        """Answer with the broker's own limit, not with that of :meth:`_set_timeout`, as Artemis does."""
        self._session.reply(wire.XaGetTimeoutResponse(self._session.server.configuration.transaction_timeout // 1000))

    HANDLERS: ClassVar[Mapping[int, Callable[[Any, Any], object]]] = {
        wire.XaStart.TYPE: _answered(_start),
        wire.XaEnd.TYPE: _answered(_end),
        wire.XaJoin.TYPE: _answered(_join),
        wire.XaSuspend.TYPE: _answered(_suspend),
        wire.XaResume.TYPE: _answered(_resume),
        wire.XaPrepare.TYPE: _answered(_prepare),
        wire.XaCommit.TYPE: _answered(_commit),
        wire.XaRollback.TYPE: _answered(_rollback),
        wire.XaForget.TYPE: _answered(_forget),
        wire.XaFailed.TYPE: _failed,
        wire.XaInDoubtXids.TYPE: _in_doubt,
        wire.XaSetTimeout.TYPE: _set_timeout,
        wire.XaGetTimeout.TYPE: _get_timeout,
    }
