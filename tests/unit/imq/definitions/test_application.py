"""Definitions become what the record says."""

from __future__ import annotations

import json
from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.imq.definitions.application import Application
from mqbroker.imq.record.changes import Definition, Recorded, wish_of
from mqbroker.imq.record.followed import Life
from mqbroker.imq.record.record import ChangeRecord
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition
from tests.support.broker import World
from tests.unit.imq.net import KeptStore

QUEUE = QueueDefinition("q", "q", ANYCAST)
ADDRESS = AddressDefinition("a", frozenset((ANYCAST,)))
DIVERT = DivertConfiguration("d", "q", ("r",))
SETTINGS = AddressSettingDefinition("q", json.dumps({"maxDeliveryAttempts": 3}))


class Lives:
    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.noted: list[tuple[str, int, str | None]] = []

    def made(self, queue: str, position: int, generation: str | None) -> None:
        self.noted.append((queue, position, generation))


class ApplicationCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(store=KeptStore("node"))
        self.core = self.world.messaging.core
        self.warned: list[str] = []
        self.lives = Lives()
        self.application = Application(self.world.messaging, {"mine"}, {}, self.warned.append, self.lives)

    def apply(self, definition: Definition, action: str = "create") -> None:
        wish = wish_of(Change(action, definition))  # type: ignore[arg-type]
        self.application.apply(Recorded(7, wish.kind, wish.key, {} if wish.kind.removes else wish.form, "b2:7676", 0))

    def record(self, *definitions: Definition) -> ChangeRecord:
        record = ChangeRecord.begin("g", "b1:7676", 0)
        for definition in definitions:
            record.append(wish_of(Change("create", definition)), "b1:7676", 0, record.last)
        return record


class OneTests(ApplicationCase):
    def test_a_queue_is_made_where_its_life_began(self) -> None:
        """Also by a broker that reads of a later change alone."""
        record = self.record(ADDRESS, QUEUE)
        record.append(wish_of(Change("update", replace(QUEUE, max_consumers=3))), "b1:7676", 0, record.last)
        record.compress()
        self.application.apply_all(record)
        self.assertEqual(self.lives.noted, [("q", 3, None)])

    def test_each_kind_and_twice(self) -> None:
        for _ in range(2):
            for definition in (ADDRESS, QUEUE, DIVERT, SETTINGS):
                self.apply(definition)
        self.assertEqual(self.core.addresses["a"].routing_types, frozenset((ANYCAST,)))
        self.assertEqual((self.core.queues["q"].definition, self.lives.noted), (QUEUE, [("q", 7, None)]))
        divert = self.world.messaging.diverts.find("d")
        self.assertEqual(divert and divert.configuration, DIVERT)
        self.assertEqual(self.core.settings_of("q").max_delivery_attempts, 3)
        for _ in range(2):
            for definition in (SETTINGS, DIVERT, QUEUE, ADDRESS):
                self.apply(definition, "delete")
        self.assertEqual((list(self.core.queues), self.world.messaging.diverts.names()), ([], []))
        self.assertNotIn("a", self.core.addresses)
        self.assertEqual(self.core.settings_of("q").max_delivery_attempts, 10)
        self.assertEqual(self.warned, [])

    def test_an_address_that_was_made_with_its_queue_ends_with_it(self) -> None:
        self.apply(SETTINGS)
        self.core.settings.set("q", {"auto_delete_addresses_delay": 120_000})
        self.apply(QUEUE)
        self.apply(QUEUE, "delete")
        self.assertNotIn("q", self.core.addresses)

    def test_a_changed_divert_is_another_one(self) -> None:
        self.apply(DIVERT)
        self.apply(replace(DIVERT, forwarding_addresses=("s",)), "update")
        divert = self.world.messaging.diverts.find("d")
        self.assertEqual(divert and divert.forwarding_addresses, ("s",))

    def test_an_address_keeps_the_types_of_its_queues(self) -> None:
        self.apply(replace(QUEUE, name="s", address="a", routing_type=MULTICAST))
        self.apply(ADDRESS)
        self.assertEqual(self.core.addresses["a"].routing_types, frozenset((ANYCAST, MULTICAST)))
        self.assertFalse(self.core.addresses["a"].auto_created)

    def test_an_address_takes_its_queues_along(self) -> None:
        self.apply(ADDRESS)
        self.apply(replace(QUEUE, address="a"))
        self.apply(ADDRESS, "delete")
        self.assertEqual((list(self.core.queues), "a" in self.core.addresses), ([], False))

    def test_what_cannot_be_is_a_warning(self) -> None:
        self.apply(replace(QUEUE, filter_string="a = "))
        self.apply(replace(DIVERT, filter_string="a = "))
        self.apply(AddressSettingDefinition("q", "{"))
        self.apply(QUEUE)
        self.core.queues["q"].needed_for = "something"
        self.apply(QUEUE, "delete")
        self.assertEqual(len(self.warned), 4)
        self.assertIn("q", self.core.queues)

    def test_what_is_internal_stays(self) -> None:
        self.world.messaging.administration.create_store_and_forward("sf")
        for key in ("queue:sf", "address:sf"):
            self.application.remove(key)
        self.assertIn("sf", self.core.queues)


class AllTests(ApplicationCase):
    def test_everything_else_goes(self) -> None:
        for definition in (ADDRESS, QUEUE, DIVERT, SETTINGS):
            self.apply(definition)
        self.application.apply_all(self.record(replace(QUEUE, name="other", address="other")))
        self.assertEqual((list(self.core.queues), self.world.messaging.diverts.names()), (["other"], []))
        self.assertEqual(self.core.settings_of("q").max_delivery_attempts, 10)
        self.assertNotIn("a", self.core.addresses)

    def test_a_queue_that_was_deleted_and_made_again_meanwhile_is_empty(self) -> None:
        """Also where the record is another one since then.  One that is older in the record, as in a backup, stays."""
        record = self.record(QUEUE).renewed("h", "b2:7676", 0)
        self.application.apply_all(record)
        self.assertEqual(self.lives.noted, [("q", 2, "g")])
        self.world.session().publish(b"1")
        self.lives.noted.clear()
        for life in (("g", 2), ("h", 2)):
            self.lives.lives["q"] = life
            self.application.apply_all(record)
            self.assertEqual((self.core.queues["q"].message_count, self.lives.noted), (1, []))
        self.lives.lives["q"] = "g", 1
        self.application.apply_all(record)
        self.assertEqual((self.core.queues["q"].message_count, self.lives.noted), (0, [("q", 2, "g")]))
        self.assertEqual(len(self.warned), 1)

    def test_an_address_that_was_made_with_its_queue_goes_with_it(self) -> None:
        self.core.settings.set("q", {"auto_delete_addresses_delay": 120_000})
        self.apply(QUEUE)
        self.application.apply_all(self.record())
        self.assertNotIn("q", self.core.addresses)

    def test_an_address_with_queues_that_stay_is_nobodys(self) -> None:
        self.apply(ADDRESS)
        self.world.messaging.administration.define_queue(replace(QUEUE, address="a", auto_created=True))
        self.application.apply_all(self.record())
        self.assertTrue(self.core.addresses["a"].auto_created)
        self.assertIn("q", self.core.queues)
        self.assertTrue(self.world.store.addresses[self.core.addresses["a"].address_id].auto_created)

    def test_what_the_files_define_is_given_back(self) -> None:
        mine = replace(QUEUE, name="mine", address="mine")
        self.apply(AddressDefinition("mine", frozenset((ANYCAST,))))
        self.apply(mine)
        found = self.application.apply_all(self.record())
        self.assertEqual(found, [AddressDefinition("mine", frozenset((ANYCAST,))), mine])
        self.assertEqual(self.application.apply_all(self.record(*found)), [])

    def test_a_queue_that_cannot_go_is_a_warning(self) -> None:
        self.apply(QUEUE)
        self.core.queues["q"].needed_for = "something"
        self.application.apply_all(self.record())
        self.assertEqual((len(self.warned), "q" in self.core.queues), (1, True))

    def test_what_belongs_into_a_record(self) -> None:
        for definition in (ADDRESS, QUEUE, DIVERT, SETTINGS):
            self.apply(definition)
        self.world.messaging.administration.define_queue(replace(QUEUE, name="auto", address="auto", auto_created=True))
        self.assertEqual(self.application.own_definitions(), [ADDRESS, QUEUE, DIVERT, SETTINGS])

    def test_settings_that_management_has_made_here(self) -> None:
        self.application.note(Change("update", SETTINGS))
        self.application.apply_all(self.record())
        self.application.note(Change("update", SETTINGS))
        self.application.note(Change("delete", SETTINGS))
        self.application.apply_all(self.record())
        self.assertEqual(self.warned, [])
