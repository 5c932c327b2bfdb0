"""The outcomes of commits, found out in sessions that are opened for the question and closed."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from mqclient.core.connection.channel import Channel
from mqclient.core.once.caches import IdCaches
from mqclient.core.once.ids import COMMITS_ADDRESS, OwnIds, commit_marker
from mqclient.core.once.lookup import has_happened
from mqclient.core.once.questions import UNANSWERED, PlainSession, Questions, may_pass
from mqclient.core.once.sends import lost
from mqclient.core.settings import QueueConfiguration
from mqclient.errors import DuplicateIdRejectedError, ExactlyOnceError, IdCacheError, MQError
from mqclient.wire.packets import ROUTING_MULTICAST, Commit, NullResponse, Rollback, SessionSend

_NOTHING = "AMQPriority < 0"
"""A filter that no message passes: an Artemis remembers no ids of an address without a queue."""


class QueueMaker(PlainSession, Protocol):
    def create_queue(self, configuration: QueueConfiguration, *, if_missing: bool = False) -> Awaitable[None]: ...


class Outcomes:
    def __init__(self, questions: Questions[QueueMaker], caches: IdCaches, ids: OwnIds) -> None:
        self._questions = questions
        self._caches = caches
        self._ids = ids
        self._prepared = False

    def forget(self) -> None:
        """The session was created anew, perhaps by another broker."""
        self._prepared = False

    async def prepare(self) -> None:
        """Have the broker ready to remember commits.  Raises ``ExactlyOnceError`` when it cannot, with the refusal as its cause."""
        if self._prepared:
            return
        try:
            await self._questions.ask(self._make_queue)
        except MQError as error:
            raise ExactlyOnceError(f"the queue {COMMITS_ADDRESS}, by which a broker remembers commits, is missing: {error}") from error
        await self._caches.check(COMMITS_ADDRESS)
        self._prepared = True

    async def has_happened(self, commit_id: str) -> bool:
        """Has the commit with that id taken effect?  After False it never will.  Asks until the broker tells, or the session is over.

        Raises ``NodeLostError`` when nobody knows any more, ``IdCacheError`` when the broker, now perhaps the backup, keeps no ids by which
        it could know, and ``ExactlyOnceError`` when it has refused to tell for the patience of questions, as where the user lacks a
        permission.
        """
        claims = _Claims(self, self._questions, commit_id)
        try:
            return await has_happened(claims.claim, commit_id, self._ids.next)
        finally:
            await claims.close()

    @staticmethod
    async def _make_queue(session: QueueMaker) -> None:
        wanted = QueueConfiguration(
            name=COMMITS_ADDRESS, routing_type=ROUTING_MULTICAST, filter_string=_NOTHING, durable=True, auto_delete=False
        )
        await session.create_queue(wanted, if_missing=True)


class _Claims:
    """Claims ids for the sake of the commit with ``commit_id``, one claim at a time, each in a transaction of its own."""

    def __init__(self, outcomes: Outcomes, questions: Questions[QueueMaker], commit_id: str) -> None:
        self._outcomes = outcomes
        self._questions = questions
        self._commit_id = commit_id
        self._session: QueueMaker | None = None
        self._complained = False
        self._refused_since: float | None = None
        """Since then each answer was a refusal that does not pass by itself."""

    async def claim(self, ids: Sequence[str]) -> bool | None:
        """See :data:`mqclient.core.once.lookup.Claim`.  A claim that the broker refuses for another reason is made again.

        A broker may have stored a claim that it refused: that ids of a repeated one are known does not say who has brought them.
        """
        refused = False
        while True:
            try:
                await self._outcomes.prepare()
                channel = await self._channel()
            except MQError as error:
                await self._wait(error)
                continue
            for each in ids:
                channel.send(SessionSend(commit_marker(each)))
            call = channel.submit(Commit(), NullResponse, bound=True)
            try:
                await call.future
                return True
            except DuplicateIdRejectedError:
                return None if refused else False
            except MQError as error:
                await self._settle()
                if not call.sent or isinstance(error, UNANSWERED):
                    return None
                refused = True
                await self._wait(error)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _channel(self) -> Channel:
        if self._session is None or self._session.closed:
            self._session = await self._questions.open_session(True)
        await self._session.channel.ready()
        return self._session.channel

    async def _settle(self) -> None:
        """Work that was written before is done with, or undone, when this returns."""
        assert self._session is not None
        channel = self._session.channel
        while channel.error is None:
            try:
                await channel.ready()
                await channel.call(Rollback(False), NullResponse)
                return
            except UNANSWERED:
                pass
            except MQError:
                break
        await self.close()

    async def _wait(self, error: MQError) -> None:
        """Until the broker may be asked again.  Raises why it must not be."""
        own = self._questions.channel
        what = f"the commit with the duplicate id {self._commit_id}"
        if own.error is not None:
            raise lost(what, own.error)
        if may_pass(error.__cause__ if isinstance(error, ExactlyOnceError) else error):
            self._refused_since = None
        else:
            self._refused_since = own.runtime.now() if self._refused_since is None else self._refused_since
            unknown = IdCacheError if isinstance(error, IdCacheError) else ExactlyOnceError
            if unknown is IdCacheError or self._questions.has_lasted(self._refused_since):
                raise unknown(f"whether {what} has happened cannot be found out: {error}") from error
        if not self._complained:
            self._complained = True
            own.runtime.log_warning(f"the broker cannot tell now whether {what} has happened, and is asked again: {error}")
        await self._questions.pause()
