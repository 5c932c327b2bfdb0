"""Sending, routing, delivery and settlement over a store that the test syncs by hand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import (
    AddressFullError,
)
from tests.unit.messaging.support import Bench, Collector


class LimitTests(SynchronousTestCase):
    def test_fail_refuses_and_drop_drops(self) -> None:
        bench = Bench(
            {"f": {"max_size_bytes": 1000, "address_full_policy": "FAIL"}, "d": {"max_size_bytes": 1000, "address_full_policy": "DROP"}}
        )
        bench.queue("f")
        dropping = bench.queue("d")
        for _ in range(3):
            bench.send(bytes(400), "d")
        with self.assertRaises(AddressFullError):
            for _ in range(3):
                bench.send(bytes(400), "f")
        self.assertEqual(dropping.message_count, 2)

    def test_block_withholds_credits_until_there_is_room(self) -> None:
        bench = Bench({"b": {"max_size_bytes": 600, "address_full_policy": "BLOCK"}})
        consumer = Collector(bench, bench.queue("b"))
        memory = bench.core.addresses["b"].memory
        granted: list[str] = []
        bench.send(bytes(400), "b")
        self.assertFalse(memory.when_free(lambda: granted.append("a")))
        memory.when_free(lambda: granted.append("b"))
        self.assertEqual(granted, [])
        bench.messaging.settlement.acknowledge(consumer.references)
        self.assertEqual(granted, ["a", "b"])

    def test_the_global_limit_makes_every_address_wait(self) -> None:
        bench = Bench({"#": {"address_full_policy": "BLOCK"}}, global_max_size=600)
        consumer = Collector(bench, bench.queue("x"))
        bench.queue("y")
        granted: list[str] = []
        bench.send(bytes(400), "x")
        bench.core.addresses["y"].memory.when_free(lambda: granted.append("y"))
        self.assertEqual(granted, [])
        bench.messaging.settlement.acknowledge(consumer.references)
        self.assertEqual(granted, ["y"])
