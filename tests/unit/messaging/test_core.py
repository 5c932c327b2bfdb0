"""Addresses, settings and duplicate id caches by name, as all of messaging uses them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.core import STRAY_CACHES_MAX, STRAY_IDS_MAX
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.properties import STRING
from tests.unit.messaging.support import Bench

UUID = "01234567-89ab-4cde-8f01-23456789abcd"


class SettingsTests(SynchronousTestCase):
    def test_temporary_queues_and_uuids_have_settings_in_their_own_name_spaces(self) -> None:
        settings = {"temp.#": {"max_delivery_attempts": 3}, "uuid.#": {"max_delivery_attempts": 4}, "#": {"max_delivery_attempts": 5}}
        core = Bench(settings, temporary_queue_namespace="temp", uuid_namespace="uuid").core
        found = [core.settings_of(name, temporary).max_delivery_attempts for name, temporary in (("a", False), ("a", True), (UUID, False))]
        self.assertEqual(found, [5, 3, 4])

    def test_without_name_spaces_they_are_addresses_as_others(self) -> None:
        core = Bench({"a": {"max_delivery_attempts": 5}}).core
        self.assertEqual(core.settings_of("a", True).max_delivery_attempts, 5)

    def test_changed_settings_hold_for_addresses_that_are_there(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        told: list[bool] = []
        bench.core.settings_changed.subscribe(lambda: told.append(True))
        bench.core.settings.set("q", {"max_delivery_attempts": 2})
        self.assertNotEqual(queue.address.settings.max_delivery_attempts, 2)
        bench.core.apply_settings()
        self.assertEqual((queue.address.settings.max_delivery_attempts, told), (2, [True]))


class StoreTests(SynchronousTestCase):
    def test_producers_wait_while_the_store_is_overfull(self) -> None:
        bench = Bench()
        memory = bench.queue("q").address.memory
        granted: list[int] = []
        bench.core.store.overfull(True)
        self.assertFalse(memory.when_free(lambda: granted.append(1)))
        bench.core.store.overfull(False)
        self.assertEqual(granted, [1])


class DuplicateIdCacheTests(SynchronousTestCase):
    def cache(self, bench: Bench, name: str) -> Any:
        return bench.core.duplicate_ids(name)

    def test_an_address_has_one_cache_of_the_size_that_its_settings_say(self) -> None:
        bench = Bench({"a": {"id_cache_size": 7}}, id_cache_size=9)
        bench.queue("a")
        bench.queue("b")
        self.assertEqual((self.cache(bench, "a").size, self.cache(bench, "b").size), (7, 9))
        self.assertIs(self.cache(bench, "a"), self.cache(bench, "a"))

    def test_there_is_none_where_detection_is_off(self) -> None:
        bench = Bench({"a": {"id_cache_size": 0}})
        bench.queue("a")
        self.assertIsNone(self.cache(bench, "a"))

    def test_names_that_are_no_address_have_few_and_small_ones(self) -> None:
        bench = Bench()
        for number in range(STRAY_CACHES_MAX + 1):
            self.assertEqual(self.cache(bench, f"stray.{number}").size, STRAY_IDS_MAX)
        self.assertIsNone(bench.core.known_duplicate_ids("stray.0"))
        self.assertIsNotNone(bench.core.known_duplicate_ids("stray.1"))

    def test_a_name_that_has_become_an_address_meanwhile_keeps_its_cache(self) -> None:
        bench = Bench()
        first = self.cache(bench, "stray.0")
        bench.queue("stray.0")
        for number in range(1, STRAY_CACHES_MAX + 2):
            self.cache(bench, f"stray.{number}")
        self.assertIs(bench.core.known_duplicate_ids("stray.0"), first)

    def test_a_name_that_has_become_an_address_keeps_as_many_ids_as_its_settings_say(self) -> None:
        bench = Bench(id_cache_size=2 * STRAY_IDS_MAX)
        for name in ("a", "BRIDGE.a", "a::q", "b"):
            self.cache(bench, name)
        bench.queue("q", "a")
        sizes = [self.cache(bench, name).size for name in ("a", "BRIDGE.a", "a::q", "b")]
        self.assertEqual(sizes, [2 * STRAY_IDS_MAX] * 3 + [STRAY_IDS_MAX])
        for number in range(STRAY_IDS_MAX + 1):
            bench.send(b"%d" % number, "a", properties={KEY_DUPLICATE_ID: (STRING, str(number))})
        bench.send(b"again", "a", properties={KEY_DUPLICATE_ID: (STRING, "0")})
        self.assertEqual(bench.core.queues["q"].message_count, STRAY_IDS_MAX + 1)

    def test_what_is_forgotten_is_forgotten_in_the_store_too(self) -> None:
        bench = Bench()
        bench.queue("a")
        batch = bench.store.begin()
        self.cache(bench, "a").add(b"id", batch)
        bench.store.commit(batch)
        bench.core.forget_duplicate_ids("a")
        self.assertEqual(len(bench.store.entries("forget duplicate")), 1)
        self.assertIsNone(bench.core.known_duplicate_ids("a"))

    def test_an_address_whose_ids_of_bridges_are_the_oldest_stray_ones_can_be_deleted_and_made_again(self) -> None:
        bench = Bench()
        cache = self.cache(bench, "BRIDGE.a")
        bench.messaging.administration.delete_queue(bench.queue("a"), keep_address=True)
        for number in range(STRAY_CACHES_MAX - 1):
            self.cache(bench, f"stray.{number}")
        bench.messaging.administration.delete_address("a")
        bench.queue("a")
        self.assertIs(bench.core.known_duplicate_ids("BRIDGE.a"), cache)
