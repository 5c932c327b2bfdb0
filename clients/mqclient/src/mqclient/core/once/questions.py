"""Questions of a session with ``exactly_once`` to its broker, in sessions that are opened for a question and closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from mqclient.core.connection.channel import Channel
from mqclient.core.runtime import sleep
from mqclient.errors import (
    ConnectionTimedOutError,
    IllegalStateError,
    MQError,
    OperationTimeoutError,
    SessionCreationRejectedError,
    UnblockedError,
)

PAUSE = 0.5
"""Seconds until a broker is asked again that could not answer."""

CODED = "AMQ"
"""Begins the texts of errors that have a code; a broker without its change record says so without one."""

UNANSWERED = (ConnectionTimedOutError, UnblockedError)
"""The errors of a question whose answer the connection has taken with it."""


class PlainSession(Protocol):
    """A session without ``exactly_once``."""

    channel: Channel

    @property
    def closed(self) -> bool: ...

    def close(self) -> Awaitable[None]: ...


P = TypeVar("P", bound=PlainSession, covariant=True)
T = TypeVar("T")


def may_pass(error: BaseException | None) -> bool:
    """Can the broker answer otherwise in a while?  Its database or its master may be away, or it has too much to do."""
    if not isinstance(error, MQError):
        return False
    if isinstance(error, IllegalStateError):
        return not str(error).startswith(CODED)
    return error.retriable or isinstance(error, (OperationTimeoutError, SessionCreationRejectedError, UnblockedError))


class Questions(Generic[P]):
    """``channel`` is that of the session that asks; ``open_session(transacted)`` opens one for a question.

    ``patience``: seconds of the connection for which a broker is asked again that cannot answer now.
    """

    def __init__(self, channel: Channel, open_session: Callable[[bool], Awaitable[P]], patience: float) -> None:
        self.channel = channel
        self.open_session = open_session
        self._patience = patience

    async def ask(self, function: Callable[[P], Awaitable[T]]) -> T:
        """The answer of ``function``, called with a session, and called again when the answer is lost with the connection.

        Raises the refusal of the broker, one that may pass only when it has lasted for the patience, or the session that asks is over.
        """
        since: float | None = None
        while True:
            try:
                return await self._ask_once(function)
            except MQError as error:
                if self.channel.error is not None or not may_pass(error):
                    raise
                if isinstance(error, UNANSWERED):
                    continue
                since = self.channel.runtime.now() if since is None else since
                if self.has_lasted(since):
                    raise
            await self.pause()

    def has_lasted(self, since: float) -> bool:
        """Has a refusal that came first at ``since`` (monotonic, s) lasted for the patience?"""
        return self.channel.runtime.now() >= max(since, self.channel.usable_since) + self._patience

    async def pause(self) -> None:
        """Until the broker may be asked again."""
        await sleep(self.channel.runtime, PAUSE)

    async def _ask_once(self, function: Callable[[P], Awaitable[T]]) -> T:
        session = await self.open_session(False)
        try:
            return await function(session)
        finally:
            await session.close()
