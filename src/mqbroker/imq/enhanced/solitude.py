"""A broker that has lost the database: has it done so alone, and does the database answer again?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.imq.enhanced.desk import Desk
    from mqbroker.imq.links.requests import Peers
    from mqbroker.messaging.ports import Clock
    from mqbroker.storage.shared.brokers import BrokerTable

log = Logger(namespace="mqbroker.imq")

LATER_FAILURES = 2
"""The first look that fails after an answer may have begun before it, while the database was away for all."""


class Solitude:
    """Counts the looks at the database that have failed in a row; from ``limit`` on the other members are asked after each.

    ``alone`` is called when another one has the database, or when none can be asked although there are others, and when that has been so
    while further looks have failed: after an outage the first member that has the database again is no proof.
    """

    def __init__(self, limit: int, alone: Callable[[], object]) -> None:
        self.failures = 0
        self._limit = limit
        self._alone = alone
        self._asking = False
        self._alone_since: int | None = None
        """So many looks had failed when it was so for the first time."""

    def answered(self) -> None:
        """The database has answered."""
        if self.failures:
            log.info("the database answers again")
        self.failures = 0
        self._alone_since = None

    def unanswered(self, error: Exception, peers: Peers, others: bool) -> None:
        """The database has not answered; ``others``: there are members that run, as far as it has said."""
        self.failures += 1
        if self.failures == 1:
            log.warn("the database does not answer: {error}", error=error)
        if self.failures >= self._limit and not self._asking:
            self._asking = True
            Deferred.fromCoroutine(is_alone(peers, others)).addCallback(self._asked).addErrback(self._not_asked)

    def _asked(self, alone: bool) -> None:
        self._asking = False
        if not alone or self.failures < self._limit:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = self.failures
        elif self.failures >= self._alone_since + LATER_FAILURES:
            self._alone()

    def _not_asked(self, failure: Failure) -> None:
        self._asking = False
        log.failure("other members could not be asked for the database", failure=failure)


async def is_alone(peers: Peers, others: bool) -> bool:
    """Has another member the database, or can none be asked although there are ``others``?"""
    asked = [peer.ask("databaseAnswers") for peer in list(peers.by_id.values())]
    found = [await _or_false(each) for each in asked]
    return any(found) or (not asked and others)


async def _or_false(answer: Deferred[Any]) -> bool:
    try:
        return bool(await answer)
    except MQError:
        return False


def answers_again(desk: Desk, table: BrokerTable, clock: Clock, interval: float) -> Deferred[None]:
    """Ask the database every ``interval`` seconds; completes when it answers."""
    back: Deferred[None] = Deferred()

    def ask() -> None:
        desk.ask(table.now).addCallbacks(lambda _: back.callback(None), lambda _: clock.call_later(interval, ask))

    ask()
    return back
