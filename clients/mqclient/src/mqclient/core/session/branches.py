"""Distributed transactions (XA) of a session: its present branch, and the effects of a failover on the branch.

A session works on a branch from ``start`` to ``end``.  When the session is created anew meanwhile, sends and acknowledgements may be lost:
the broker is told that the branch has failed, and ``end`` raises that.  An ended branch is complete on the broker; a prepared one survives
a failure of the session, for others the broker decides.

Source: the Artemis manual, chapter "Client Failover", and ``protocol-spec/``, chapter "Session control and transactions".
"""

from __future__ import annotations

from typing import NoReturn, Protocol, TypeVar

from mqclient.core.connection.channel import Channel
from mqclient.core.consuming.acks import Batching
from mqclient.core.consuming.browsing import Node
from mqclient.core.runtime import Runtime, starts
from mqclient.core.sending.work import Work
from mqclient.core.session.transactions import Transaction
from mqclient.errors import ConnectionTimedOutError, IllegalStateError, MQError, UnblockedError
from mqclient.wire.packets import (
    NullResponse,
    Packet,
    Rollback,
    XaCommit,
    XaEnd,
    XaFailed,
    XaForget,
    XaGetTimeout,
    XaGetTimeoutResponse,
    XaInDoubtXids,
    XaInDoubtXidsResponse,
    XaJoin,
    XaPrepare,
    XaResponse,
    XaResume,
    XaRollback,
    XaSetTimeout,
    XaSetTimeoutResponse,
    XaStart,
    XaSuspend,
)
from mqclient.xa import (
    TMENDRSCAN,
    TMFAIL,
    TMJOIN,
    TMNOFLAGS,
    TMRESUME,
    TMSTARTRSCAN,
    TMSUCCESS,
    TMSUSPEND,
    XA_RBOTHER,
    XA_RETRY,
    XAER_DUPID,
    XAER_INVAL,
    XAER_PROTO,
    XAER_RMFAIL,
    XAError,
    Xid,
)

P = TypeVar("P", bound=Packet)
_STARTS: dict[int, type[XaStart] | type[XaJoin] | type[XaResume]] = {TMNOFLAGS: XaStart, TMJOIN: XaJoin, TMRESUME: XaResume}
_INTERRUPTED = (UnblockedError, ConnectionTimedOutError)
_TIMEOUT_LIMIT = 2**31


class BranchedSession(Batching, Protocol):
    """The session, as its branches see it."""

    channel: Channel
    work: Work
    open_transaction: Transaction

    @property
    def factory(self) -> Node: ...


class Branches:
    """A session as a resource of distributed transactions, for a transaction manager.

    Flags and codes are in :mod:`mqclient.xa`.  Every failure is an ``XAError``: the broker's answer, ``XAER_INVAL`` for a flag or value
    that is not allowed, ``XAER_PROTO`` for a call that the state of the session forbids, and after a failure of the connection:

    * ``start`` is made again by itself; ``XAER_RMFAIL`` when that fails too;
    * ``end``: ``XAER_RMFAIL``, some of the work may be lost and the branch has to be rolled back;
    * ``prepare`` is made again by itself; when that fails too the branch is rolled back and ``XAER_RMFAIL`` raised;
    * ``commit`` in one phase: ``XAER_RMFAIL``, the outcome is unknown; in two phases ``XA_RETRY``, the call has to be made again;
    * ``rollback`` and the other calls: ``XAER_RMFAIL``.
    """

    def __init__(self, session: BranchedSession) -> None:
        self.runtime: Runtime = session.runtime
        self._session = session
        self._current: Xid | None = None
        self._begun = False
        """Has the broker answered ``start`` for the current branch?"""
        self._doomed: Xid | None = None
        """The branch that was ended last without the certainty that all its work has reached the broker."""
        self._timeout_seconds = 0

    @property
    def current(self) -> Xid | None:
        """The branch that the session works on: between ``start`` and ``end``."""
        return self._current

    # --- the session's work on a branch ---

    @starts
    async def start(self, xid: Xid, flags: int = TMNOFLAGS) -> None:
        """Work on a branch from now on: a new one, with TMJOIN one that another session has begun, with TMRESUME a suspended one.

        ``XAER_DUPID``: the branch exists already; ``XAER_NOTA``: it does not exist.
        """
        make = _STARTS.get(flags)
        if make is None:
            raise XAError(XAER_INVAL, f"start with the flags {flags:#x}; TMNOFLAGS, TMJOIN or TMRESUME is expected")
        if self._current is not None:
            raise XAError(XAER_PROTO, "the session works on another branch; end that first")
        self._current = xid
        session = self._session
        try:
            async with session.work.order:
                # Sends and acknowledgements begun before take effect by themselves, and must not become part of the branch.
                for answer in session.flush_batches():
                    session.forget_answer(answer)
                await session.work.settled()
                session.open_transaction.forget_work()
                await self._start(make(xid.to_wire()))
                self._begun = True
        finally:
            if not self._begun:
                self._current = None
        if xid == self._doomed:
            self._doomed = None

    async def _start(self, packet: Packet) -> None:
        outcome = await self._try(packet, "start")
        if not isinstance(outcome, MQError):
            return
        try:
            again = await self._try(packet, "start")
        except XAError as error:
            if error.error_code == XAER_DUPID:
                raise XAError(XAER_RMFAIL, "the branch was begun before the connection failed and has not ended yet") from outcome
            raise
        if isinstance(again, MQError):
            raise _failed(XAER_RMFAIL, "start", again) from again

    @starts
    async def end(self, xid: Xid, flags: int = TMSUCCESS) -> None:
        """End the work on the branch.  TMSUSPEND: the work will go on later; TMFAIL: the branch has to be rolled back.

        Sends that were begun before are awaited, or with TMFAIL dropped.  ``XA_RBOTHER``: one of them has failed, the branch has to be
        rolled back.  ``XA_RBTIMEOUT``: the branch was rolled back after its timeout.
        """
        if flags not in (TMSUCCESS, TMFAIL, TMSUSPEND):
            raise XAError(XAER_INVAL, f"end with the flags {flags:#x}; TMSUCCESS, TMFAIL or TMSUSPEND is expected")
        if flags == TMSUSPEND and xid != self._current:
            raise XAError(XAER_PROTO, "only the branch that the session works on can be suspended")
        if flags == TMFAIL and xid == self._current:
            self._session.open_transaction.drop_sends()
        try:
            async with self._session.work.order:
                await self._end(xid, flags)
        except MQError as error:
            self._doomed = xid
            raise _failed(XAER_RMFAIL, "end", error) from error
        finally:
            self._leave(xid)

    async def _end(self, xid: Xid, flags: int) -> None:
        session = self._session
        await session.channel.ready()
        for answer in session.flush_batches():
            await answer
        failure = await session.work.settled() if xid == self._current and flags != TMFAIL else None
        await session.channel.ready()
        if self._lost(xid):
            self._doomed = xid
            self._leave(xid)
            try:
                await session.open_transaction.undo(Rollback(False), NullResponse, session.open_transaction.forget_work, in_order=True)
            except MQError as error:
                self.runtime.log_warning(f"rolling back after a connection failure in a branch: {error}")
            raise XAError(XAER_RMFAIL, "the connection failed while the session worked on the branch: it has to be rolled back")
        packet = XaSuspend() if flags == TMSUSPEND and failure is None else XaEnd(xid.to_wire(), flags == TMFAIL or failure is not None)
        _checked(await session.channel.call(packet, XaResponse, bound=True))
        if failure is not None:
            self._fail(xid, failure)

    @starts
    async def end_failed(self, xid: Xid, cause: Exception) -> None:
        """``end`` for a shell that knows that a message of the branch was not sent; always raises ``XAError``."""
        await self.end(xid, TMFAIL)
        self._fail(xid, cause)

    def _fail(self, xid: Xid, cause: BaseException) -> NoReturn:
        self._doomed = xid
        raise XAError(XA_RBOTHER, f"a message of the branch was not sent: {cause}") from cause

    # --- outcome ---

    @starts
    async def prepare(self, xid: Xid) -> int:
        """Have the broker promise that it can commit: the branch survives failures and restarts now.  Gives ``XA_OK``."""
        await self._after_end()
        self._refuse_lost(xid)
        outcome: int | Exception = await self._try(XaPrepare(xid.to_wire()), "prepare")
        if isinstance(outcome, MQError):
            # The broker answers a branch that is prepared already just the same.
            try:
                outcome = await self._try(XaPrepare(xid.to_wire()), "prepare")
            except XAError as error:
                outcome = error
        if isinstance(outcome, int):
            return outcome
        await self._undo_quietly(xid)
        raise _failed(XAER_RMFAIL, "prepare", outcome) from outcome

    @starts
    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch, or with ``one_phase`` one that was only ended.

        ``XA_HEURCOM``, ``XA_HEURRB``: an administrator has decided already; see :meth:`forget`.
        """
        await self._after_end()
        if one_phase:
            self._refuse_lost(xid)
        try:
            _checked(await self._session.channel.call(XaCommit(xid.to_wire(), one_phase), XaResponse))
        except MQError as error:
            # A prepared branch always waits for its outcome: the call can be made again.
            raise _failed(XAER_RMFAIL if one_phase else XA_RETRY, "commit", error) from error
        self._leave(xid)

    @starts
    async def rollback(self, xid: Xid) -> None:
        """Undo a branch, prepared or not.  Messages that this session has received and not committed in other branches come again, too."""
        if xid == self._current:
            self._session.open_transaction.drop_sends()
        try:
            _checked(await self._undo(xid))
        except MQError as error:
            raise _failed(XAER_RMFAIL, "rollback", error) from error
        self._leave(xid)
        if xid == self._doomed:
            self._doomed = None

    @starts
    async def forget(self, xid: Xid) -> None:
        """Let the broker forget an administrator's decision about the branch."""
        _checked(await self._call("forget", XaForget(xid.to_wire()), XaResponse))

    @starts
    async def recover(self, flags: int = TMSTARTRSCAN | TMENDRSCAN) -> list[Xid]:
        """The branches that are prepared or were decided by an administrator; empty unless the flags begin a scan."""
        if flags & ~(TMSTARTRSCAN | TMENDRSCAN):
            raise XAError(XAER_INVAL, f"recover with the flags {flags:#x}; TMSTARTRSCAN, TMENDRSCAN, both or none are expected")
        if not flags & TMSTARTRSCAN:
            return []  # the first call of a scan has given them all
        answer: XaInDoubtXidsResponse = await self._call("recover", XaInDoubtXids(), XaInDoubtXidsResponse)
        found = []
        for xid in answer.xids:
            try:
                found.append(Xid.from_wire(xid))
            except ValueError as error:
                self.runtime.log_warning(f"a branch in doubt is left to others, for its id cannot be used: {error}")
        return found

    # --- settings ---

    @starts
    async def set_transaction_timeout(self, seconds: int) -> bool:
        """Set the time limit of branches that are not prepared yet, in s (0: the broker's default); False when it cannot be set.

        The limit holds until the next call, also in a session that is created anew after a failure.
        """
        if not 0 <= seconds < _TIMEOUT_LIMIT:
            raise XAError(XAER_INVAL, f"a transaction timeout of {seconds} s; 0 (the default) or more is expected")
        answer: XaSetTimeoutResponse = await self._call("set_transaction_timeout", XaSetTimeout(seconds), XaSetTimeoutResponse)
        if answer.ok:
            self._timeout_seconds = seconds
        return answer.ok

    @starts
    async def get_transaction_timeout(self) -> int:
        """The time limit in s, as the broker says."""
        answer: XaGetTimeoutResponse = await self._call("get_transaction_timeout", XaGetTimeout(), XaGetTimeoutResponse)
        return answer.timeout_seconds

    def is_same_rm(self, other: object) -> bool:
        """Does ``other`` belong to the same broker, so that it can join branches of this one?"""
        if not isinstance(other, Branches):
            return False
        mine, theirs = self._session.factory, other._session.factory
        return mine is theirs or (mine.node_id is not None and mine.node_id == theirs.node_id)

    # --- from the session ---

    def session_recreated(self) -> list[Packet]:
        """The packets that tell the broker of the time limit and the branch, after the session was created anew."""
        packets: list[Packet] = [XaSetTimeout(self._timeout_seconds)] if self._timeout_seconds else []
        if self._current is not None and self._begun:
            self._session.open_transaction.rollback_only = True
            packets.append(XaFailed(self._current.to_wire()))
        return packets

    # --- inside ---

    async def _after_end(self) -> None:
        """An ``end`` that still waits for its sends comes first."""
        async with self._session.work.order:
            pass

    def _lost(self, xid: Xid) -> bool:
        return xid == self._current and self._session.open_transaction.rollback_only

    def _refuse_lost(self, xid: Xid) -> None:
        if xid == self._doomed or self._lost(xid):
            raise XAError(XAER_RMFAIL, "a failure has undone some of the work on the branch: it has to be rolled back")

    def _leave(self, xid: Xid) -> None:
        if xid == self._current:
            self._current = None
            self._begun = False
            self._session.open_transaction.forget_work()

    async def _try(self, packet: Packet, what: str) -> int | MQError:
        """The answer's code, or the failure that cut off the request after it was sent; raises ``XAError`` for everything else."""
        call = self._session.channel.submit(packet, XaResponse)
        try:
            answer: XaResponse = await call.future
        except MQError as error:
            if call.sent and isinstance(error, _INTERRUPTED):
                return error
            raise _failed(XAER_RMFAIL, what, error) from error
        return _checked(answer)

    async def _call(self, what: str, packet: Packet, answer: type[P]) -> P:
        try:
            found: P = await self._session.channel.call(packet, answer)
        except MQError as error:
            raise _failed(XAER_RMFAIL, what, error) from error
        return found

    async def _undo(self, xid: Xid) -> XaResponse:
        def forget() -> None:
            if self._current in (None, xid):
                self._session.open_transaction.forget_work()

        return await self._session.open_transaction.undo(XaRollback(xid.to_wire()), XaResponse, forget)

    async def _undo_quietly(self, xid: Xid) -> None:
        try:
            await self._undo(xid)
        except MQError as error:
            self.runtime.log_warning(f"rolling back a branch whose prepare was cut off: {error}")


def _checked(answer: XaResponse) -> int:
    if answer.error:
        raise XAError(answer.response_code, answer.message or "")
    return answer.response_code


def _failed(code: int, what: str, error: Exception) -> XAError:
    # The state of a branch is an answer too: making the call again would not change it.
    return XAError(XAER_PROTO if isinstance(error, IllegalStateError) else code, f"{what}: {error}")
