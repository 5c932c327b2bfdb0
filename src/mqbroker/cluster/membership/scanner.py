"""The topology scanner: finds members that no other member has announced, at the places from configuration or discovery.

Source: ``protocol-spec/``, chapter "Cluster connections" (topology scanner).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from twisted.logger import Logger

from mqclient.core.runtime import Runtime, Timer
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqclient.core.factories.factory import SessionFactory
    from mqclient.core.factories.locator import Locator
    from mqclient.wire.primitives import TransportConfiguration

log = Logger(namespace="mqbroker.cluster")


class Scanned(Protocol):
    """The cluster connection, as its scanner sees it."""

    runtime: Runtime
    name: str

    def unknown_places(self) -> Sequence[TransportConfiguration]:
        """The known places without a known member."""

    def met(self, factory: SessionFactory) -> None:
        """A connection to a broker is up."""


class Scanner:
    """Connects to each unknown place once per round, asks for the topology, and disconnects.

    ``attempts`` rounds are made (-1: without end, 0: none), ``interval_ms`` apart; :meth:`look` begins anew.  A scanner may be stopped and
    started again.
    """

    def __init__(
        self, cluster: Scanned, open_locator: Callable[[Sequence[TransportConfiguration]], Locator], attempts: int, interval_ms: int
    ) -> None:
        self.rounds = 0
        self._cluster = cluster
        self._open_locator = open_locator
        self._attempts = attempts
        self._interval = interval_ms / 1000
        self._made = 0
        self._answered: set[TransportConfiguration] = set()
        """Places that were visited since :meth:`look`.  Their brokers are members that announce themselves at other places."""
        self._timer: Timer | None = None
        self._busy = False
        self._stopped = False
        self._task: Any = None

    def start(self) -> None:
        """Let :meth:`look` take effect again after :meth:`stop`."""
        self._stopped = False

    def look(self) -> None:
        """Begin the rounds again soon: places or members have changed."""
        self._made = 0
        self._answered.clear()
        if not self._busy and self._timer is None and self._attempts and not self._stopped:
            self._schedule()

    def stop(self) -> None:
        self._stopped = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if self._busy:
            self._task.cancel()

    def _schedule(self) -> None:
        self._timer = self._cluster.runtime.call_later(self._interval, self._begin)

    def _missing(self) -> list[TransportConfiguration]:
        return [place for place in self._cluster.unknown_places() if place not in self._answered]

    def _begin(self) -> None:
        self._timer = None
        places = self._missing()
        if places:
            self._busy = True
            self._task = self._cluster.runtime.spawn(self._round(places))

    async def _round(self, places: Sequence[TransportConfiguration]) -> None:
        self.rounds += 1
        self._made += 1
        try:
            for place in places:
                if place in self._missing():
                    await self._visit(place)
        except BaseException as error:
            if self._stopped:
                return
            self._cluster.runtime.log_failure("the topology scanner failed", error)
        finally:
            self._busy = False
        missing = self._missing()
        if not missing or self._stopped:
            return
        if 0 < self._attempts <= self._made:
            log.warn(
                "cluster connection {name}: no broker was found at {places}; the topology may be incomplete",
                name=self._cluster.name,
                places=", ".join(connector.name for connector in missing),
            )
            return
        self._schedule()

    async def _visit(self, place: TransportConfiguration) -> None:
        locator = self._open_locator([place])
        try:
            factory = await locator.create_session_factory()
            self._answered.add(place)
            self._cluster.met(factory)
        except MQError:
            pass  # no broker is there yet
        finally:
            await locator.close()
