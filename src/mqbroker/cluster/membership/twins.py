"""Other brokers with the node id of this one, because a data folder was copied, or started twice.

Twins are never merged with this broker.  Each other place that is announced with the own node id is visited: only a broker that answers
there with this node id counts, since the announcement may name an old place of this broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger

from mqclient.core.connection.connection import describe
from mqclient.core.factories.locator import Locator
from mqclient.core.runtime import Runtime, Timer
from mqclient.errors import MQError
from mqclient.protocol.topology import place, same_place
from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.cluster")

CHECK_SECONDS = 30.0
"""Seconds between visits to a broker with the own node id."""

FIRST_CHECK_SECONDS = 1.0
PLACES_MAX = 10
"""Places that are visited because of announcements with the own node id, which may be false."""


class Twins:
    """Visits the places where another broker may have the own node id.

    ``open_locator`` makes a locator with a topology of its own; ``cleared`` is called when no place is suspected any more.
    """

    def __init__(
        self,
        runtime: Runtime,
        node_id: str,
        open_locator: Callable[[Sequence[TransportConfiguration]], Locator],
        cleared: Callable[[], object],
    ) -> None:
        self.places: dict[tuple[str, str], TransportConfiguration] = {}
        """The connectors of twins, by place."""
        self._runtime = runtime
        self._node_id = node_id
        self._open_locator = open_locator
        self._cleared = cleared
        self._suspected: dict[tuple[str, str], TransportConfiguration] = {}
        self._timer: Timer | None = None
        self._task: Any = None
        self._busy = self._stopped = False

    def start(self) -> None:
        """Visit the places that were suspected before a stop, soon."""
        self._stopped = False
        if self._suspected:
            self._visit_soon()

    def suspect(self, connector: TransportConfiguration) -> None:
        """A member announces the own node id with this connector."""
        if len(self._suspected) < PLACES_MAX and not self._stopped:
            self._suspected.setdefault(place(connector), connector)
            self._visit_soon()

    def _visit_soon(self) -> None:
        if self._timer is None and not self._busy:
            self._timer = self._runtime.call_later(FIRST_CHECK_SECONDS, self._check)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy:
            self._task.cancel()

    def _check(self) -> None:
        self._timer = None
        self._busy = True
        self._task = self._runtime.spawn(self._visit_all())

    async def _visit_all(self) -> None:
        try:
            for key, connector in list(self._suspected.items()):
                if await self._is_twin(connector):
                    self._found(key, connector)
                else:
                    self._gone(key, connector)
        except BaseException as error:
            if self._stopped:
                return
            self._runtime.log_failure("the look for brokers with the same node id failed", error)
        finally:
            self._busy = False
        if self._suspected:
            self._timer = self._runtime.call_later(CHECK_SECONDS, self._check)
        else:
            self._cleared()

    async def _is_twin(self, connector: TransportConfiguration) -> bool:
        locator = self._open_locator([connector])
        try:
            await locator.create_session_factory()
            member = locator.topology.get(self._node_id)
        except (MQError, ValueError):
            return False
        finally:
            await locator.close()
        return member is not None and same_place(member.primary, connector)

    def _found(self, key: tuple[str, str], connector: TransportConfiguration) -> None:
        if key not in self.places:
            self.places[key] = connector
            log.error(
                "AMQ212034: the broker at {place} has the node id of this one, {node}: there must not be two of them in a cluster; "
                "has a data folder been copied?",
                place=describe(connector),
                node=self._node_id,
            )

    def _gone(self, key: tuple[str, str], connector: TransportConfiguration) -> None:
        del self._suspected[key]
        if self.places.pop(key, None) is not None:
            log.info("the broker at {place}, which had the node id of this one, is gone", place=describe(connector))
