"""What is recorded of a definition, and the way back."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.imq.record.changes import Definition, Kind, definition_of, form_of, is_recorded, same, wish_of
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition
from tests.unit.imq.record.strategies import definitions

QUEUE = QueueDefinition("q", "a", ANYCAST)
SUBSCRIPTION = QueueDefinition("me.sub", "topic", MULTICAST)


class FormTests(SynchronousTestCase):
    @given(definitions())
    def test_a_definition_comes_back(self, definition: Definition) -> None:
        wish = wish_of(Change("create", definition))
        self.assertEqual(definition_of(wish.key, wish.form), definition)

    def test_attributes_of_a_later_version_are_left_out(self) -> None:
        self.assertEqual(definition_of("queue:q", {**form_of(QUEUE), "colour": "red", "temporary": True}), QUEUE)

    def test_forms_that_define_nothing(self) -> None:
        for key, form in (
            ("queue:q", {}),
            ("queue:r", form_of(QUEUE)),
            ("queue:", {"name": ""}),
            ("thing:q", {"name": "q"}),
            ("queue:q", {"name": "q", "routing_type": "ANYCAST"}),
            ("queue:q", {"name": "q", "address": "a", "routing_type": "BOTH"}),
            ("address:a", {"name": "a"}),
            ("address:a", {"name": "a", "routing_types": 1}),
            ("divert:d", {"name": "d"}),
        ):
            with self.assertRaises(ValueError):
                definition_of(key, form)

    def test_who_made_a_queue_is_no_difference(self) -> None:
        other = replace(QUEUE, user="u", configuration_managed=True)
        self.assertTrue(same(form_of(QUEUE), form_of(other)))
        self.assertFalse(same(form_of(QUEUE), form_of(replace(QUEUE, max_consumers=1))))


class KindTests(SynchronousTestCase):
    def test_the_names_are_those_of_openmq(self) -> None:
        address, divert = AddressDefinition("a", frozenset((ANYCAST,))), DivertConfiguration("d", "a", ("b",))
        for definition, key, put, gone in (
            (address, "address:a", Kind.DESTINATION, Kind.NO_DESTINATION),
            (QUEUE, "queue:q", Kind.DESTINATION, Kind.NO_DESTINATION),
            (SUBSCRIPTION, "queue:me.sub", Kind.SUBSCRIPTION, Kind.NO_SUBSCRIPTION),
            (divert, "divert:d", Kind.DIVERT, Kind.NO_DIVERT),
            (AddressSettingDefinition("a.#", "{}"), "settings:a.#", Kind.DESTINATION, Kind.NO_DESTINATION),
        ):
            for action in ("create", "update"):
                wish = wish_of(Change(action, definition))  # type: ignore[arg-type]
                self.assertEqual((wish.kind, wish.key, wish.action), (put, key, action))
            self.assertEqual(wish_of(Change("delete", definition)).kind, gone)
            self.assertEqual((put.removes, gone.removes), (False, True))
        self.assertEqual(wish_of(Change("create", QUEUE)).name, "queue q")

    def test_what_is_made_automatically_or_does_not_last_is_not_recorded(self) -> None:
        self.assertTrue(is_recorded(Change("create", QUEUE)))
        self.assertTrue(is_recorded(Change("delete", SUBSCRIPTION)))
        self.assertTrue(is_recorded(Change("update", AddressDefinition("a", frozenset((0,))))))
        self.assertTrue(is_recorded(Change("create", DivertConfiguration("d", "a", ("b",)))))
        for definition in (
            replace(QUEUE, auto_created=True),
            replace(QUEUE, auto_delete=True),
            replace(QUEUE, temporary=True),
            replace(QUEUE, transient=True),
            replace(QUEUE, internal=True),
            replace(QUEUE, durable=False),
            AddressDefinition("a", frozenset((0,)), auto_created=True),
        ):
            self.assertFalse(is_recorded(Change("create", definition)))
