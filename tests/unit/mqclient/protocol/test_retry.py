"""Retries, their pauses, and the choice among brokers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.retry import POLICY_PACKAGE, POLICY_SUFFIX, ConnectionPolicy, RateLimiter, RetryPlan, load_balancing_policy


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


class LastElement:
    """A policy of an application."""

    def select(self, count: int) -> int:
        return count - 1


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
