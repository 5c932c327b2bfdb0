"""What a cluster does for unchanged Java clients, one function for each section of the manual's chapter on clusters.

Every scenario holds for mqbrokers, for real Artemis brokers and for mixtures of both, unless :data:`SCENARIOS` says otherwise.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.puppet import NOTHING_MS, Puppet

KNOWN_SECONDS = 30.0

_probes = itertools.count()


class Stage:
    """The brokers and the clients of one scenario; connection ``n0`` goes to broker 0, and so on."""

    def __init__(self, nodes: Nodes, java: Puppet) -> None:
        self.nodes = nodes
        self.java = java

    @classmethod
    def begun(cls, nodes: Nodes, java: Puppet) -> Stage:
        """All brokers run, there is a client of each, and they are a cluster."""
        stage = cls(nodes, java)
        nodes.start()
        stage.connect(*range(len(nodes.brokers)))
        stage.all_known()
        return stage

    def connect(self, *numbers: int) -> None:
        for number in numbers:
            self.java.connect(f"n{number}", self.nodes[number].url)

    def known(self, source: int, at: int, probe: str = "probe") -> None:
        """Wait until broker ``source`` knows what clients of broker ``at`` did up to now; notifications of a broker keep their order.

        ``probe`` begins the address of a topic that goes to the other broker.
        """
        name = f"{probe}-{next(_probes)}"
        self.java.consume(name, f"n{at}", f"topic://{name}")
        deadline = time.monotonic() + KNOWN_SECONDS
        while time.monotonic() < deadline:
            self.java.send(f"n{source}", f"topic://{name}", persistent=False)
            if self.java.take(name, 1, 200):
                self.java.close(name)
                return
        raise AssertionError(f"node {source} did not learn of node {at} within {KNOWN_SECONDS} s")

    def all_known(self) -> None:
        numbers = range(len(self.nodes.brokers))
        for source, at in itertools.permutations(numbers, 2):
            self.known(source, at)

    def forget(self, number: int) -> None:
        """The broker of a connection went away on purpose: close what was left of it."""
        self.java.close(f"n{number}")


def until(holds: Callable[[], bool], what: str, seconds: float = KNOWN_SECONDS) -> None:
    """Wait for something that comes about by itself."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def shared_out(java: Puppet, count: int, *consumers: str) -> dict[str, list[int]]:
    """What each consumer gets of ``count`` messages, however they are shared out; what is too much comes along."""
    found: dict[str, list[int]] = {consumer: [] for consumer in consumers}
    deadline = time.monotonic() + KNOWN_SECONDS
    while True:
        for consumer, numbers in found.items():
            numbers += java.take(consumer, count, NOTHING_MS)
        if sum(map(len, found.values())) >= count or time.monotonic() > deadline:
            return found


def _begin(nodes: Nodes, java: Puppet) -> Stage:
    return Stage.begun(nodes, java)


def spread(nodes: Nodes, java: Puppet) -> None:
    """Consumers on both brokers share what a producer on one of them sends."""
    stage = _begin(nodes, java)
    java.consume("c0", "n0", "queue://orders")
    java.consume("c1", "n1", "queue://orders")
    stage.known(0, 1)
    java.send("n0", "queue://orders", 10)
    first, second = java.take_all("c0", 5), java.take_all("c1", 5)
    assert sorted(first + second) == list(range(10)), (first, second)
    assert len(first) == len(second) == 5, (first, second)


def consumer_elsewhere(nodes: Nodes, java: Puppet) -> None:
    """A producer on either broker reaches the only consumer, on the other one; sizes, priorities and persistence do not matter."""
    stage = _begin(nodes, java)
    java.consume("c1", "n1", "queue://orders")
    java.consume("c0", "n0", "queue://bills")
    stage.all_known()
    for on, to, consumer in (("n0", "queue://orders", "c1"), ("n1", "queue://bills", "c0")):
        java.send(on, to, 50)
        assert java.take(consumer, 50) == list(range(50))
        java.send(on, to, 5, persistent=False, priority=9)
        assert java.take(consumer, 5) == list(range(5))
        java.send(on, to, 3, size=300_000)
        assert java.take(consumer, 3) == list(range(3))


def nobody_listens(nodes: Nodes, java: Puppet) -> None:
    """Without a consumer anywhere messages stay where they were sent (ON_DEMAND)."""
    stage = _begin(nodes, java)
    java.consume("c1", "n1", "queue://orders")
    java.consume("c0", "n0", "queue://orders")
    java.close("c1")
    java.close("c0")
    stage.all_known()
    java.send("n0", "queue://orders", 6)
    java.consume("c0", "n0", "queue://orders")
    assert java.take_all("c0", 6) == list(range(6))


def strict(nodes: Nodes, java: Puppet) -> None:
    """STRICT goes round all brokers that have the queue, whether somebody listens there or not."""
    stage = _begin(nodes, java)
    for number in (0, 1):
        java.consume(f"c{number}", f"n{number}", "queue://orders")
        java.close(f"c{number}")
    stage.known(0, 1)
    java.send("n0", "queue://orders", 10)
    java.consume("c0", "n0", "queue://orders")
    java.consume("c1", "n1", "queue://orders")
    first, second = java.take_all("c0", 5), java.take_all("c1", 5)
    assert (len(first), len(second)) == (5, 5), (first, second)
    assert sorted(first + second) == list(range(10))


def off(nodes: Nodes, java: Puppet) -> None:
    """OFF leaves messages of queues alone; subscriptions of topics still get theirs."""
    stage = _begin(nodes, java)
    java.consume("c1", "n1", "queue://orders")
    java.consume("s1", "n1", "topic://news")
    stage.known(0, 1)
    java.send("n0", "queue://orders", 4)
    java.send("n0", "topic://news", 4)
    assert java.take("s1", 4) == list(range(4))
    assert java.take("c1", 1, NOTHING_MS) == []
    java.consume("c0", "n0", "queue://orders")
    assert java.take("c0", 4) == list(range(4))


def selectors(nodes: Nodes, java: Puppet) -> None:
    """Messages go to the broker whose consumers' selectors match."""
    stage = _begin(nodes, java)
    java.consume("red", "n0", "queue://paint", selector="colour='red'")
    java.consume("blue", "n1", "queue://paint", selector="colour='blue'")
    stage.known(0, 1)
    java.send("n0", "queue://paint", 5, property="blue")
    java.send("n0", "queue://paint", 5, property="red", first=5)
    assert java.take_all("blue", 5) == list(range(5))
    assert java.take_all("red", 5) == list(range(5, 10))


def topics(nodes: Nodes, java: Puppet) -> None:
    """Every subscription of every broker gets each message once; a shared one exists on both brokers and shares."""
    stage = _begin(nodes, java)
    for number in (0, 1):
        java.consume(f"s{number}", f"n{number}", "topic://news")
        java.consume(f"shared{number}", f"n{number}", "topic://news", subscription="desk", shared=True)
    stage.all_known()
    java.send("n0", "topic://news", 8)
    assert java.take_all("s0", 8) == list(range(8))
    assert java.take_all("s1", 8) == list(range(8))
    first, second = shared_out(java, 8, "shared0", "shared1").values()
    assert sorted(first + second) == list(range(8)), (first, second)
    assert first and second, (first, second)


def moving(nodes: Nodes, java: Puppet) -> None:
    """Messages move to a broker with a consumer, in either direction, large ones and those of subscriptions, too."""
    stage = _begin(nodes, java)
    java.consume("c0", "n0", "queue://moving.orders")
    java.consume("c1", "n1", "queue://moving.orders")
    java.close("c0")
    java.close("c1")
    stage.all_known()
    java.send("n0", "queue://moving.orders", 20)
    java.send("n0", "queue://moving.orders", 2, first=20, size=300_000)
    java.consume("c1", "n1", "queue://moving.orders")
    assert java.take("c1", 22) == list(range(22))
    java.close("c1")
    stage.all_known()
    java.send("n1", "queue://moving.orders", 20)
    java.consume("c0", "n0", "queue://moving.orders")
    assert java.take("c0", 20) == list(range(20))


def moving_subscription(nodes: Nodes, java: Puppet) -> None:
    """What waits in a shared durable subscription moves to the broker where somebody listens to it."""
    stage = _begin(nodes, java)
    java.consume("d0", "n0", "topic://moving.news", subscription="archive", shared=True)
    java.close("d0")
    java.send("n0", "topic://moving.news", 12)
    java.consume("d1", "n1", "topic://moving.news", subscription="archive", shared=True)
    assert sorted(java.take("d1", 12)) == list(range(12))
    stage.known(0, 1)


def moving_filters(nodes: Nodes, java: Puppet) -> None:
    """The five steps of the chapter: what only a consumer elsewhere wants moves there, although another one listens here."""
    stage = _begin(nodes, java)
    java.consume("red0", "n0", "queue://moving.paint", selector="colour='red'")
    java.consume("none1", "n1", "queue://moving.paint", selector="colour='none'")
    stage.all_known()
    java.send("n0", "queue://moving.paint", 4, property="blue")
    java.send("n0", "queue://moving.paint", 4, property="red", first=4)
    assert java.take_all("red0", 4) == list(range(4, 8))
    java.consume("blue1", "n1", "queue://moving.paint", selector="colour='blue'")
    assert java.take_all("blue1", 4) == list(range(4))


def off_then_moving(nodes: Nodes, java: Puppet) -> None:
    """OFF_WITH_REDISTRIBUTION: nothing is balanced when it is sent, and what nobody takes here moves."""
    stage = _begin(nodes, java)
    java.consume("c0", "n0", "queue://moving.orders")
    java.consume("c1", "n1", "queue://moving.orders")
    stage.all_known()
    java.send("n0", "queue://moving.orders", 6)
    assert java.take_all("c0", 6) == list(range(6))
    java.close("c0")
    stage.known(1, 0)
    java.send("n0", "queue://moving.orders", 6, first=6)
    assert java.take("c1", 6) == list(range(6, 12))


def chain(nodes: Nodes, java: Puppet) -> None:
    """Three brokers in a row, two hops: the first reaches a consumer at the third."""
    stage = Stage(nodes, java)
    for broker in reversed(nodes.brokers):
        broker.start()
    stage.connect(0, 1, 2)
    java.consume("c2", "n2", "queue://orders")
    stage.known(0, 2)
    java.send("n0", "queue://orders", 20)
    java.send("n0", "queue://orders", 2, first=20, size=300_000)
    assert java.take("c2", 22) == list(range(22))


def leaves_and_returns(nodes: Nodes, java: Puppet) -> None:
    """A broker that stops leaves the topology of clients, and is part of the cluster again after its start."""
    stage = _begin(nodes, java)
    until(lambda: len(java.topology("n0")) == 2, "the client is told of both")
    stage.forget(1)
    nodes[1].stop()
    deadline = time.monotonic() + KNOWN_SECONDS
    # The factory of n0 was made without ha: it ignores departures, so a new one is asked.
    while True:
        java.connect("look", nodes[0].url)
        alone = len(java.topology("look")) == 1
        java.close("look")
        if alone:
            break
        assert time.monotonic() < deadline, "the stopped broker stays in the topology"
        time.sleep(0.1)
    java.send("n0", "queue://orders", 3)
    nodes[1].start()
    stage.connect(1)
    java.consume("c1", "n1", "queue://late")
    stage.known(0, 1)
    java.send("n0", "queue://late", 3)
    assert java.take("c1", 3) == list(range(3))
    java.consume("c0", "n0", "queue://orders")
    assert java.take("c0", 3) == list(range(3))


def killed_and_started(nodes: Nodes, java: Puppet) -> None:
    """What was sent for a durable subscription of a broker that is down waits, and arrives once, in order."""
    stage = _begin(nodes, java)
    java.consume("d1", "n1", "topic://news", subscription="archive", shared=True)
    java.close("d1")
    stage.known(0, 1)
    nodes[1].kill()
    java.send("n0", "topic://news", 30)
    nodes[0].kill()
    nodes[0].start()
    nodes[1].start()
    stage.java.connect("again", nodes[1].url)
    java.consume("d2", "again", "topic://news", subscription="archive", shared=True)
    assert java.take("d2", 30) == list(range(30))
    assert java.take("d2", 1, NOTHING_MS) == []


def cut_links(nodes: Nodes, java: Puppet) -> None:
    """The links are cut again and again while messages cross: each arrives once, in order."""
    stage = _begin(nodes, java)
    java.consume("d1", "n1", "topic://news", subscription="archive", shared=True)
    stage.known(0, 1)
    for round_number in range(4):
        sending = java.begin("send", "cut-sender", on="n0", to="topic://news", count=100, first=100 * round_number)
        nodes.proxies[1].cut()
        nodes.proxies[1].lose_replies()
        java.end(sending)
        nodes.proxies[1].cut()
    assert java.take("d1", 400) == list(range(400))
    assert java.take("d1", 1, NOTHING_MS) == []


def later(nodes: Nodes, java: Puppet) -> None:
    """A message with a delivery delay comes to a consumer of another broker when it is due."""
    stage = _begin(nodes, java)
    java.consume("c1", "n1", "queue://orders")
    stage.known(0, 1)
    began = time.monotonic()
    java.send("n0", "queue://orders", 1, delay=1500)
    assert java.take("c1", 1) == [0]
    assert time.monotonic() - began > 1.4


GROUPS = 6
_PER_GROUP = 100


def _send_groups(java: Puppet, first: int, *connections: str) -> None:
    """Two messages of each group from each connection in turn; the hundreds of a number are its group."""
    for group, (turn, on) in itertools.product(range(GROUPS), enumerate(connections)):
        java.send(on, "queue://orders", 2, first=_PER_GROUP * group + first + 2 * turn, group=f"group-{group}")


def _take_groups(java: Puppet, count: int, *consumers: str) -> dict[int, str]:
    """Who has which group; each has one consumer, which gets everything, from each sender in order."""
    found = shared_out(java, count, *consumers)
    owners: dict[int, str] = {}
    for consumer, numbers in found.items():
        for group in {number // _PER_GROUP for number in numbers}:
            assert group not in owners, f"group {group} has two consumers: {found}"
            owners[group] = consumer
    assert sum(map(len, found.values())) == count, found
    for numbers in found.values():
        pairs = [(numbers.index(number), numbers.index(number + 1)) for number in numbers if number % 2 == 0]
        assert all(earlier < later for earlier, later in pairs), found
    return owners


def groups(nodes: Nodes, java: Puppet) -> None:
    """The messages of a group go to one consumer of the whole cluster, wherever they are sent."""
    stage = _begin(nodes, java)
    java.consume("c0", "n0", "queue://orders")
    java.consume("c1", "n1", "queue://orders")
    stage.all_known()
    _send_groups(java, 0, "n1", "n0")
    owners = _take_groups(java, 4 * GROUPS, "c0", "c1")
    assert len(owners) == GROUPS and len(set(owners.values())) == 2, owners
    _send_groups(java, 10, "n0", "n1")
    assert _take_groups(java, 4 * GROUPS, "c0", "c1") == owners


def _come_back(stage: Stage, number: int, consumer: str) -> None:
    """Start a broker that was killed, listen to its queue again, and wait until both brokers know each other again."""
    java, here, there = stage.java, f"m{number}", f"n{1 - number}"
    stage.nodes[number].start()
    java.connect(here, stage.nodes[number].url)
    java.consume(consumer, here, "queue://orders")
    for source, at in ((there, here), (here, there)):
        name = f"probe-{next(_probes)}"
        java.consume(name, at, f"topic://{name}")
        deadline = time.monotonic() + KNOWN_SECONDS
        while not java.take(name, 1, 200):
            assert time.monotonic() < deadline, f"{source} does not learn of {at} again"
            java.send(source, f"topic://{name}", persistent=False)


def groups_after_restart(nodes: Nodes, java: Puppet) -> None:
    """The broker with the LOCAL handler is killed and started again: each group stays where it was."""
    stage = _begin(nodes, java)
    java.consume("c0", "n0", "queue://orders")
    java.consume("c1", "n1", "queue://orders")
    stage.all_known()
    _send_groups(java, 0, "n1", "n0")
    owners = _take_groups(java, 4 * GROUPS, "c0", "c1")
    nodes[0].kill()
    _come_back(stage, 0, "d0")
    _send_groups(java, 10, "m0", "n1")
    again = _take_groups(java, 4 * GROUPS, "d0", "c1")
    assert again == {group: "d0" if owner == "c0" else owner for group, owner in owners.items()}, (owners, again)


def scale_down(nodes: Nodes, java: Puppet) -> None:
    """A broker that is stopped gives its messages to the other one, behind those that are there, in order and only once."""
    stage = _begin(nodes, java)
    due = 6.0
    for name in ("d", "e"):
        java.consume(f"{name}0", "n0", f"topic://{name}-news", subscription=name, shared=True)
        java.close(f"{name}0")
    java.send("n1", "queue://orders", 5)
    java.send("n0", "queue://orders", 300, first=5)
    java.send("n0", "queue://orders", 2, first=305, size=300_000)
    java.send("n0", "queue://light", 20, persistent=False)
    java.send("n0", "topic://d-news", 30)
    began = time.monotonic()
    java.send("n0", "queue://timed", 1, delay=int(due * 1000))
    stage.forget(0)
    nodes[0].stop()
    java.consume("orders", "n1", "queue://orders")
    assert java.take("orders", 307) == list(range(307))
    java.consume("light", "n1", "queue://light")
    assert java.take_all("light", 20) == list(range(20))
    java.consume("d1", "n1", "topic://d-news", subscription="d", shared=True)
    assert java.take_all("d1", 30) == list(range(30))
    java.consume("timed", "n1", "queue://timed")
    assert java.take("timed", 1) == [0]
    assert time.monotonic() - began > due - 0.2
    assert java.take("orders", 1, NOTHING_MS) == []


def groups_wait(nodes: Nodes, java: Puppet) -> None:
    """Messages of groups that belong to a broker which is down wait for it."""
    stage = _begin(nodes, java)
    java.consume("c0", "n0", "queue://orders")
    java.consume("c1", "n1", "queue://orders")
    stage.all_known()
    _send_groups(java, 0, "n1", "n0")
    owners = _take_groups(java, 4 * GROUPS, "c0", "c1")
    nodes[1].kill()
    _send_groups(java, 10, "n0")
    here = java.take_all("c0", 2 * sum(owner == "c0" for owner in owners.values()))
    assert {owners[number // _PER_GROUP] for number in here} == {"c0"}, (owners, here)
    _come_back(stage, 1, "d1")
    there = java.take_all("d1", 2 * GROUPS - len(here))
    assert {owners[number // _PER_GROUP] for number in there} == {"c1"}, (owners, there)
    assert len(here) + len(there) == 2 * GROUPS


SYMMETRIC = Shape()

_HANDLER = """
      <grouping-handler name="interop-groups">
         <type>{}</type>
         <address></address>
         <timeout>5000</timeout>
      </grouping-handler>"""
GROUPED = Shape(core={0: _HANDLER.format("LOCAL"), 1: _HANDLER.format("REMOTE")})


@dataclass(frozen=True)
class Scenario:
    """A scenario with the number of brokers that it needs and how they are joined.

    ``not_for``: the kind of broker for which it does not hold, and ``why``.
    """

    play: Callable[[Nodes, Puppet], None]
    shape: Shape = SYMMETRIC
    brokers: int = 2
    not_for: str = ""
    why: str = ""


SCALE_DOWN = """
      <ha-policy><primary-only><scale-down>
         <enabled>true</enabled>
         <connectors><connector-ref>node-1</connector-ref></connectors>
      </scale-down></primary-only></ha-policy>
"""
_QUICK = "            <call-timeout>3000</call-timeout>"

SCENARIOS: dict[str, Scenario] = {
    "spread": Scenario(spread),
    "consumer-elsewhere": Scenario(consumer_elsewhere),
    "nobody-listens": Scenario(nobody_listens),
    "strict": Scenario(strict, Shape(load_balancing="STRICT")),
    "off": Scenario(off, Shape(load_balancing="OFF")),
    "selectors": Scenario(selectors),
    "topics": Scenario(topics),
    "moving": Scenario(moving, Shape(redistribution_delay=0)),
    "moving-subscription": Scenario(moving_subscription, Shape(redistribution_delay=0)),
    "moving-filters": Scenario(moving_filters, Shape(redistribution_delay=0)),
    "off-then-moving": Scenario(off_then_moving, Shape(load_balancing="OFF_WITH_REDISTRIBUTION", redistribution_delay=0)),
    "chain": Scenario(chain, Shape(links=((1,), (2,), ()), max_hops=2), brokers=3),
    "leaves-and-returns": Scenario(leaves_and_returns),
    "killed-and-started": Scenario(killed_and_started),
    "cut-links": Scenario(cut_links, Shape(proxied=True, options=_QUICK)),
    "later": Scenario(later),
    "groups": Scenario(groups, GROUPED),
    "groups-after-restart": Scenario(groups_after_restart, GROUPED),
    "scale-down": Scenario(scale_down, Shape(core={0: SCALE_DOWN})),
    "groups-wait": Scenario(groups_wait, GROUPED),
}
