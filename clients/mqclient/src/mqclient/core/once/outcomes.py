"""What a session with ``exactly_once`` asks of the broker besides its own work, in sessions that are opened for the question and closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from mqclient.core.connection.channel import Channel
from mqclient.core.once.caches import IdCaches
from mqclient.core.once.ids import COMMITS_ADDRESS, OwnIds, commit_marker
from mqclient.core.once.lookup import has_happened
from mqclient.core.once.sends import lost
from mqclient.core.settings import QueueConfiguration
from mqclient.errors import (
    ConnectionTimedOutError,
    DuplicateIdRejectedError,
    ExactlyOnceError,
    IdCacheError,
    MQError,
    TransactionRolledBackError,
    UnblockedError,
)
from mqclient.wire.packets import ROUTING_MULTICAST, Commit, NullResponse, Rollback, SessionSend

T = TypeVar("T")
_INTERRUPTED = (ConnectionTimedOutError, UnblockedError)
_NOTHING = "AMQPriority < 0"
"""A filter that no message passes: an Artemis remembers no ids of an address without a queue."""


class PlainSession(Protocol):
    """A session without ``exactly_once``."""

    channel: Channel

    @property
    def closed(self) -> bool: ...

    def create_queue(self, configuration: QueueConfiguration, *, if_missing: bool = False) -> Awaitable[None]: ...

    def close(self) -> Awaitable[None]: ...


P = TypeVar("P", bound=PlainSession)


async def in_session(open_session: Callable[[], Awaitable[P]], function: Callable[[P], Awaitable[T]]) -> T:
    """Call ``function`` with a session; again when the connection takes the answer with it."""
    while True:
        session = await open_session()
        try:
            return await function(session)
        except _INTERRUPTED:
            if session.closed:
                raise
        finally:
            await session.close()


class Outcomes:
    """``open_session(transacted)`` opens a session for a question."""

    def __init__(self, open_session: Callable[[bool], Awaitable[PlainSession]], caches: IdCaches, ids: OwnIds) -> None:
        self._open = open_session
        self._caches = caches
        self._ids = ids
        self._prepared = False

    def forget(self) -> None:
        """The session was created anew, perhaps by another broker."""
        self._prepared = False

    async def prepare(self) -> None:
        """Have the broker ready to remember commits.  Raises ``ExactlyOnceError`` when it cannot."""
        if self._prepared:
            return
        try:
            await in_session(lambda: self._open(False), self._make_queue)
        except MQError as error:
            raise ExactlyOnceError(f"the queue {COMMITS_ADDRESS}, by which a broker remembers commits, is missing: {error}") from error
        await self._caches.check(COMMITS_ADDRESS)
        self._prepared = True

    async def has_happened(self, commit_id: str) -> bool:
        """Has the commit with that id taken effect?  After False it never will.  Raises ``NodeLostError`` when nobody knows any more.

        Raises ``IdCacheError`` when the broker, now perhaps the backup, keeps no ids by which it could know.
        """
        try:
            await self.prepare()
            session = await self._open(True)
            try:
                return await has_happened(_Claims(session).claim, commit_id, self._ids.next)
            finally:
                await session.close()
        except IdCacheError as error:
            raise IdCacheError(f"whether the commit with the duplicate id {commit_id} has happened cannot be found out: {error}") from error
        except MQError as error:
            raise lost(f"the commit with the duplicate id {commit_id}", error) from error

    @staticmethod
    async def _make_queue(session: PlainSession) -> None:
        wanted = QueueConfiguration(
            name=COMMITS_ADDRESS, routing_type=ROUTING_MULTICAST, filter_string=_NOTHING, durable=True, auto_delete=False
        )
        await session.create_queue(wanted, if_missing=True)


class _Claims:
    """Claims ids, one claim at a time, each in a transaction of its own."""

    def __init__(self, session: PlainSession) -> None:
        self._channel = session.channel

    async def claim(self, ids: Sequence[str]) -> bool | None:
        """See :data:`mqclient.core.once.lookup.Claim`."""
        channel = self._channel
        await channel.ready()
        for each in ids:
            channel.send(SessionSend(commit_marker(each)))
        call = channel.submit(Commit(), NullResponse, bound=True)
        try:
            await call.future
            return True
        except DuplicateIdRejectedError:
            return False
        except _INTERRUPTED:
            if channel.error is not None:
                raise
        except TransactionRolledBackError:
            if call.sent:
                raise
        await self._settle()
        return None

    async def _settle(self) -> None:
        """Whatever was written before is done with, or undone, when this returns."""
        while True:
            await self._channel.ready()
            try:
                await self._channel.call(Rollback(False), NullResponse)
                return
            except _INTERRUPTED:
                if self._channel.error is not None:
                    raise
