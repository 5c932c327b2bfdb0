"""Queues and addresses made, changed and deleted by management: the answers are those that the artemis command prints."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.server.management.queue_requests import CREATE_PARAMETERS
from tests.unit.server.management.test_service import ManagementCase

LINE = (
    "Queue [name=n, address=a, routingType=ANYCAST, durable=true, purgeOnNoConsumers=false, autoCreateAddress=false, exclusive=false, "
    "lastValue=false, lastValueKey=null, nonDestructive=false, consumersBeforeDispatch=0, delayBeforeDispatch=-1, autoCreateAddress=false]"
)


class CreateTests(ManagementCase):
    def create(self, address: Any = "a", kind: Any = "ANYCAST", name: Any = "n", filter: Any = None, most: int = -1, **more: bool) -> Any:
        """The form that the artemis command uses."""
        return self.call("broker", "createQueue", address, kind, name, filter, True, most, False, more.get("auto", True))

    def refusal(self, *parameters: Any) -> str:
        return self.fails("broker", "createQueue", *parameters)

    def test_the_line_about_a_queue(self) -> None:
        self.assertEqual(self.create(), LINE)
        limited = self.create(name="m", filter="color = 'red'", most=3)
        self.assertIn("routingType=ANYCAST, filter=color = 'red', durable=true, maxConsumers=3, purge", limited)

    def test_a_queue_that_exists(self) -> None:
        self.create()
        for address, kind in (("a", "ANYCAST"), ("b", "MULTICAST")):
            text = self.refusal(address, kind, "n", None, True, -1, False, True)
            self.assertEqual(text, "AMQ229019: Queue n already exists on address a")
        self.assertNotIn("b", self.world.messaging.core.addresses)

    def test_an_address_is_made_only_when_that_is_asked_for(self) -> None:
        text = self.refusal("a", "ANYCAST", "n", None, True, -1, False, False)
        self.assertEqual(text, "AMQ229203: Address Does Not Exist: a")
        self.create(auto=True)
        self.assertIn("name=m", self.create(name="m", auto=False))

    def test_an_address_is_made_whatever_its_settings_say(self) -> None:
        self.call("broker", "addAddressSettings", "a", json.dumps({"autoCreateAddresses": False}))
        self.assertEqual(self.create(), LINE)

    def test_a_routing_type_is_added_only_when_that_is_asked_for(self) -> None:
        self.create()
        text = self.refusal("a", "MULTICAST", "m", None, True, -1, False, False)
        expected = "AMQ229207: Can not create queue with routing type: MULTICAST, Supported routing types for address: a are [ANYCAST]"
        self.assertEqual(text, expected)
        self.create(kind="MULTICAST", name="m", auto=True)
        self.assertEqual(self.world.messaging.core.addresses["a"].routing_types, {0, 1})

    def test_a_json_object_is_answered_with_one_and_says_whether_the_address_is_made(self) -> None:
        settings = {"name": "n", "address": "a", "routing-type": "ANYCAST"}
        self.assertIn("AMQ229203", self.refusal(json.dumps({**settings, "auto-create-address": False})))
        self.assertEqual(json.loads(self.call("broker", "createQueue", json.dumps(settings)))["address"], "a")

    def test_names_that_are_missing(self) -> None:
        self.assertEqual(self.refusal("", "ANYCAST", "n", None, True, -1, False, True), "address can't be null or empty!")
        self.assertEqual(self.refusal("a", "ANYCAST", "", None, True, -1, False, True), "AMQ229216: Invalid queue name: ")

    def test_the_oldest_forms_are_answered_with_nothing(self) -> None:
        forms: list[tuple[str, list[Any], tuple[int, bool, str | None]]] = [
            ("two", [], (0, True, None)),
            ("three", ["ANYCAST"], (1, True, None)),
            ("switch", [False], (0, False, None)),
            ("four", [False, "ANYCAST"], (1, False, None)),
            ("filtered", ["x = 1", False], (0, False, "x = 1")),
            ("five", ["x = 1", False, "ANYCAST"], (1, False, "x = 1")),
        ]
        for name, more, expected in forms:
            self.assertIsNone(self.call("broker", "createQueue", "old", name, *more))
            definition = self.world.queue(name).definition
            self.assertEqual((definition.routing_type, definition.durable, definition.filter_string), expected, name)

    def test_the_longest_form(self) -> None:
        first = ["a", "ANYCAST", "n", "x = 1", True, 4, True]
        rest = [True, True, 8, "first", False, None, False, 2, 700, True, 900, 11, True, -1]
        self.assertEqual(len(first + rest), CREATE_PARAMETERS)
        self.assertIn("maxConsumers=4", self.call("broker", "createQueue", *first, *rest))
        made = self.world.queue("n").definition
        self.assertEqual((made.exclusive, made.group_buckets, made.group_first_key), (True, 8, "first"))
        self.assertEqual((made.consumers_before_dispatch, made.delay_before_dispatch), (2, 700))
        self.assertEqual((made.auto_delete, made.auto_delete_delay, made.auto_delete_message_count), (True, 900, 11))

    def test_a_form_that_there_is_not(self) -> None:
        self.assertEqual(self.refusal(*["x"] * 7), "AMQ229069: no operation createQueue/7")


class ChangeTests(ManagementCase):
    def setUp(self) -> None:
        super().setUp()
        self.call("broker", "createQueue", "a", "ANYCAST", "n", None, True, -1, False, True)

    def update(self, *parameters: Any) -> Any:
        return self.call("broker", "updateQueue", *parameters)

    def test_the_line_about_a_changed_queue(self) -> None:
        self.assertEqual(self.update("n", None, None, None), LINE)
        self.assertIn("durable=true, maxConsumers=7, purgeOnNoConsumers=true", self.update("n", "ANYCAST", 7, True))

    def test_a_queue_that_is_not_there(self) -> None:
        for parameters in (("no", "ANYCAST", 7, True), (json.dumps({"name": "no"}),)):
            self.assertEqual(self.fails("broker", "updateQueue", *parameters), "AMQ229017: Queue no does not exist")

    def test_fewer_consumers_than_there_are(self) -> None:
        for number in range(2):
            self.open().consume("n", number)
        text = self.fails("broker", "updateQueue", "n", None, 1, None)
        self.assertEqual(text, "AMQ229210: Can't update queue n with maxConsumers: 1. Current consumers are 2.")
        self.assertIn("maxConsumers=2", self.update("n", None, 2, None))

    def test_a_routing_type_that_the_address_does_not_have(self) -> None:
        text = self.fails("broker", "updateQueue", "n", "MULTICAST", None, None)
        expected = "AMQ229211: Can't update queue n with routing type: MULTICAST, Supported routing types for address: a are [ANYCAST]"
        self.assertEqual(text, expected)

    def test_a_queue_is_deleted_also_under_its_full_name(self) -> None:
        self.assertIn("AMQ229017", self.fails("broker", "destroyQueue", "b::n"))
        self.call("broker", "destroyQueue", "a::n", False, True)
        self.assertNotIn("n", self.world.messaging.core.queues)
        self.assertNotIn("a", self.world.messaging.core.addresses)

    def test_a_queue_in_use(self) -> None:
        self.open().consume("n")
        self.assertEqual(
            self.fails("broker", "destroyQueue", "n", False, False), "AMQ229025: Cannot delete queue n on binding n - it has consumers = 1"
        )


class AddressTests(ManagementCase):
    def test_the_line_about_an_address(self) -> None:
        made = self.call("broker", "createAddress", "a", "ANYCAST,MULTICAST")
        self.assertEqual(made, "Address [name=a, routingTypes={MULTICAST,ANYCAST}, autoCreated=false]")
        changed = self.call("broker", "updateAddress", "a", "ANYCAST")
        self.assertEqual(changed, "Address [name=a, routingTypes={ANYCAST}, autoCreated=false]")
        self.assertEqual(self.call("broker", "updateAddress", "a", None), changed)

    def test_refusals(self) -> None:
        self.call("broker", "createAddress", "a", "ANYCAST")
        self.call("broker", "createQueue", "a", "ANYCAST", "n", None, True, -1, False, True)
        self.assertEqual(self.fails("broker", "createAddress", "a", "ANYCAST"), "AMQ229204: Address already exists: a")
        self.assertIn("null or empty", self.fails("broker", "createAddress", "", "ANYCAST"))
        self.assertIn("routing type", self.fails("broker", "updateAddress", "a", ""))
        self.assertEqual(
            self.fails("broker", "updateAddress", "a", "MULTICAST"),
            "AMQ229209: Can't remove routing type ANYCAST, queues exists for address: a. "
            "Please delete queues before removing this routing type.",
        )
        self.assertEqual(self.fails("broker", "deleteAddress", "a", False), "AMQ229205: Address a has bindings")

    def test_lists(self) -> None:
        self.call("broker", "createAddress", "B", "ANYCAST")
        self.call("broker", "createQueue", "c", "ANYCAST", "n", "x = 1", True, -1, False, True)
        self.call("broker", "createAddress", "a", "ANYCAST")
        names = self.call("broker", "listAddresses", ",").split(",")
        self.assertEqual([name for name in names if name in ("a", "B", "c")], ["a", "B", "c"])
        self.assertEqual(self.call("broker", "listBindingsForAddress", "missing"), "")
        self.assertEqual(self.call("broker", "listBindingsForAddress", "c"), "LocalQueueBinding [address=c, queue=n, filter=x = 1]")
