"""More of what a cluster does for unchanged clients: finding each other, leaving some addresses out, links with TLS, bridges, diverts,
older clients, mqclient."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from mqclient.blocking import get_runner
from mqclient.core.api import TransportConfiguration
from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.jms import ConnectionFactory, JMSContext, JMSProducer
from tests.interop import instance
from tests.interop.cluster.nodes import Nodes, Shape
from tests.interop.cluster.scenarios import Scenario, Stage, until
from tests.interop.processes import free_port
from tests.interop.puppet import NOTHING_MS, Puppet

QUIET_SECONDS = 2.0
REFUSALS_MAX = 15  # two cluster connections of a real broker try again after 0.2 s to 0.5 s, each with a line
PYTHON_MS = 20_000
OLDER = ("jms-2.6.4", "jms-2.19.1")


def discovered(nodes: Nodes, java: Puppet) -> None:
    """The brokers find each other by UDP, and so does a client."""
    stage = Stage.begun(nodes, java)
    java.connect("found", nodes.discovery_url)
    until(lambda: {broker.port for broker in nodes.brokers} == _ports(java, "found"), "the client is told of all")
    java.consume("c1", "n1", "queue://orders")
    java.consume("c0", "n0", "queue://orders")
    stage.all_known()
    java.send("found", "queue://orders", 10)
    first, second = java.take_all("c0", 5), java.take_all("c1", 5)
    assert sorted(first + second) == list(range(10)), (first, second)


def client_balancing(nodes: Nodes, java: Puppet) -> None:
    """Connections of one factory go round its list and the topology; a list needs only one broker that is there."""
    Stage.begun(nodes, java)
    reached = {java.connect("a", nodes[0].url).rsplit(":", 1)[1]}
    reached |= {java.connect_like(f"a{number}", "a").rsplit(":", 1)[1] for number in range(3)}
    assert reached == {str(broker.port) for broker in nodes.brokers}
    java.connect("b", f"{nodes[0].url}?useTopologyForLoadBalancing=false")
    only = {java.connect_like(f"b{number}", "b").rsplit(":", 1)[1] for number in range(3)}
    assert only == {str(nodes[0].port)}
    listed = f"(tcp://127.0.0.1:{free_port()},{nodes[1].url})?useTopologyForLoadBalancing=false"
    assert java.connect("c", listed).endswith(f":{nodes[1].port}")


def address_lists(nodes: Nodes, java: Puppet) -> None:
    """Two cluster connections, each for addresses of its own; `!` leaves some out."""
    stage = Stage(nodes, java)
    nodes.start()
    stage.connect(0, 1)
    addresses = ("eu.open", "eu.private.mail", "us.open", "asia")
    for address in addresses:
        java.consume(f"c-{address}", "n1", f"topic://{address}")
    for prefix in ("eu", "us"):
        stage.known(0, 1, f"{prefix}.probe")
    for address in addresses:
        java.send("n0", f"topic://{address}", 3)
    for address in addresses:
        if address.endswith(".open"):
            assert java.take_all(f"c-{address}", 3) == [0, 1, 2]
        else:
            assert java.take(f"c-{address}", 1, NOTHING_MS) == []


def no_hops(nodes: Nodes, java: Puppet) -> None:
    """With max-hops 0 the brokers know each other, and no message leaves."""
    stage = Stage(nodes, java)
    nodes.start()
    stage.connect(0, 1)
    _members(java, 0, 2)
    _members(java, 1, 2)
    java.consume("s0", "n0", "topic://news")
    java.consume("s1", "n1", "topic://news")
    java.send("n0", "topic://news", 5)
    assert java.take_all("s0", 5) == list(range(5))
    assert java.take("s1", 1, NOTHING_MS) == []


def direct_only(nodes: Nodes, java: Puppet) -> None:
    """With allow-direct-connections-only the first of a chain has a link to the second alone, and knows of the third."""
    stage = Stage(nodes, java)
    nodes.start()
    stage.connect(0, 1, 2)
    _members(java, 0, 3)
    stage.known(0, 1)
    stage.known(1, 2)
    java.consume("s1", "n1", "topic://news")
    java.consume("s2", "n2", "topic://news")
    stage.known(0, 1)
    java.send("n0", "topic://news", 5)
    assert java.take("s1", 5) == list(range(5))
    assert java.take("s2", 1, NOTHING_MS) == []


def comes_later(nodes: Nodes, java: Puppet) -> None:
    """A broker works alone until another one comes; what it kept for itself stays."""
    stage = Stage(nodes, java)
    nodes[0].start()
    stage.connect(0)
    java.send("n0", "queue://orders", 3)
    nodes[1].start()
    stage.connect(1)
    stage.all_known()
    java.consume("c1", "n1", "queue://bills")
    stage.known(0, 1)
    java.send("n0", "queue://bills", 3)
    assert java.take("c1", 3) == list(range(3))
    java.consume("c0", "n0", "queue://orders")
    assert java.take("c0", 3) == list(range(3))


def wandering(nodes: Nodes, java: Puppet) -> None:
    """A consumer goes from broker to broker while a producer stays: each message once."""
    stage = Stage.begun(nodes, java)
    taken: list[int] = []
    for turn, number in enumerate((1, 0, 1, 0)):
        java.consume("c", f"n{number}", "queue://moving.orders")
        stage.all_known()
        java.send("n0", "queue://moving.orders", 25, first=25 * turn)
        taken += java.take("c", 25)
        java.close("c")
        stage.all_known()
    assert sorted(taken) == list(range(100))


def urgency(nodes: Nodes, java: Puppet) -> None:
    """Priority and expiry hold on the other broker."""
    stage = Stage.begun(nodes, java)
    java.consume("d1", "n1", "topic://news", subscription="archive", shared=True)
    java.close("d1")
    stage.known(0, 1)
    for number, priority in enumerate((1, 9, 4)):
        java.send("n0", "topic://news", first=number, priority=priority)
    # It has to reach the other broker before it expires, however slow the disks are.
    java.send("n0", "topic://news", first=3, ttl=4000)
    java.consume("expired", "n1", "queue://ExpiryQueue")
    assert java.take("expired", 1) == [3]
    java.consume("d1", "n1", "topic://news", subscription="archive", shared=True)
    assert java.take_all("d1", 3) == [1, 2, 0]


def qualified(nodes: Nodes, java: Puppet) -> None:
    """What is sent to a fully qualified queue name reaches the consumer of that queue elsewhere, and no other queue of the address."""
    stage = Stage.begun(nodes, java)
    for name in ("a", "b"):
        java.consume(f"c-{name}", "n1", f"queue://stock::stock-{name}")
    stage.known(0, 1)
    java.send("n0", "queue://stock::stock-b", 4)
    assert java.take_all("c-b", 4) == list(range(4))
    assert java.take("c-a", 1, NOTHING_MS) == []


def secured(nodes: Nodes, java: Puppet) -> None:
    """Links over TLS where both ends show certificates."""
    stage = Stage.begun(nodes, java)
    java.consume("c1", "n1", "queue://orders")
    java.consume("c0", "n0", "queue://bills")
    stage.all_known()
    java.send("n0", "queue://orders", 10)
    java.send("n1", "queue://bills", 2, size=300_000)
    assert java.take("c1", 10) == list(range(10))
    assert java.take("c0", 2) == list(range(2))


def wrong_password(nodes: Nodes, java: Puppet) -> None:
    """Brokers with different cluster passwords do not become a cluster, and say so now and then, not all the time."""
    stage = Stage(nodes, java)
    nodes.start()
    stage.connect(0, 1)
    until(lambda: all(_refusals(nodes, number) for number in (0, 1)), "both brokers tell of the wrong password")
    before = [_refusals(nodes, number) for number in (0, 1)]
    java.consume("s1", "n1", "topic://news")
    java.send("n0", "topic://news", 3)
    assert java.take("s1", 1, int(1000 * QUIET_SECONDS)) == []
    growth = [_refusals(nodes, number) - first for number, first in zip((0, 1), before, strict=True)]
    for number, broker in enumerate(nodes.brokers):
        assert broker.name != "mqbroker" or growth[number] <= REFUSALS_MAX, growth


def _refusals(nodes: Nodes, number: int) -> int:
    """How many lines of a broker are about a wrong cluster password."""
    process = nodes[number].running
    assert process is not None
    lines = [line.lower() for line in process.output()]
    return sum("cluster" in line and any(word in line for word in ("password", "credentials", "authenticate")) for line in lines)


def core_bridge(nodes: Nodes, java: Puppet) -> None:
    """A bridge of broker.xml by itself: a filter, another address, and what waits while the other broker is down."""
    nodes[0].start()
    stage = Stage(nodes, java)
    stage.connect(0)
    java.send("n0", "queue://outbox", 5, property="red")
    java.send("n0", "queue://outbox", 5, property="blue", first=5)
    nodes[1].start()
    stage.connect(1)
    java.consume("c1", "n1", "queue://inbox")
    assert java.take_all("c1", 5) == list(range(5))
    java.send("n0", "queue://outbox", 2, property="red", size=300_000)
    assert java.take("c1", 2) == [0, 1]


def diverts(nodes: Nodes, java: Puppet) -> None:
    """Copies of diverts go to consumers of the other broker; what comes from there is diverted by exclusive ones alone."""
    stage = Stage.begun(nodes, java)
    java.consume("orders0", "n0", "queue://orders")
    java.consume("audit1", "n1", "queue://audit")
    for number in (0, 1):
        java.consume(f"news{number}", f"n{number}", "topic://news")
    java.consume("old0", "n0", "topic://old-news")
    stage.all_known()
    java.send("n0", "queue://orders", 5, property="red")
    java.send("n0", "queue://orders", 5, first=5, property="blue")
    java.send("n0", "queue://orders", 2, first=10, property="red", size=300_000)
    java.send("n1", "queue://orders", 3, first=12, property="red")
    assert java.take("audit1", 7) == [*range(5), 10, 11]
    assert sorted(java.take_all("orders0", 15)) == list(range(15))
    java.send("n0", "topic://old-news", 5)
    java.send("n1", "topic://old-news", 5, first=5)
    for number in (0, 1):
        assert java.take(f"news{number}", 10) == list(range(10))
    for name in ("audit1", "news0", "news1", "old0"):
        assert java.take(name, 1, NOTHING_MS // 2) == [], name


def shared_subscriptions(nodes: Nodes, java: Puppet) -> None:
    """Members of a shared subscription on both brokers share, whether it is durable or not; where the last one goes the others get all."""
    stage = Stage.begun(nodes, java)
    kinds = {"durable": True, "fleeting": False}
    for name, durable in kinds.items():
        for member, number in (("a", 0), ("b", 0), ("c", 1)):
            java.consume(f"{name}-{member}", f"n{number}", "topic://moving.news", subscription=name, shared=True, durable=durable)
    stage.all_known()
    java.send("n0", "topic://moving.news", 12)
    for name in kinds:
        elsewhere = java.take(f"{name}-c", 6)
        found = [*elsewhere, *java.take(f"{name}-a", 3), *java.take(f"{name}-b", 3)]
        assert sorted(found) == list(range(12)), (name, found)
        java.close(f"{name}-c")
    stage.all_known()
    java.send("n0", "topic://moving.news", 4)
    java.send("n1", "topic://moving.news", 4, first=4)
    for name in kinds:
        found = java.take(f"{name}-a", 4) + java.take(f"{name}-b", 4)
        assert sorted(found) == list(range(8)), (name, found)
    assert java.take("durable-a", 1, NOTHING_MS) == []


def older_clients(nodes: Nodes, java: Puppet) -> None:
    """Clients of older versions know the members and go round them, exchange messages over brokers with the newest, and see who leaves."""
    stage = Stage.begun(nodes, java)
    _members(java, 0, 2)
    members = java.topology("n0")
    java.consume("c1", "n1", "queue://to-newest")
    stage.known(0, 1)
    with ExitStack() as running:
        older = [running.enter_context(Puppet(generation)) for generation in OLDER]
        for client in older:
            reached = {client.connect("m0", f"{nodes[0].url}?ha=true").rsplit(":", 1)[1]}
            _sees(client, members)
            reached |= {client.connect_like(f"x{number}", "m0").rsplit(":", 1)[1] for number in range(3)}
            assert reached == {str(broker.port) for broker in nodes.brokers}
            client.connect("m1", nodes[1].url)
            client.consume("to-older", "m1", "queue://to-older")
            client.consume("shared", "m1", "topic://news", subscription="archive", shared=True)
            stage.known(0, 1)
            for receiver, consumer, sender, on, to in (
                (client, "to-older", java, "n0", "queue://to-older"),
                (client, "shared", java, "n0", "topic://news"),
                (java, "c1", client, "m0", "queue://to-newest"),
            ):
                sender.send(on, to, 5, property="red")
                sender.send(on, to, 2, first=5, size=300_000)
                assert receiver.take(consumer, 7) == list(range(7)), (consumer, to)
            client.close("to-older")
            client.close("shared")
        stage.forget(1)
        nodes[1].stop()
        left = {node_id: ports for node_id, ports in members.items() if ports[0] == str(nodes[0].port)}
        for client in older:
            _sees(client, left)


def _sees(client: Puppet, members: dict[str, list[str | None]]) -> None:
    until(lambda: client.topology("m0") == members, f"a client of another version sees {members}")


def python(nodes: Nodes, java: Puppet) -> None:
    """mqclient on one broker and Java on the other, both ways; the topology is what Java sees; it goes on at the other broker."""
    stage = Stage.begun(nodes, java)
    java.consume("java1", "n1", "queue://to-java")
    _members(java, 0, 2)
    seen = {node_id: str(primary) for node_id, (primary, _) in java.topology("n0").items()}
    until(lambda: _topology(nodes[0].port) == seen, "mqclient sees the same members as Java")
    options = "reconnectAttempts=2&retryInterval=100&failoverAttempts=20&connectionLoadBalancingPolicyClassName=FirstElement"
    url = f"({nodes[0].url},{nodes[1].url})?ha=true&useTopologyForLoadBalancing=false&{options}"
    with ConnectionFactory(url, user=instance.USER, password=instance.PASSWORD) as factory, factory.create_context() as context:
        consumer = context.create_consumer(context.create_queue("to-python"))
        stage.all_known()
        producer = context.create_producer()
        _send(context, producer, range(10))
        assert java.take("java1", 10) == list(range(10))
        java.send("n1", "queue://to-python", 10)
        assert [consumer.receive_body(PYTHON_MS) for _ in range(10)] == [str(number) for number in range(10)]
        nodes[0].kill()
        _send(context, producer, range(10, 20))
        assert java.take("java1", 10) == list(range(10, 20))


def _send(context: JMSContext, producer: JMSProducer, numbers: Iterable[int]) -> None:
    for number in numbers:
        message = context.create_text_message(str(number))
        message.set_int_property("number", number)
        producer.send(context.create_queue("to-java"), message)


def _topology(port: int) -> dict[str, str]:
    """Node ids and the ports of primaries, as a new connection of mqclient to this port knows them."""
    runner = get_runner()
    locator = runner.locator([TransportConfiguration("broker", NETTY_CONNECTOR, (("host", "127.0.0.1"), ("port", str(port))))])
    try:
        runner.call(locator.create_session_factory)
        members = runner.call(lambda: list(locator.topology))
        return {member.node_id: str(dict(member.primary.parameters)["port"]) for member in members if member.primary is not None}
    finally:
        runner.call(locator.close)


def _ports(java: Puppet, connection: str) -> set[int]:
    return {int(str(primary)) for primary, _ in java.topology(connection).values()}


def _members(java: Puppet, number: int, count: int) -> None:
    """Wait until a broker tells its clients of so many members."""
    until(lambda: len(java.topology(f"n{number}")) == count, f"node {number} knows {count} members")


_OUTBOX = """
      <bridges>
         <bridge name="out">
            <queue-name>outbox</queue-name>
            <forwarding-address>inbox</forwarding-address>
            <filter string="colour = 'red'"/>
            <retry-interval>200</retry-interval>
            <user>admin</user>
            <password>secret</password>
            <static-connectors><connector-ref>node-1</connector-ref></static-connectors>
         </bridge>
      </bridges>
"""
_DIVERTS = """
      <diverts>
         <divert name="copies">
            <address>orders</address>
            <forwarding-address>audit</forwarding-address>
            <filter string="colour = 'red'"/>
         </divert>
         <divert name="renamed">
            <address>old-news</address>
            <forwarding-address>news</forwarding-address>
            <exclusive>true</exclusive>
         </divert>
      </diverts>
"""
_BOXES = "".join(f'         <address name="{name}"><anycast><queue name="{name}"/></anycast></address>\n' for name in ("outbox", "inbox"))

SCENARIOS: dict[str, Scenario] = {
    "discovered": Scenario(discovered, Shape(discovered=True)),
    "client-balancing": Scenario(client_balancing),
    "address-lists": Scenario(address_lists, Shape(connections={"europe": "eu,!eu.private", "america": "us"})),
    "no-hops": Scenario(no_hops, Shape(max_hops=0)),
    "direct-only": Scenario(direct_only, Shape(links=((1,), (2,), ()), direct_only=True), brokers=3),
    "comes-later": Scenario(comes_later),
    "wandering": Scenario(wandering, Shape(redistribution_delay=0)),
    "urgency": Scenario(urgency),
    "qualified": Scenario(qualified),
    "secured": Scenario(secured, Shape(secured=True)),
    "wrong-password": Scenario(wrong_password, Shape(passwords={1: "another"})),
    "core-bridge": Scenario(core_bridge, Shape(load_balancing="OFF", core={0: _OUTBOX}, addresses=_BOXES)),
    "diverts": Scenario(diverts, Shape(core={0: _DIVERTS})),
    "shared-subscriptions": Scenario(shared_subscriptions, Shape(redistribution_delay=0)),
    "older-clients": Scenario(older_clients),
    "python": Scenario(python),
}
