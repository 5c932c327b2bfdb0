"""A backup that has taken over only to give everything to another broker (Artemis manual, "High Availability and Failover")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

if TYPE_CHECKING:
    from mqbroker.config.model.cluster import ScaleDownConfiguration
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.node.clustering import Clustering

SETTLE_SECONDS = 2.0
"""After the takeover, before a target is looked for: other brokers deliver first what waits for this node, and so hear where it goes."""

RETRY_SECONDS = 5.0
"""Between two searches for a target; meanwhile clients are served."""

log = Logger(namespace="mqbroker.ha")


class Retirement:
    """Looks for a broker that takes the messages until there is one, and calls ``leave`` then.

    From that moment on a stop gives the messages to that broker; until then a stop leaves them here, for whoever goes on.
    """

    def __init__(self, clock: Clock, clustering: Clustering, configuration: ScaleDownConfiguration, leave: Callable[[], object]) -> None:
        self._clock = clock
        self._clustering = clustering
        self._configuration = configuration
        self._leave = leave
        self._told = ""
        """The reason why there is no target, as the log has it."""
        self._ended = False
        self._timer: Cancellable = clock.call_later(SETTLE_SECONDS, self._look)

    def stop(self) -> None:
        """The broker stops, or has ended."""
        self._ended = True
        self._timer.cancel()

    def _look(self) -> None:
        Deferred.fromCoroutine(self._find()).addErrback(lambda failure: log.failure("the search for a target failed", failure))

    async def _find(self) -> None:
        scale_down = self._clustering.make_scale_down(self._configuration)
        found = await scale_down.find()
        if self._ended:
            scale_down.leave()
            return
        if found is None:
            if scale_down.problem != self._told:
                self._told = scale_down.problem
                scale_down.tell_problem()
            self._timer = self._clock.call_later(RETRY_SECONDS, self._look)
            return
        self._clustering.scale_down = scale_down
        self._leave()
