"""The open transaction of a session: commit, rollback, and the effects of a failover.

Source: the Artemis manual, chapter "Client Failover" (transactions), and ``protocol-spec/``, chapter "Client failover".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Protocol, TypeVar

from mqclient.core.connection.channel import Channel
from mqclient.core.consuming.acks import Batching
from mqclient.core.consuming.consumers import Consumer
from mqclient.core.sending.work import Work
from mqclient.errors import (
    ConnectionTimedOutError,
    LargeMessageTakenBackError,
    MQError,
    TransactionOutcomeUnknownError,
    TransactionRolledBackError,
    UnblockedError,
)
from mqclient.wire.hot import VERSION_COMMIT_CORRELATION
from mqclient.wire.packets import Commit, CreateSession, NullResponse, Packet, Rollback, SessionStart, SessionStop
from mqclient.xa import Xid

A = TypeVar("A", bound=Packet)
T = TypeVar("T")


class CurrentBranch(Protocol):
    """The branches of the session, as its transaction sees them."""

    @property
    def current(self) -> Xid | None:
        """The branch that the session works on."""


class HeldSends(Protocol):
    """The sends that are held until their transaction has ended."""

    def forget(self) -> None:
        """The held sends are undone."""


class TransactedSession(Batching, Protocol):
    """The session, as its transaction sees it: the parts that have to stand still while the transaction ends."""

    channel: Channel
    request: CreateSession
    work: Work

    @property
    def commits(self) -> HeldSends | None: ...

    @property
    def branches(self) -> CurrentBranch: ...

    @property
    def started(self) -> bool: ...

    @property
    def consumers(self) -> Sequence[Consumer]: ...

    def pause_consumers(self) -> None: ...

    def resume_consumers(self) -> None: ...

    async def wait_for_handlers(self) -> None: ...


class RepeatableSession(Protocol):
    """A session with transactions of its own, as a function that is repeated sees it."""

    @property
    def rollback_only(self) -> bool: ...

    @property
    def closed(self) -> bool: ...

    def commit(self) -> Awaitable[None]: ...

    def rollback(self) -> Awaitable[None]: ...


S = TypeVar("S", bound=RepeatableSession)


class Transaction:
    def __init__(self, session: TransactedSession) -> None:
        self._session = session
        self._has_work = False
        self.has_receipts = False
        """Was a message acknowledged in the transaction?"""
        self.rollback_only = False
        self._taken_back = False
        """Has the application a message without an acknowledgement that will be delivered again?  Work on it must not be committed."""
        self._undoing = 0
        """Calls of :meth:`undo` that have stopped delivery; the last one starts it again."""

    @property
    def has_work(self) -> bool:
        """Is there anything to commit?"""
        return self._has_work

    @property
    def takes_sends(self) -> bool:
        """Does a send made now wait for a commit, or for the outcome of a branch?"""
        session = self._session
        return not session.request.auto_commit_sends and (not session.request.xa or session.branches.current is not None)

    @property
    def takes_acknowledgements(self) -> bool:
        """Does an acknowledgement made now wait for a commit, or for the outcome of a branch?"""
        session = self._session
        return not session.request.auto_commit_acks and (not session.request.xa or session.branches.current is not None)

    def sent(self) -> None:
        """A message was sent in the session."""
        if not self._session.request.auto_commit_sends:
            self._worked()

    def acknowledged(self) -> None:
        """A message was acknowledged in the session."""
        if not self._session.request.auto_commit_acks:
            self._worked()
            self.has_receipts = True

    def acknowledged_in_vain(self) -> None:
        """A message was acknowledged that the broker has taken back: what the application has done with it must not be committed."""
        if self.takes_acknowledgements:
            self._taken_back = True
            self.acknowledged()

    def _worked(self) -> None:
        self._has_work = True
        self.rollback_only = self.rollback_only or self._taken_back

    def session_recreated(self) -> None:
        """The session was created anew after a failure: the broker has lost its part of the transaction."""
        if self._has_work:
            self.rollback_only = True
        elif self.takes_acknowledgements:
            self._taken_back = any(consumer.acknowledgements.awaited for consumer in self._session.consumers)

    async def commit(self, block: bool) -> None:
        """Commit the work begun before, once it is written; a send that fails meanwhile has the transaction rolled back."""
        channel = self._session.channel
        async with self._session.work.order:
            await self._finish_work()
            worked, received = self._has_work, self.has_receipts
            self._has_work = self.has_receipts = self._taken_back = False
            if not block and channel.protocol.version >= VERSION_COMMIT_CORRELATION:
                channel.send(Commit(channel.protocol.next_async_correlation()))
                return
            incarnation = channel.incarnation
            call = channel.submit(Commit(), NullResponse, bound=worked)
        try:
            await call.future
        except (UnblockedError, ConnectionTimedOutError) as error:
            if not call.sent:
                raise
            if channel.incarnation != incarnation:
                await self._clean_up()
            # Else the connection is still away: if the session can be reattached, the commit is sent again with it.
            raise TransactionOutcomeUnknownError(f"the connection failed while the transaction was committed: {error}") from error
        except MQError as error:
            if channel.incarnation == incarnation:
                if received and call.sent:
                    async with self._session.work.order:
                        await self.refused()
            elif isinstance(error, TransactionRolledBackError):
                await self._clean_up()
            raise
        finally:
            if not call.sent and channel.incarnation == incarnation:
                self._has_work = worked or self._has_work

    async def written(self) -> BaseException | None:
        """Wait until acknowledgements and sends are written.  Gives the error of a send that has failed meanwhile, and spoils the rest."""
        session = self._session
        await session.channel.ready()
        for answer in session.flush_batches():
            await answer
        cause = None
        if self.takes_sends:
            cause = await session.work.settled()
            if cause is not None:
                self.rollback_only = True
            await session.channel.ready()
        return cause

    async def _finish_work(self) -> None:
        """Acknowledgements and sends of the transaction are written, or it is rolled back and ``TransactionRolledBackError`` raised."""
        cause = await self.written()
        if not self.rollback_only:
            return
        try:
            await self.undo(Rollback(False), NullResponse, self.forget_work, in_order=True)
        except BaseException:  # also when the call is cancelled: the caller does not know yet that the work is lost
            self.rollback_only = True
            raise
        raise rolled_back(cause) from cause

    def forget_work(self) -> None:
        """Forget the sends and acknowledgements so far: they do not belong to the transaction any more."""
        self._has_work = self.has_receipts = self._taken_back = False
        self.rollback_only = False
        if self._session.commits is not None:
            self._session.commits.forget()

    async def rollback(self, consider_last_message_as_delivered: bool) -> None:
        """Undo the work begun before; sends that are not written yet fail."""
        self.drop_sends()
        await self.undo(Rollback(consider_last_message_as_delivered), NullResponse, self.forget_work)

    async def undo(self, request: Packet, expects: type[A], before: Callable[[], None], *, in_order: bool = False) -> A:
        """Stop delivery, give back buffered messages, send ``request``, deliver again.  ``before`` is called just before the request.

        Work that the application begins from now on comes after the request.  ``in_order``: the caller holds the session's ``work.order``.
        """
        session = self._session
        await session.channel.ready()
        was_started = session.started
        self._undoing += was_started
        try:
            if was_started:
                session.pause_consumers()
                await session.wait_for_handlers()
            async with nullcontext() if in_order else session.work.order:
                if was_started:
                    await session.channel.call(SessionStop(), NullResponse)
                for answer in session.flush_batches():
                    session.forget_answer(answer)
                for consumer in list(session.consumers):
                    consumer.clear(return_credits=True)
                before()
                # A rollback that waits for its turn has nothing to undo in a session made anew: it would take back what that one delivers.
                answered = session.channel.call(request, expects, bound=isinstance(request, Rollback))
            found: A = await answered
            return found
        finally:
            self._undoing -= was_started
            if was_started and not self._undoing:
                session.resume_consumers()
                if session.started:
                    session.channel.send(SessionStart())

    def drop_sends(self) -> None:
        """Sends of the transaction that are not written yet shall not be written any more."""
        if self.takes_sends:
            self._session.work.drop(TransactionRolledBackError("the transaction was rolled back before the message was sent"))

    async def refused(self) -> None:
        """The broker has undone received work instead of committing it: its messages come again, before what was buffered behind them.

        The caller holds the session's ``work.order``.  Work that was begun meanwhile is left as it is.
        """
        session = self._session
        if session.channel.error is None and not (self._has_work or session.work.count):
            await self._clean_up(in_order=True)

    async def _clean_up(self, *, in_order: bool = False) -> None:
        try:
            await self.undo(Rollback(False), NullResponse, self.forget_work, in_order=in_order)
        except MQError as error:
            self._session.runtime.log_warning(f"rolling back after a commit that has failed: {error}")


def rolled_back(cause: BaseException | None) -> TransactionRolledBackError:
    """``cause``: the error of a send; None when the connection failed."""
    if cause is not None:
        return TransactionRolledBackError(f"a message of the transaction was not sent, so it was rolled back: {cause}")
    return TransactionRolledBackError("the connection failed during the transaction: it was rolled back and can be repeated")


def undone_by_failure(error: BaseException | None) -> bool:
    """Has the commit that ended with ``error`` met a failure of the connection, so that the work can be repeated?"""
    return isinstance(error, TransactionRolledBackError) and error.__cause__ is None


def cut_off(error: BaseException | None) -> bool:
    """Is ``error`` that of a call whose answer, or of a body whose rest, a failure of the connection has taken away?"""
    return isinstance(error, (UnblockedError, ConnectionTimedOutError, LargeMessageTakenBackError))


async def run_transaction(session: S, function: Callable[[S], Awaitable[T]]) -> T:
    """See :meth:`mqclient.core.api.ClientSession.transaction`."""
    while True:
        try:
            result = await function(session)
        except GeneratorExit:
            raise  # nobody runs this coroutine any more, so that nothing can be awaited
        except BaseException as error:
            again = isinstance(error, MQError) and (session.rollback_only or cut_off(error))
            await _undo(session)
            if session.closed or not again:
                raise
            continue
        try:
            await session.commit()
        except (TransactionRolledBackError, TransactionOutcomeUnknownError) as error:
            if not undone_by_failure(error):
                raise
        except GeneratorExit:
            raise  # as above
        except BaseException:  # of a send that was on its way, or the call was cancelled
            await _undo(session)
            raise
        else:
            return result


async def _undo(session: RepeatableSession) -> None:
    """Leave nothing to the next transaction; a session that is over has nothing to leave."""
    if not session.closed:
        await session.rollback()
