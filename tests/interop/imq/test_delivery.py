"""Unchanged Java clients, and mqclient, with three home brokers: the producer at one, the consumer at another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqclient.jms import AcknowledgeMode, ConnectionFactory
from tests.integration.imq.members import Processes
from tests.interop.puppet import NOTHING_MS, Puppet, PuppetError

FOLLOW = "ha=true&reconnectAttempts=-1&retryInterval=100&maxRetryInterval=200&callTimeout=5000"
COUNT = 100
MARKER = 1_000_000


@pytest.fixture
def homes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.close()


@pytest.fixture
def puppet(java: None) -> Iterator[Puppet]:
    with Puppet() as made:
        yield made


def listen(puppet: Puppet, consumer: str) -> None:
    """Wait until messages of the first member's topic reach the consumer: it is made known there after it was made."""
    for _ in range(50):
        puppet.send("c0", "topic://t", 1, first=MARKER)
        if puppet.take(consumer, 1, 200):
            return
    raise AssertionError(f"{consumer} gets nothing")


def before_markers(puppet: Puppet, consumer: str, count: int) -> list[int]:
    """The messages of a topic that are no markers; so many have to come, and what is too much comes along."""
    found: list[int] = []
    while len(found) < count and (taken := puppet.take(consumer, 1)):
        found += [each for each in taken if each < MARKER]
    return found + [each for each in puppet.take(consumer, COUNT, NOTHING_MS) if each < MARKER]


def test_queue_topic_subscription_and_transaction(homes: Processes, puppet: Puppet) -> None:
    for number in range(3):
        puppet.connect(f"c{number}", homes.url(number, "useTopologyForLoadBalancing=false"), client_id=f"client-{number}")

    # A queue: producers at two brokers, the consumer at the third.
    puppet.consume("queue", "c2", "queue://q")
    puppet.send("c0", "queue://q", COUNT)
    puppet.send("c1", "queue://q", COUNT, first=COUNT)
    received = puppet.take_all("queue", 2 * COUNT)
    assert sorted(received) == list(range(2 * COUNT))
    assert [each for each in received if each < COUNT] == list(range(COUNT))
    puppet.close("queue")

    # A topic: a subscriber at each broker gets all of it.
    for number in range(3):
        puppet.consume(f"topic{number}", f"c{number}", "topic://t")
    for number in range(3):
        listen(puppet, f"topic{number}")
    puppet.send("c0", "topic://t", 10)
    for number in range(3):
        assert before_markers(puppet, f"topic{number}", 10) == list(range(10))

    # A durable subscription, known to all members, keeps what is sent while its subscriber is away.
    for number in (0, 1, 2):
        puppet.consume("durable", f"c{number}", "topic://d", subscription="sub", shared=True)
        puppet.close("durable")
    puppet.send("c0", "topic://d", 10)
    puppet.consume("durable", "c1", "topic://d", subscription="sub", shared=True)
    assert puppet.take_all("durable", 10) == list(range(10))

    # A transaction that has consumed from two homes and sends.
    puppet.do("transacted", "tx", on="c2")
    puppet.consume("from", "c2", "queue://work", within="tx")
    puppet.send("c0", "queue://work", 1)
    puppet.send("c1", "queue://work", 1, first=1)
    assert sorted(puppet.take("from", 2)) == [0, 1]
    puppet.send("tx", "queue://result", 1, first=7)
    puppet.do("commit", "tx")
    puppet.consume("result", "c0", "queue://result")
    assert puppet.take_all("result", 1) == [7]
    puppet.consume("left", "c0", "queue://work")
    assert puppet.take("left", 1, 700) == []


@pytest.mark.parametrize("generation", ["jms-2.44.0", "jms-2.6.4"])
def test_a_client_goes_round_the_members(homes: Processes, java: None, generation: str) -> None:
    with Puppet(generation) as puppet:
        _go_round(homes, puppet)


def take_until(puppet: Puppet, consumer: str, number: int) -> None:
    """Take messages until this one; what was acknowledged while a broker died, or sent twice, may come again before it."""
    found: list[int] = []
    for _ in range(10):
        found += puppet.take(consumer, 1)
        if number in found:
            return
    raise AssertionError(f"{number} has not come: {found}")


def _go_round(homes: Processes, puppet: Puppet) -> None:
    puppet.connect("c", homes.url(0, FOLLOW))
    topology = puppet.topology("c")
    assert all(backup is not None for _, backup in topology.values()), topology
    following = dict(topology.values())
    puppet.consume("q", "c", "queue://round")
    at = homes.port(0)
    for turn in range(3):
        puppet.send("c", "queue://round", 1, first=turn)
        take_until(puppet, "q", turn)
        number = next(each for each in range(3) if homes.port(each) == at)
        homes.kill(number)
        try:
            puppet.send("c", "queue://round", 1, first=100 + turn)
        except PuppetError:  # the call during which the connection broke
            puppet.send("c", "queue://round", 1, first=100 + turn)
        take_until(puppet, "q", 100 + turn)
        at = str(following[at])
        homes.restart(number)


def test_mqclient_takes_over_what_a_killed_broker_held(homes: Processes, puppet: Puppet) -> None:
    puppet.connect("c0", homes.url(0, "useTopologyForLoadBalancing=false"))
    puppet.send("c0", "queue://heart", COUNT)
    with ConnectionFactory(homes.url(1, "reconnectAttempts=0&useTopologyForLoadBalancing=false&blockOnAcknowledge=true")) as factory:
        holder = factory.create_context(session_mode=AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        consumer = holder.create_consumer(holder.create_queue("heart"))
        for _ in range(COUNT // 2):
            assert consumer.receive(10_000) is not None
        holder.acknowledge()
        homes.kill(1)
        puppet.connect("c2", homes.url(2, "useTopologyForLoadBalancing=false"))
        puppet.consume("rest", "c2", "queue://heart")
        assert puppet.take_all("rest", COUNT // 2) == list(range(COUNT // 2, COUNT))
