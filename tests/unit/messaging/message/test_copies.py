"""Copies for dead letters, expiry and moves: what they say of where they come from, and what they leave out."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.copies import make_copy
from mqbroker.messaging.message.message import Message
from mqclient.wire.message import KEY_ROUTE_TO, KEY_ROUTING_TYPE, KEY_SCHEDULED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, BYTES, INT, LONG, NULL, STRING, TypedValue

COLOUR: dict[str, TypedValue] = {"colour": (STRING, "red")}


class CopyTests(SynchronousTestCase):
    def message(self, properties: dict[str, TypedValue]) -> Message:
        content = CoreMessage(message_id=5, address="a", durable=True, expiration=99, properties={**COLOUR, **properties}, body=b"body")
        return Message.received(encode_message(content), 5)

    def copied(self, properties: dict[str, TypedValue], **more: Any) -> dict[str, TypedValue]:
        arguments = {"original_address": "a", "original_queue": "q", **more}
        return make_copy(self.message(properties), 6, "DLQ", **arguments).content.properties

    def test_a_copy_has_its_own_id_and_address_and_does_not_expire(self) -> None:
        copy = make_copy(self.message({}), 6, "DLQ", original_address="a", original_queue="q").message()
        self.assertEqual((copy.message_id, copy.address, copy.expiration, copy.durable), (6, "DLQ", 0, True))
        self.assertEqual(copy.decoded().body, b"body")

    def test_a_copy_says_where_it_comes_from(self) -> None:
        self.assertEqual(
            self.copied({}, actual_expiry=77),
            {
                **COLOUR,
                "_AMQ_ORIG_ADDRESS": (STRING, "a"),
                "_AMQ_ORIG_QUEUE": (STRING, "q"),
                "_AMQ_ORIG_MESSAGE_ID": (LONG, 5),
                "_AMQ_ACTUAL_EXPIRY": (LONG, 77),
            },
        )

    def test_a_message_that_was_in_no_queue_forgets_the_one_of_an_earlier_copy(self) -> None:
        self.assertNotIn("_AMQ_ORIG_QUEUE", self.copied({"_AMQ_ORIG_QUEUE": (STRING, "old")}, original_queue=None))

    def test_schedules_and_routes_to_queues_are_left_out(self) -> None:
        kept = self.copied({KEY_SCHEDULED_DELIVERY: (LONG, 123), KEY_ROUTE_TO + "sf.one": (BYTES, bytes(8))})
        self.assertEqual([name for name in kept if not name.startswith("_AMQ_ORIG")], ["colour"])

    def test_the_routing_type_is_kept_aside_and_comes_back_with_the_next_copy(self) -> None:
        first = self.copied({KEY_ROUTING_TYPE: (BYTE, 1)})
        self.assertNotIn(KEY_ROUTING_TYPE, first)
        self.assertEqual(first["_AMQ_ORIG_ROUTING_TYPE"], (BYTE, 1))
        second = self.copied({"_AMQ_ORIG_ROUTING_TYPE": (BYTE, 1)})
        self.assertEqual(second[KEY_ROUTING_TYPE], (BYTE, 1))
        self.assertNotIn("_AMQ_ORIG_ROUTING_TYPE", second)

    def test_a_value_that_is_no_routing_type_is_left_out(self) -> None:
        values: tuple[TypedValue, ...] = ((STRING, "ANYCAST"), (LONG, 1000), (BYTE, -1), (NULL, None))
        for value in values:
            self.assertEqual([name for name in self.copied({KEY_ROUTING_TYPE: value}) if name.endswith("ROUTING_TYPE")], [])
        self.assertEqual(self.copied({KEY_ROUTING_TYPE: (INT, 1)})["_AMQ_ORIG_ROUTING_TYPE"], (BYTE, 1))

    def test_the_original_can_take_the_content_of_its_copy(self) -> None:
        message = self.message({})
        make_copy(message, 6, "b", original_address="a", original_queue="q").replace_in(message)
        self.assertEqual((message.address, message.expiration), ("b", 0))
        self.assertEqual(message.decoded().properties["_AMQ_ORIG_MESSAGE_ID"], (LONG, 5))
