"""Unchanged Java clients with three peers: durable subscriptions are on record in a database, whichever broker is down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.imq.members import Processes
from tests.interop.puppet import Puppet

COUNT = 10


class PeerProcesses(Processes):
    """Three members whose record is in a file of SQLite."""

    def program(self, number: int, folder: str) -> list[str]:
        return [*super().program(number, folder), f"jdbc:sqlite:{self.folder}/record.db"]


@pytest.fixture
def peers() -> Iterator[Processes]:
    made = PeerProcesses()
    yield made
    made.close()


@pytest.fixture
def puppet(java: None) -> Iterator[Puppet]:
    with Puppet() as made:
        yield made


def test_a_subscription_is_known_to_all_while_another_broker_is_down(peers: Processes, puppet: Puppet) -> None:
    for number in range(3):
        puppet.connect(f"c{number}", peers.url(number, "useTopologyForLoadBalancing=false"))
    puppet.send("c0", "queue://q", COUNT)
    puppet.consume("queue", "c2", "queue://q")
    assert puppet.take_all("queue", COUNT) == list(range(COUNT))

    # No broker is distinguished: the first may be down while a subscription is made at the second.
    peers.kill(0)
    puppet.consume("durable", "c1", "topic://d", subscription="sub", shared=True)
    puppet.close("durable")
    peers.restart(0)
    puppet.connect("again", peers.url(0, "useTopologyForLoadBalancing=false"))
    puppet.send("again", "topic://d", COUNT)
    puppet.consume("durable", "c2", "topic://d", subscription="sub", shared=True)
    assert puppet.take_all("durable", COUNT) == list(range(COUNT))
