"""What a queue is: what its configuration says, and what the settings of its address fill in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.config.model.configuration import QueueConfiguration
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition, resolve


class ResolveTests(SynchronousTestCase):
    def resolved(self, settings: dict[str, Any] | None = None, **configuration: Any) -> QueueDefinition:
        return resolve(QueueConfiguration("q", **configuration), AddressSettings(**(settings or {})))

    def test_a_queue_without_an_address_has_its_name_for_one(self) -> None:
        self.assertEqual(self.resolved().address, "q")
        self.assertEqual(self.resolved(address="a").address, "a")

    def test_settings_hold_only_for_what_the_configuration_leaves_open(self) -> None:
        settings = {"default_max_consumers": 3, "default_exclusive_queue": True, "default_queue_routing_type": ANYCAST}
        open_ = self.resolved(settings)
        self.assertEqual((open_.max_consumers, open_.exclusive, open_.routing_type), (3, True, ANYCAST))
        said = self.resolved(settings, max_consumers=0, exclusive=False, routing_type=MULTICAST)
        self.assertEqual((said.max_consumers, said.exclusive, said.routing_type), (0, False, MULTICAST))

    def test_temporary_and_transient_queues_are_not_durable_whatever_is_said(self) -> None:
        self.assertTrue(self.resolved().durable)
        self.assertFalse(self.resolved(durable=True, temporary=True).durable)
        self.assertFalse(self.resolved(durable=True, transient=True).durable)

    def test_a_filter_of_blanks_is_none(self) -> None:
        self.assertIsNone(self.resolved(filter_string=" \t").filter_string)
        self.assertEqual(self.resolved(filter_string="a = 1").filter_string, "a = 1")

    def test_queues_that_clients_need_and_those_that_users_make_are_deleted_by_different_settings(self) -> None:
        settings = {"auto_delete_queues": True, "auto_delete_created_queues": False}
        self.assertTrue(self.resolved(settings, auto_created=True).auto_delete)
        self.assertFalse(self.resolved(settings).auto_delete)
        self.assertTrue(self.resolved(settings, auto_delete=True).auto_delete)

    def test_queues_of_the_configuration_and_internal_ones_are_never_deleted_by_themselves(self) -> None:
        self.assertFalse(self.resolved(auto_delete=True, configuration_managed=True).auto_delete)
        self.assertFalse(self.resolved(auto_delete=True, internal=True).auto_delete)

    def test_a_key_makes_a_last_value_queue_although_last_value_is_false(self) -> None:
        queue = self.resolved({"default_last_value_key": "ticker"}, last_value=False)
        self.assertEqual((queue.last_value, queue.last_value_key), (True, "ticker"))

    def test_a_last_value_queue_without_a_key_has_that_of_the_manual(self) -> None:
        self.assertEqual(self.resolved(last_value=True).last_value_key, "_AMQ_LVQ_NAME")
        self.assertEqual(self.resolved({"default_last_value_queue": True}).last_value_key, "_AMQ_LVQ_NAME")
        self.assertIsNone(self.resolved({"default_last_value_queue": True}, last_value=False).last_value_key)

    def test_rings_smaller_than_none_have_no_limit(self) -> None:
        self.assertEqual(self.resolved(ring_size=-7).ring_size, -1)


class RecordTests(SynchronousTestCase):
    def test_a_queue_comes_back_from_the_bindings_as_it_was(self) -> None:
        queue = QueueDefinition("q", "a", ANYCAST, "b = 2", max_consumers=4, user="u", last_value=True, last_value_key="k", ring_size=9)
        self.assertEqual(QueueDefinition.from_record(queue.record(7)), queue)
        self.assertEqual(queue.record(7).queue_id, 7)

    def test_attributes_of_later_versions_are_left_out(self) -> None:
        record = QueueDefinition("q", "a").record(1)
        later = replace(record, attributes={**record.attributes, "colour": "red"})
        self.assertEqual(QueueDefinition.from_record(later), QueueDefinition("q", "a"))
