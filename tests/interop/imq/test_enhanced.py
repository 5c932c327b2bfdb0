"""Unchanged Java clients with an enhanced cluster: the broker of a client is killed, and the client goes on at the taker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mqbroker.storage.shared.brokers import State
from tests.integration.imq.enhanced import EnhancedProcesses
from tests.interop.imq.test_delivery import FOLLOW
from tests.interop.puppet import Puppet, PuppetError

COUNT = 50
AFTER = 1000
GOES_ON_SECONDS = 60.0


@pytest.fixture
def members() -> Iterator[EnhancedProcesses]:
    made = EnhancedProcesses(3)
    yield made
    made.close()


@pytest.fixture
def puppet(java: None) -> Iterator[Puppet]:
    with Puppet() as made:
        yield made


def sent(puppet: Puppet, number: int) -> None:
    """Send one message; the outcome of what is under way when the broker dies is not known.

    A call may wait for 30 s until the client has a broker again.
    """
    deadline = time.monotonic() + GOES_ON_SECONDS
    while True:
        try:
            puppet.send("c", "queue://orders", 1, first=number)
        except PuppetError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"the client does not go on; it knows {puppet.topology('c')}") from error
            continue
        return


def test_a_client_goes_on_at_the_taker_with_all_messages(members: EnhancedProcesses, puppet: Puppet) -> None:
    puppet.connect("c", members.url(0, f"{FOLLOW}&useTopologyForLoadBalancing=false"), client_id="me")
    puppet.consume("durable", "c", "topic://news", subscription="sub")
    puppet.send("c", "queue://orders", COUNT)
    puppet.send("c", "topic://news", COUNT)
    taker = members.following(0)
    members.kill(0)
    sent(puppet, AFTER)
    assert members.rows()[0].state is State.FAILOVER_COMPLETE
    assert members.rows()[0].taker == f"b{taker}"
    puppet.consume("queue", "c", "queue://orders")
    received = puppet.take_all("queue", COUNT + 1)
    assert [each for each in received if each < AFTER] == list(range(COUNT))
    assert set(received) - set(range(COUNT)) == {AFTER}
    assert puppet.take_all("durable", COUNT) == list(range(COUNT))

    # The next one dies, too; what it had taken over goes on with it.
    puppet.close("queue")
    puppet.send("c", "queue://orders", COUNT, first=2 * AFTER)
    members.kill(taker)
    sent(puppet, 3 * AFTER)
    puppet.consume("last", "c", "queue://orders")
    received = puppet.take_all("last", COUNT + 1)
    assert [each for each in received if each < 3 * AFTER] == list(range(2 * AFTER, 2 * AFTER + COUNT))
