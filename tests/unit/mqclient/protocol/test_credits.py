"""Credits, retries, rates, load balancing, the topology."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.credits import ConsumerCredits, ProducerCredits
from mqclient.protocol.retry import POLICY_PACKAGE, POLICY_SUFFIX, ConnectionPolicy, RateLimiter, RetryPlan, load_balancing_policy
from mqclient.protocol.topology import Topology, TopologyMember, same_connector
from mqclient.wire.primitives import TransportConfiguration

A, B = (TransportConfiguration(name, "netty", (("host", "h"), ("port", port))) for name, port in (("a", "1"), ("b", "2")))


class ConsumerCreditTests(SynchronousTestCase):
    @given(st.integers(1, 5000), st.lists(st.integers(1, 2000), max_size=50))
    def test_what_is_taken_is_returned(self, window: int, sizes: list[int]) -> None:
        """The broker never ends without credits while everything was taken, and never has more than the window at once."""
        credits = ConsumerCredits(window)
        balance = credits.initial()
        for size in sizes:
            self.assertGreater(balance, 0)
            balance += credits.taken(size) - size
            self.assertLessEqual(balance, window)

    @given(st.lists(st.integers(2, 2000), max_size=20))
    def test_on_demand_the_balance_ends_at_zero(self, sizes: list[int]) -> None:
        credits, balance = ConsumerCredits(0), 0
        for size in sizes:
            balance += credits.ask()
            self.assertEqual((balance, credits.ask()), (1, 0))
            credits.arrived()
            balance += credits.taken(size) - size
            self.assertEqual(balance, 0)
        self.assertFalse(credits.withdraw())
        credits.ask()
        self.assertTrue(credits.withdraw())

    def test_parts_of_a_large_message_on_demand(self) -> None:
        credits = ConsumerCredits(0)
        self.assertEqual([credits.taken(100, False), credits.taken(50, False), credits.taken(50, True)], [100, 50, 49])

    def test_after_a_failure(self) -> None:
        self.assertEqual([ConsumerCredits(window).after_recreation() for window in (-1, 0, 1, 1000)], [-1, 1, 1, 500])
        self.assertEqual(ConsumerCredits(-1).taken(100), 0)


class ProducerCreditTests(SynchronousTestCase):
    @given(st.integers(2, 10_000), st.lists(st.integers(1, 20_000), max_size=40))
    def test_what_was_asked_for_suffices(self, window: int, sizes: list[int]) -> None:
        credits = ProducerCredits(window)
        for size in sizes:
            asked = credits.request(size)
            self.assertEqual(credits.request(size), 0)
            credits.granted(asked)
            self.assertTrue(credits.spend(size))
            self.assertGreaterEqual(credits.balance, 0)

    @given(st.integers(2, 10_000), st.lists(st.tuples(st.integers(1, 20_000), st.integers(0, 2)), max_size=20))
    def test_who_does_not_wait_for_credits_has_some_in_the_end(self, window: int, sends: list[tuple[int, int]]) -> None:
        credits = ProducerCredits(window)
        on_their_way = []
        for size, grants in sends:
            on_their_way.append(credits.request(size))
            credits.balance -= size
            for _ in range(grants):
                if on_their_way:
                    credits.granted(on_their_way.pop(0))
                    on_their_way.append(credits.request(0))
        while on_their_way:
            self.assertGreaterEqual(min(on_their_way), 0)
            credits.granted(on_their_way.pop(0))
        self.assertGreaterEqual(credits.balance, 0)

    def test_request_takes_no_account_of_the_balance(self) -> None:
        credits = ProducerCredits(1000)
        credits.granted(credits.request(0))
        credits.spend(100)
        self.assertEqual(credits.request(10), 500)

    def test_refusal_is_told_once_and_empties_the_balance(self) -> None:
        credits = ProducerCredits(1000)
        credits.refused(credits.request(100))
        self.assertEqual((credits.take_refusal(), credits.take_refusal(), credits.balance), (True, False, 0))
        credits.granted(500)
        self.assertEqual(credits.balance, 500)

    def test_refusal_that_no_send_has_met_is_out_of_date_once_there_is_room(self) -> None:
        credits = ProducerCredits(1000)
        credits.refused(credits.request(100))
        self.assertEqual(credits.spare, 0)
        credits.granted(500)
        self.assertEqual((credits.take_refusal(), credits.balance, credits.spare), (False, 500, 500))

    def test_after_a_failure(self) -> None:
        credits = ProducerCredits(1000)
        self.assertEqual(credits.after_recreation(), 1000)
        credits.request(5000)
        self.assertEqual(credits.after_recreation(), 5000)


class RetryTests(SynchronousTestCase):
    def test_pauses_grow_to_the_limit(self) -> None:
        plan = RetryPlan(100, 2.0, 500, 4)
        self.assertEqual([plan.failed() for _ in range(4)], [0.1, 0.2, 0.4, 0.5])
        self.assertTrue(plan.exhausted)
        plan.restart()
        self.assertEqual((plan.failed(), plan.exhausted), (0.1, False))

    def test_interval_above_the_limit(self) -> None:
        self.assertEqual(RetryPlan(5000, 1.0, 2000, 1).failed(), 2.0)

    def test_endless(self) -> None:
        plan = RetryPlan(1, 1.0, 1, -1)
        for _ in range(1000):
            plan.failed()
        self.assertFalse(plan.exhausted)

    @given(st.integers(1, 50), st.lists(st.floats(0, 2), max_size=200))
    def test_rate_is_kept(self, rate: int, steps: list[float]) -> None:
        limiter, now, permits = RateLimiter(rate), 0.0, list[float]()
        for step in steps:
            now += step
            delay = limiter.delay(now)
            if delay:
                self.assertLessEqual(delay, 1.0 + 1e-9)  # seconds are rounded
            else:
                permits.append(now)
        windows: dict[int, int] = {}
        for permit in permits:
            windows[int(permit)] = windows.get(int(permit), 0) + 1
        self.assertTrue(all(count <= 2 * rate for count in windows.values()))

    def test_bad_rate(self) -> None:
        self.assertRaises(ValueError, RateLimiter, 0)


class PolicyTests(SynchronousTestCase):
    def policy(self, name: str, draws: list[int]) -> ConnectionPolicy:
        return load_balancing_policy(name, lambda count: draws.pop(0) % count)

    def test_policies(self) -> None:
        for name, expected in (
            ("RoundRobin", [2, 0, 1, 2]),
            ("Random", [2, 1, 0, 1]),
            ("RandomSticky", [2, 2, 2, 2]),
            ("FirstElement", [0, 0, 0, 0]),
        ):
            policy = self.policy(name, [2, 1, 0, 1])
            self.assertEqual([policy.select(3) for _ in range(4)], expected, name)

    def test_fewer_brokers_than_before(self) -> None:
        for name in ("RoundRobin", "RandomSticky"):
            policy = self.policy(name, [4, 1])
            policy.select(5)
            self.assertLess(policy.select(2), 2)

    def test_all_spellings(self) -> None:
        for package in (POLICY_PACKAGE, "org.apache.activemq.api.core.client.loadbalance.", "org.hornetq.api.core.client.loadbalance.", ""):
            for suffix in (POLICY_SUFFIX, ""):
                policy = self.policy(f" {package}FirstElement{suffix}", [])
                self.assertEqual(policy.select(3), 0)
                self.assertEqual(self.policy(f"{package}Random{suffix}", [2]).select(3), 2)

    def test_a_policy_of_the_application(self) -> None:
        for name in (f"{__name__}.LastElement", f"{__name__}:LastElement"):
            self.assertEqual(self.policy(name, []).select(7), 6)

    def test_what_is_no_policy(self) -> None:
        for name, word in (
            ("RoundRobbin", "is RoundRobin meant?"),
            (POLICY_PACKAGE + "Sticky" + POLICY_SUFFIX, "RandomSticky"),
            ("com.example.Mine", "com"),
            (f"{__name__}.Nobody", "Nobody"),
            (f"{__name__}.PolicyTests", "cannot be used"),
            ("", "RoundRobin"),
        ):
            self.assertIn(word, str(self.assertRaises(ValueError, load_balancing_policy, name, lambda count: 0)), name)


class LastElement:
    """A policy of an application."""

    def select(self, count: int) -> int:
        return count - 1


class TopologyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.topology = Topology()
        self.told: list[tuple[str, bool]] = []
        self.topology.add_listener(lambda member, up: self.told.append((member.node_id, up)))

    def test_newer_replaces_and_keeps_what_is_missing(self) -> None:
        self.assertTrue(self.topology.up(TopologyMember("n", 5, A, B)))
        self.assertTrue(self.topology.up(TopologyMember("n", 6, B)))
        member = self.topology.get("n")
        assert member is not None
        self.assertEqual((member.unique_event_id, member.primary, member.backup), (6, B, B))
        self.assertFalse(self.topology.up(TopologyMember("n", 6, A)))

    def test_older_fills_in_silently(self) -> None:
        self.topology.up(TopologyMember("n", 5, A))
        self.assertFalse(self.topology.up(TopologyMember("n", 4, A, B)))
        self.assertEqual(self.topology.pairs(), [(A, B)])
        self.topology.up(TopologyMember("m", 5, None, B))
        self.assertTrue(self.topology.up(TopologyMember("m", 3, A)))
        member = self.topology.get("m")
        assert member is not None
        self.assertEqual((member.unique_event_id, member.primary, member.backup), (5, A, B))

    def test_departure(self) -> None:
        self.topology.up(TopologyMember("n", 5, A))
        self.assertFalse(self.topology.down("n", 4))
        self.assertTrue(self.topology.down("n", 5))
        self.assertFalse(self.topology.down("n", 9))
        self.assertFalse(self.topology.up(TopologyMember("n", 4, A)))
        self.assertFalse(self.topology.up(TopologyMember("n", 5, A)))  # else a departure and it would chase each other for ever
        self.assertTrue(self.topology.up(TopologyMember("n", 6, A)))
        self.assertEqual(self.told, [("n", True), ("n", False), ("n", True)])

    def test_departures_are_forgotten_when_somebody_is_asked_anew(self) -> None:
        self.topology.up(TopologyMember("n", 5, A))
        self.topology.down("n", 7)
        self.topology.forget_departures()
        self.assertTrue(self.topology.up(TopologyMember("n", 5, A)))

    def test_backup_and_own_activation_always_count(self) -> None:
        self.topology.up(TopologyMember("n", 50, A))
        self.topology.backup_announced(TopologyMember("n", 1, None, B), 7)
        self.assertEqual(self.topology.pairs(), [(A, B)])
        self.topology.activated(TopologyMember("n", 1, B), 3)
        self.assertEqual(self.topology.pairs(), [(B, None)])
        self.assertEqual(len(self.told), 3)

    @given(st.permutations([TopologyMember("n", event, A if event % 2 else B) for event in (1, 2, 3)]))
    def test_order_of_announcements_does_not_matter(self, members: list[TopologyMember]) -> None:
        topology = Topology()
        for member in members:
            topology.up(member)
        found = topology.get("n")
        assert found is not None
        self.assertEqual((found.unique_event_id, found.primary), (3, A))

    def test_same_place(self) -> None:
        self.assertTrue(same_connector(A, TransportConfiguration("x", "netty", (("port", 1), ("host", "h")))))
        self.assertFalse(same_connector(A, B))
        self.assertTrue(same_connector(None, None))
        self.assertFalse(same_connector(A, None))
