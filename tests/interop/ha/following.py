"""What clients of a pair of brokers live through, whatever kind the pair is of: failovers while they send."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.interop.ha.clients import LOAD, WORK, Client

ENOUGH = 20
"""Messages of each client between two events."""
GO_ON_SECONDS = 60.0
"""Within which clients go on after an event; it takes a second where nothing else runs."""


def follow(url: str, clients: Sequence[Client], events: Sequence[Callable[[], None]]) -> None:
    """Nothing that was acknowledged is missing or there twice; a transaction that was open when its broker went is rolled back as a whole.

    ``url`` is that of the primary, from which clients learn of the backup.  Each event makes the other broker the active one, and returns
    when it is.
    """
    for client in clients:
        client.connect(url)
        client.begin_load()
    for number, event in enumerate(events):
        _go_on(clients)
        for client in clients:
            client.work(number)
        event()
        _go_on(clients)
        for client in clients:
            client.work(number)
            assert not client.commit(), f"{client}, {event.__name__}: what was sent before is gone"
            client.work(number)
            assert client.commit(), f"{client}, {event.__name__}"
    for client in clients:
        acknowledged, received = client.end_load(), client.received(LOAD)
        assert not set(acknowledged) - set(received), f"{client}: lost"
        assert len(received) == len(set(received)), f"{client}: twice"
        assert client.received(WORK) == [*range(len(events))], client


def _go_on(clients: Sequence[Client]) -> None:
    """Wait until every client has sent some more."""
    deadline = time.monotonic() + GO_ON_SECONDS
    goals = [client.progress() + ENOUGH for client in clients]
    for client, goal in zip(clients, goals, strict=True):
        while client.progress() < goal:
            assert time.monotonic() < deadline, f"{client} does not go on: {client.progress()} of {goal}"
            time.sleep(0.05)
