"""The disk guard: every address is full while the disk nearly is, whatever it holds."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from mqbroker.messaging.administration.disk_guard import DiskSpace
from mqclient.errors import AddressFullError
from tests.unit.messaging.support import Bench


class GuardedBench(Bench):
    """``free`` of 1000 bytes are free on the disk, or of 1000 times ``scale``."""

    def __init__(self, settings: dict[str, dict[str, Any]] | None = None, scale: int = 1, **options: Any) -> None:
        self.free = 1000
        self.scale = scale
        self.reports: list[str] = []
        super().__init__(settings, self._disks, **options)
        self.messaging.core.observers.append(self)  # type: ignore[arg-type]
        self.messaging.start()
        self.clock.advance(0)
        self.address = self.queue("q").address

    def _disks(self) -> list[DiskSpace]:
        size = 1000 * self.scale
        return [DiskSpace("/journal", size, size), DiskSpace("/paging", self.free * self.scale, size)]

    def message_dropped(self, code: str, text: str) -> None:
        self.reports.append(code)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("address_", "queue_")):
            return lambda *args: None
        raise AttributeError(name)

    def scan(self, free: int) -> None:
        self.free = free
        self.clock.advance(5)


class DiskGuardTests(TestCase):
    def test_producers_wait_until_there_is_room(self) -> None:
        bench = GuardedBench(max_disk_usage=90)
        granted: list[int] = []
        bench.scan(101)
        self.assertTrue(bench.address.memory.when_free(lambda: granted.append(1)))
        bench.scan(100)
        self.assertFalse(bench.address.memory.when_free(lambda: granted.append(2)))
        bench.send(b"sent all the same")
        self.assertEqual(bench.core.queues["q"].message_count, 1)
        bench.scan(50)
        self.assertEqual(granted, [1])
        bench.scan(101)
        self.assertEqual(granted, [1, 2])
        self.assertEqual(bench.reports, ["AMQ222210", "AMQ222211"])

    def test_free_bytes_replace_the_usage(self) -> None:
        bench = GuardedBench(max_disk_usage=10, min_disk_free=200)
        bench.scan(200)
        self.assertFalse(bench.core.global_memory.disk_full)
        bench.scan(199)
        self.assertTrue(bench.core.global_memory.disk_full)
        bench.scan(300)
        self.assertEqual(bench.reports, ["AMQ224128", "AMQ224129"])

    def test_off(self) -> None:
        bench = GuardedBench(max_disk_usage=-1)
        bench.scan(0)
        self.assertFalse(bench.core.global_memory.disk_full)

    def test_full_from_the_start(self) -> None:
        bench = GuardedBench(max_disk_usage=0)
        self.assertTrue(bench.core.global_memory.disk_full)

    def test_policies(self) -> None:
        settings = {"f": {"disk_full_policy": "FAIL"}, "d": {"disk_full_policy": "DROP"}}
        bench = GuardedBench(settings, max_disk_usage=90)
        failing, dropping = bench.queue("f"), bench.queue("d")
        bench.scan(10)
        self.assertRaises(AddressFullError, bench.send, b"", "f")
        bench.send(b"", "d")
        self.assertTrue(dropping.address.memory.when_free(lambda: None))
        self.assertEqual((failing.message_count, dropping.message_count), (0, 0))
        bench.scan(500)
        bench.send(b"", "f")
        bench.send(b"", "d")
        self.assertEqual((failing.message_count, dropping.message_count), (1, 1))

    def test_a_disk_with_little_room_is_looked_at_sooner(self) -> None:
        """Where the room before the limit could be written in less than the period: a small disk is full between two looks otherwise."""
        bench = GuardedBench(max_disk_usage=90)
        bench.free = 100
        bench.clock.advance(0.2)
        self.assertTrue(bench.core.global_memory.disk_full)
        # A full disk is looked at in the period of the configuration.
        bench.free = 500
        bench.clock.advance(0.2)
        self.assertTrue(bench.core.global_memory.disk_full)
        bench.clock.advance(5)
        self.assertFalse(bench.core.global_memory.disk_full)

    def test_a_disk_with_much_room_is_looked_at_in_the_period_of_the_configuration(self) -> None:
        size = 100 * 2**30
        for limit in ({"max_disk_usage": 90}, {"min_disk_free": 2**30}):
            bench = GuardedBench(scale=size // 1000, **limit)
            bench.clock.advance(5)
            bench.free = 1
            bench.clock.advance(4.9)
            self.assertFalse(bench.core.global_memory.disk_full)
            bench.clock.advance(0.1)
            self.assertTrue(bench.core.global_memory.disk_full)

    def test_a_period_shorter_than_the_shortest_holds(self) -> None:
        bench = GuardedBench(max_disk_usage=90, disk_scan_period=10)
        bench.free = 100
        bench.clock.advance(0.01)
        self.assertTrue(bench.core.global_memory.disk_full)
