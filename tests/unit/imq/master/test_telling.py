"""Tellings come one at a time to each member; what a change costs grows linearly with the number of brokers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as wire
from tests.unit.imq.master.test_recording import create
from tests.unit.imq.net import ONE, Net, three

BROKERS = 12


class TellingTests(SynchronousTestCase):
    def test_what_is_told_meanwhile_is_told_as_one(self) -> None:
        net, one, _, _ = three()
        net.requests.clear()
        session = one.session()
        for number in range(5):
            session.ok(create(f"q{number}"))
        net.settle()
        self.assertEqual(net.requests["recordHas"], 4)
        self.assertEqual([len(node.queues) for node in net.nodes.values()], [5, 5, 5])

    def test_a_member_that_is_lost_meanwhile_is_told_when_it_is_back(self) -> None:
        net, one, two, third = three()
        third.deaf.add("recordHas")
        two.session().send(create("q"))
        net.settle()
        net.cut(two, third)
        third.deaf.clear()
        two.session().send(create("r"))
        net.settle()
        self.assertEqual((one.queues, third.queues), (["q", "r"], []))
        net.link(two, third)
        net.settle()
        self.assertEqual(third.queues, ["q", "r"])

    def test_the_master_tells_where_the_origin_could_not(self) -> None:
        net, one, two, third = three()
        one.store.held = True  # type: ignore[union-attr]
        two.session().send(create("q"))
        net.settle()
        two.stop(crash=True)
        one.store.held = False  # type: ignore[union-attr]
        one.store.sync()  # type: ignore[union-attr]
        net.settle()
        self.assertEqual((one.queues, third.queues), (["q"], []))
        net.settle(10)
        self.assertEqual(third.queues, ["q"])


class CostTests(SynchronousTestCase):
    """Open Message Queue issue 244: with many brokers a change cost more than it should."""

    def cluster(self, count: int) -> Net:
        net = Net()
        for number in range(1, count + 1):
            net.add(f"b{number}:7676")
        return net

    def cost(self, net: Net, *requests: wire.Packet) -> int:
        net.requests.clear()
        session = net.nodes["b2:7676"].session()
        for request in requests:
            session.send(request)
        net.settle()
        self.assertEqual(len(session.take()), len(requests))
        return sum(net.requests.values())

    def test_requests_for_one_change(self) -> None:
        """One to the master, a telling and a question for each of the others: 1 + 2 (n - 2)."""
        costs = {count: self.cost(self.cluster(count), create("q")) for count in (3, 6, BROKERS)}
        self.assertEqual(costs, {count: 1 + 2 * (count - 2) for count in costs})

    def test_a_change_of_the_master(self) -> None:
        net = self.cluster(BROKERS)
        net.requests.clear()
        net.nodes[ONE].session().ok(create("q"))
        net.settle()
        self.assertEqual(sum(net.requests.values()), 2 * (BROKERS - 1))

    def test_it_does_not_grow_with_the_number_of_definitions(self) -> None:
        net = self.cluster(BROKERS)
        first = self.cost(net, create("q"))
        for number in range(20):
            self.cost(net, create(f"q{number}"))
        self.assertEqual(self.cost(net, create("last")), first)
        self.assertEqual({len(node.queues) for node in net.nodes.values()}, {22})

    def test_a_client_id(self) -> None:
        net = self.cluster(BROKERS)
        self.assertEqual(self.cost(net, wire.UniqueAddMetadata("jms-client-id", "me")), BROKERS - 1)

    def test_a_broker_that_joins(self) -> None:
        """It asks the master once, and exchanges temporary destinations with each member."""
        net = self.cluster(BROKERS - 1)
        net.requests.clear()
        net.add(f"b{BROKERS}:7676")
        self.assertEqual(net.requests["join"], 1)
        self.assertEqual(net.requests["temporary"], 2 * (BROKERS - 1))
        self.assertLessEqual(sum(net.requests.values()), 4 * BROKERS)
