"""Brokers that were seen in the cluster, and are to be voters if they say that they vote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

if TYPE_CHECKING:
    from mqbroker.ha.proof.ports import Introduction
    from mqbroker.messaging.ports import Clock

AGAIN_SECONDS = 5.0
"""Before a broker that gave no answer is asked again."""

log = Logger(namespace="mqbroker.ha")


class Newcomers:
    """Asks one broker at a time, and again while it is in the cluster and does not answer.

    ``meet(node_id)`` asks and fails without an answer; ``join(node_id)`` is called for each broker that votes.
    """

    def __init__(self, clock: Clock, meet: Callable[[str], Deferred[Introduction]], join: Callable[[str], object]) -> None:
        self._clock = clock
        self._meet = meet
        self._join = join
        self._present: set[str] = set()
        self._waiting: dict[str, None] = {}
        """Node ids in the order in which they are asked."""
        self._asking: Deferred[None] = succeed(None)

    def seen(self, node_id: str) -> None:
        """The broker is in the cluster, or has announced itself anew."""
        self._present.add(node_id)
        self._waiting[node_id] = None
        if self._asking.called:
            self._asking = Deferred.fromCoroutine(self._ask_all())
            self._asking.addErrback(lambda failure: None)

    def gone(self, node_id: str) -> None:
        """The broker has left the cluster."""
        self._present.discard(node_id)
        self._waiting.pop(node_id, None)

    def stop(self) -> None:
        """Ask nobody any more."""
        self._present.clear()
        self._waiting.clear()
        self._asking.cancel()

    async def _ask_all(self) -> None:
        while self._waiting:
            node_id = next(iter(self._waiting))
            del self._waiting[node_id]
            try:
                met = await self._meet(node_id)
            except Exception as error:  # a broker may fail to answer in any way
                log.debug("{node} does not say whether it votes: {error}", node=node_id, error=error)
                if node_id in self._present:
                    self._clock.call_later(AGAIN_SECONDS, self._ask_again, node_id)
                continue
            if node_id not in self._present:
                continue
            if met.votes:
                self._join(node_id)
            else:
                log.info("{node} is no voter: it keeps nothing, since persistence-enabled is false there", node=node_id)

    def _ask_again(self, node_id: str) -> None:
        if node_id in self._present:
            self.seen(node_id)
