"""The open transaction of a session: commit, rollback, and what a failover does to it.

Source: the Artemis manual, chapter "Client Failover" (transactions), and ``protocol-spec/``, chapter "Client failover".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mqclient.errors import (
    ConnectionTimedOutError,
    MQError,
    TransactionOutcomeUnknownError,
    TransactionRolledBackError,
    UnblockedError,
)
from mqclient.wire.hot import VERSION_COMMIT_CORRELATION
from mqclient.wire.packets import Commit, NullResponse, Packet, Rollback, SessionStart, SessionStop

if TYPE_CHECKING:
    from mqclient.core.session import Session

A = TypeVar("A", bound=Packet)


class Transaction:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._has_work = False
        self.rollback_only = False

    def sent(self) -> None:
        """A message was sent in the session."""
        if not self._session.auto_commit_sends:
            self._has_work = True

    def acknowledged(self) -> None:
        """A message was acknowledged in the session."""
        if not self._session.auto_commit_acks:
            self._has_work = True

    def session_recreated(self) -> None:
        """The session was created anew after a failure: what the broker had of the transaction is gone."""
        if self._has_work:
            self.rollback_only = True

    async def commit(self, block: bool) -> None:
        session = self._session
        await session.channel.ready()
        for answer in session.flush_batches():
            await answer
        if self.rollback_only:
            await self.rollback(False)
            raise TransactionRolledBackError("the connection failed during the transaction: it was rolled back and can be made again")
        channel = session.channel
        worked, self._has_work = self._has_work, False
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
        except TransactionRolledBackError:
            if channel.incarnation != incarnation:
                await self._clean_up()
            raise
        finally:
            if not call.sent and channel.incarnation == incarnation:
                self._has_work = worked or self._has_work

    def forget_work(self) -> None:
        """What was sent and acknowledged so far does not count any more."""
        self._has_work = False
        self.rollback_only = False

    async def rollback(self, consider_last_message_as_delivered: bool) -> None:
        await self.undo(Rollback(consider_last_message_as_delivered), NullResponse, self.forget_work)

    async def undo(self, request: Packet, expects: type[A], before: Callable[[], None]) -> A:
        """Stop delivery, give back what is buffered, send ``request``, deliver again.  ``before`` is called just before the request."""
        session = self._session
        await session.channel.ready()
        was_started = session.started
        try:
            if was_started:
                session.pause_consumers()
                await session.wait_for_handlers()
                await session.channel.call(SessionStop(), NullResponse)
            for answer in session.flush_batches():
                session.forget_answer(answer)
            for consumer in list(session.consumers):
                consumer.clear(return_credits=True)
            before()
            found: A = await session.channel.call(request, expects)
            return found
        finally:
            if was_started:
                session.resume_consumers()
                if session.started:
                    session.channel.send(SessionStart())

    async def _clean_up(self) -> None:
        try:
            await self.rollback(False)
        except MQError as error:
            self._session.runtime.log_warning(f"rolling back after a commit that was cut off: {error}")
