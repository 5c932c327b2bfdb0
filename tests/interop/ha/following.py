"""What clients of a pair of brokers live through, whatever kind the pair is of: failovers while they send."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tests.interop.ha.clients import LOAD, WORK, Client

ENOUGH = 20
"""Messages of each client, or what else it counts, between two events."""
AWAITED_MS, MORE_MS = 20_000, 1_000
"""Of waiting for a message that has to come, and for one that nobody awaits."""
GO_ON_SECONDS = 60.0
"""Within which clients go on after an event; it takes a second where nothing else runs."""


class Working(Protocol):
    def progress(self) -> int:
        """How far it has come with its work."""


def follow(url: str, clients: Sequence[Client], events: Sequence[Callable[[], None]]) -> None:
    """Nothing that was acknowledged is missing or there twice; a transaction that was open when its broker went is rolled back as a whole.

    ``url`` is that of the primary, from which clients learn of the backup.  Each event makes the other broker the active one, and returns
    when it is.
    """
    for client in clients:
        client.connect(url)
        client.begin_load()
    for number, event in enumerate(events):
        go_on(clients)
        for client in clients:
            client.work(number)
        event()
        go_on(clients)
        for client in clients:
            client.work(number)
            assert not client.commit(), f"{client}, {event.__name__}: what was sent before is gone"
            client.work(number)
            assert client.commit(), f"{client}, {event.__name__}"
    with ThreadPoolExecutor(len(clients)) as pool:
        for checked in [pool.submit(_check, client, [*range(len(events))]) for client in clients]:
            checked.result()


def _check(client: Client, committed: Sequence[int]) -> None:
    acknowledged = client.end_load()
    received = _received(client, LOAD, acknowledged)
    lost = sorted(set(acknowledged) - set(received))
    assert not lost, f"{client}: of {len(acknowledged)} acknowledged messages {len(lost)} are lost, from {lost[0]} to {lost[-1]}"
    assert len(received) == len(set(received)), f"{client}: twice"
    assert _received(client, WORK, committed) == committed, client


def _received(client: Client, part: str, awaited: Collection[int]) -> list[int]:
    """Everything that the queue has: a machine with other work may deliver in fits and starts, but what is awaited has to come."""
    received: list[int] = []
    while missing := set(awaited) - set(received):
        found = client.take(part, len(missing), AWAITED_MS)
        if not found:
            break
        received += found
    return received + client.take(part, 1_000_000, MORE_MS)


def go_on(clients: Sequence[Working]) -> None:
    """Wait until every client has done some more."""
    deadline = time.monotonic() + GO_ON_SECONDS
    goals = [client.progress() + ENOUGH for client in clients]
    for client, goal in zip(clients, goals, strict=True):
        while client.progress() < goal:
            assert time.monotonic() < deadline, f"{client} does not go on: {client.progress()} of {goal}"
            time.sleep(0.05)
