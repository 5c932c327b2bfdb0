"""Addresses, queues and settings as the records of the bindings journal say them."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.ports import AddressRecord, QueueRecord
from mqbroker.storage.files.bindings import address_value, queue_value, setting_value, to_address, to_queue, to_setting
from mqclient.storageformat.frames import StorageFormatError

ADDRESS = AddressRecord(3, "a", frozenset((0, 1)), True)
QUEUE = QueueRecord(4, "q", "a", 1, "b = 2", {"durable": True, "max_consumers": -1, "user": None, "last_value_key": "k"})


def read_back(value: Any) -> Any:
    return json.loads(json.dumps(value))


class BindingTests(SynchronousTestCase):
    def test_each_comes_back_as_it_was(self) -> None:
        self.assertEqual(to_address(read_back(address_value(ADDRESS))), ADDRESS)
        self.assertEqual(to_queue(read_back(queue_value(QUEUE))), QUEUE)
        self.assertEqual(to_setting(read_back(setting_value("user", "alice", "{}"))), (("user", "alice"), "{}"))

    def test_a_queue_without_a_filter_comes_back_without_one(self) -> None:
        plain = QueueRecord(4, "q", "a", 1)
        self.assertEqual(to_queue(read_back(queue_value(plain))), plain)

    def test_attributes_that_no_queue_can_have_are_left_out(self) -> None:
        value = read_back(queue_value(QUEUE))
        value["attributes"]["list"] = [1]
        self.assertEqual(to_queue(value), QUEUE)

    def test_a_record_in_which_something_is_missing_or_of_another_kind_is_refused(self) -> None:
        for read, value in (
            (to_address, address_value(ADDRESS)),
            (to_queue, queue_value(QUEUE)),
            (to_setting, setting_value("k", "n", "v")),
        ):
            for name in value:
                missing = {other: each for other, each in value.items() if other != name}
                self.assertRaises(StorageFormatError, read, missing)
                self.assertRaises(StorageFormatError, read, {**value, name: 1.5})
