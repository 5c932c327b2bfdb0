"""Where messages go: what is there, what is made, and how many duplicate ids are remembered of it."""

from __future__ import annotations

import importlib.util
import unittest
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

if importlib.util.find_spec("pyspark") is None:
    raise unittest.SkipTest("pyspark is not installed")

from mqspark.errors import DuplicateCacheError, MissingQueueError
from mqspark.writing.targets import ID_CACHE_MIN, Budget, Target, id_cache_size, resolve


class Broker:
    """A broker with the queue ``q``, the queue ``sub`` of the topic ``t``, and whatever a test makes."""

    place = "h:1"

    def __init__(self) -> None:
        self.addresses = {"q": (False, True), "t": (True, False)}
        """Name to (multicast, anycast)."""
        self.queues = {"q": ("q", 1), "sub": ("t", 0)}
        self.auto_create = True
        self.cache = SimpleNamespace(size=20_000, persisted=True)

    def address_query(self, name: str) -> Any:
        multicast, anycast = self.addresses.get(name, (False, False))
        return SimpleNamespace(
            exists=name in self.addresses,
            supports_multicast=multicast,
            supports_anycast=anycast,
            auto_create_addresses=self.auto_create,
            auto_create_queues=self.auto_create,
        )

    def queue_query(self, name: str) -> Any:
        address, kind = self.queues.get(name, (None, None))
        return SimpleNamespace(exists=name in self.queues, address=address, routing_type=kind)

    def create_queue(self, name: str) -> None:
        self.addresses[name] = (False, True)
        self.queues[name] = (name, 1)

    def id_cache(self, address: str) -> Any:
        return self.cache


class TargetCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker: Any = Broker()

    def resolved(self, *queues: str, topic: str | None = None, address: str | None = None) -> Target | None:
        options: Any = SimpleNamespace(queues=queues, topic=topic, address=address)
        return resolve(options, self.broker)

    def refusal(self, *queues: str, **options: str) -> str:
        return str(self.assertRaises(MissingQueueError, self.resolved, *queues, **options))


class ResolveTests(TargetCase):
    def test_a_queue_of_its_own_address_and_one_of_another(self) -> None:
        self.assertEqual(self.resolved("q"), Target("q", 1))
        self.assertEqual(self.resolved("sub"), Target("t::sub", 0))

    def test_a_missing_queue_is_made_where_the_broker_makes_queues(self) -> None:
        self.resolved("new")
        self.assertIn("new", self.broker.queues)

    def test_the_name_of_a_topic_is_no_queue_and_that_of_a_queue_no_topic(self) -> None:
        self.assertIn("it is the address of a topic", self.refusal("t"))
        self.assertIn("is that of a queue", self.refusal(topic="q"))

    def test_a_topic_that_is_missing_and_not_made_is_named(self) -> None:
        self.broker.auto_create = False
        self.assertIn("the topic new does not exist at h:1", self.refusal(topic="new"))

    def test_an_address_and_its_queue_must_be_there(self) -> None:
        self.assertEqual(self.resolved(address="t::sub"), Target("t::sub", None))
        self.assertIn("the address gone does not exist", self.refusal(address="gone"))
        self.assertIn("the address q has no queue sub", self.refusal(address="q::sub"))

    def test_rows_may_name_their_addresses(self) -> None:
        self.assertIsNone(self.resolved())


class BudgetTests(TargetCase):
    def test_a_cache_that_is_too_small_or_does_not_outlast_a_stop_protects_nothing(self) -> None:
        self.assertEqual(id_cache_size("q", self.broker), 20_000)
        self.broker.cache.size = ID_CACHE_MIN - 1
        self.assertRaises(DuplicateCacheError, id_cache_size, "q", self.broker)
        self.broker.cache = SimpleNamespace(size=20_000, persisted=False)
        self.assertRaises(DuplicateCacheError, id_cache_size, "q", self.broker)

    def test_no_more_ids_are_used_than_are_remembered(self) -> None:
        budget = Budget(self.broker, limited=True)
        budget.spend({"q": 15_000, "t": 15_000})
        budget.spend({"q": 5_000})
        self.assertIn("more than 20000 rows", str(self.assertRaises(DuplicateCacheError, budget.spend, {"q": 1})))

    def test_without_duplicate_ids_there_is_no_limit(self) -> None:
        budget = Budget(self.broker, limited=False)
        budget.spend({"q": 15_000})
        budget.spend({"q": 15_000})
        self.assertEqual(budget.sent, {"q": 30_000})

    def test_an_address_is_looked_for_before_its_first_row_unless_it_is_known(self) -> None:
        self.broker.auto_create = False
        budget = Budget(self.broker, limited=False)
        self.assertRaises(MissingQueueError, budget.spend, {"gone": 1})
        budget.spend({"gone": 1}, checked=True)
        self.assertEqual(budget.sent, {"gone": 1})
