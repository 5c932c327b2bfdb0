"""The network check of a configuration, with pings and pages of this machine, as a start and ``check config`` need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mqbroker.ha.network_check.monitor import NetworkCheck
from mqbroker.ha.network_check.places import NetworkPlaces, network_places, network_remarks
from mqbroker.process.pings import is_own_address, ping
from mqbroker.process.web_answers import web_answer

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from mqbroker.config.model.configuration import Configuration
    from mqbroker.messaging.ports import Clock

SPARE_SECONDS = 0.5
"""Added to the time for an answer: a process has to be started for a ping, and names have to be looked up."""


def places_of(configuration: Configuration) -> NetworkPlaces:
    """Raises ValueError with one sentence that names the element."""
    return network_places(configuration, is_own_address)


def remarks_of(configuration: Configuration) -> Iterator[str]:
    """Sentences for the log of a start.  Raises ValueError as :func:`places_of`."""
    return network_remarks(configuration, places_of(configuration))


def make_network_check(
    configuration: Configuration, clock: Clock, reactor: Any, defer_to_thread: Callable[..., Deferred[Any]]
) -> NetworkCheck:
    """Raises ValueError as :func:`places_of`."""
    places = places_of(configuration)
    seconds = configuration.network_check_timeout / 1000 + SPARE_SECONDS

    def ask(place: str) -> Deferred[Any]:
        page = places.pages.get(place)
        if page is None:
            return defer_to_thread(ping, places.pings[place], seconds)
        return web_answer(reactor, page.host, page.port, page.request, secure=page.secure)

    period = configuration.network_check_period / 1000
    return NetworkCheck(clock, ask, [*places.pings, *places.pages], period, seconds)
