"""Sends that a session has begun and not handed to the connection yet, and the calls that must not overtake them (decision 24).

A send may wait for credits, for a peer that reads, or for its body, while the application goes on.  A commit, the end of a branch or a
close that is called then comes after the send; and sends that begin after a commit come after it, although the commit itself still waits.
"""

from __future__ import annotations

from typing import Protocol

from mqclient.core.connection.channel import closed_error
from mqclient.core.runtime import Mutex, Runtime, Waiters
from mqclient.core.sending.flow import ProducerFlow
from mqclient.core.settings import LocatorSettings
from mqclient.errors import MQError


class Underway:
    """Counts sends from their beginning until they are written, and lets others wait until there are none."""

    __slots__ = ("_failure", "_runtime", "_waiters", "count")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.count = 0
        self._failure: BaseException | None = None
        self._waiters = Waiters(runtime)

    def ended(self, failure: BaseException | None = None) -> None:
        """A send is written, or was given up because of ``failure``."""
        self.count -= 1
        if self._waiters.waiting:
            self._failure = self._failure or failure
            if not self.count:
                self._wake()

    async def settled(self, seconds: float | None = None) -> BaseException | None:
        """Wait until no send is left; returns the error of the first one that has failed meanwhile.

        Raises ``TimeoutError`` after ``seconds``; None: waits as long as it takes.
        """
        if not self.count:
            return None
        failure: BaseException | None = await self._waiters.wait(seconds)
        return failure

    def _wake(self) -> None:
        failure, self._failure = self._failure, None
        self._waiters.wake(failure)


class OpenTransaction(Protocol):
    """The transaction of a session, as its sends see it."""

    @property
    def takes_sends(self) -> bool:
        """Does a send made now wait for a commit, or for the outcome of a branch?"""

    def sent(self) -> None:
        """A message was sent in the session."""


class Work(Underway):
    """The sends of a session.  ``xa``: the work of its transactions belongs to branches, and outlives it.

    ``order`` is held from the beginning of a call that ends a transaction until that is handed to the connection: sends and
    acknowledgements that begin meanwhile enter it first, and so come after the call.
    """

    __slots__ = ("_dropped", "_flow", "_settings", "_transaction", "_xa", "era", "order")

    def __init__(self, runtime: Runtime, flow: ProducerFlow, transaction: OpenTransaction, xa: bool, settings: LocatorSettings) -> None:
        super().__init__(runtime)
        self._flow = flow
        self._transaction = transaction
        self._xa = xa
        self._settings = settings
        self.order = Mutex(runtime)
        self.era = 0
        """How often sends were dropped; a send that began in an earlier era must not be written."""
        self._dropped: MQError | None = None

    async def begin_in_order(self, era: int) -> None:
        """A send of that era begins after the call that holds ``order``."""
        async with self.order:
            self.check(era)
            self.count += 1

    def check(self, era: int) -> None:
        """Raise why a send that began in that era must not be written."""
        if era != self.era and self._dropped is not None:
            raise self._dropped

    def send_ended(self, era: int, failure: BaseException | None = None) -> None:
        """As :meth:`ended`, for a send that may have been dropped."""
        if era == self.era:
            self.ended(failure)

    def drop(self, error: MQError) -> None:
        """Give up the sends that are begun and not written: each fails with ``error``, at the latest when it goes on."""
        self.era += 1
        self._dropped = error
        self.count = 0
        self._failure = error
        self._wake()
        self._flow.drop(error)

    async def finish(self) -> None:
        """Before closing: wait until the sends are written, at most ``call_timeout``; in a transaction drop them."""
        if self._transaction.takes_sends and not self._xa:
            self.drop(closed_error("session"))  # the transaction is rolled back
            return
        try:
            await self.settled(self._settings.call_timeout / 1000)
        except TimeoutError:
            self._runtime.log_warning(f"{self.count} messages cannot be sent before their session is closed")
