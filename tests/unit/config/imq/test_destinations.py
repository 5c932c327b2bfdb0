"""Attributes of destinations become settings of addresses; what cannot be kept is refused by name."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.destinations import AttributeRefused, parse_attributes, settings_with, shown_attributes
from mqbroker.config.model.address_settings import AddressSettings, merge
from mqbroker.server.security.kept_settings import parse_address_setting


class AttributeTests(SynchronousTestCase):
    def settings(self, *, queue: bool = True, present: dict[str, object] | None = None, **texts: str) -> AddressSettings:
        beans = settings_with(present or {}, parse_attributes(texts, queue))
        return merge([parse_address_setting(json.dumps(beans))], AddressSettings())

    def refused(self, queue: bool = True, **texts: str) -> str:
        return str(self.assertRaises(AttributeRefused, parse_attributes, texts, queue))

    def test_a_limit_rejects_unless_it_blocks(self) -> None:
        made = self.settings(maxNumMsgs="10")
        self.assertEqual((made.max_size_messages, made.address_full_policy), (10, "FAIL"))
        made = self.settings(maxNumMsgs="10", limitBehavior="flow_control")
        self.assertEqual((made.max_size_messages, made.address_full_policy), (10, "BLOCK"))
        made = self.settings(maxTotalMsgBytes="10k")
        self.assertEqual((made.max_size_bytes, made.page_size_bytes, made.address_full_policy), (10240, 10240, "FAIL"))

    def test_without_limits_messages_are_paged(self) -> None:
        self.assertEqual(self.settings(maxNumMsgs="-1").address_full_policy, "PAGE")

    def test_the_old_way_to_say_that_there_is_no_limit(self) -> None:
        made = self.settings(maxNumMsgs="0", maxTotalMsgBytes="0", maxBytesPerMsg="0")
        self.assertEqual((made.max_size_messages, made.max_size_bytes, made.address_full_policy), (-1, -1, "PAGE"))

    def test_the_others(self) -> None:
        made = self.settings(maxNumActiveConsumers="1", consumerFlowLimit="5", localDeliveryPreferred="true")
        self.assertEqual((made.default_max_consumers, made.consumer_flow_limit, made.local_delivery_preferred), (1, 5, True))

    def test_without_the_dead_message_queue_nothing_is_kept(self) -> None:
        made = self.settings(useDMQ="false")
        self.assertEqual((made.dead_letter_address, made.expiry_address), ("mq.sys.nowhere", "mq.sys.nowhere"))
        self.assertEqual(self.settings(useDMQ="F"), made)
        made = self.settings(useDMQ="t")
        self.assertEqual((made.dead_letter_address, made.expiry_address), ("mq.sys.dmq", "mq.sys.dmq"))

    def test_what_cannot_be_kept_is_refused_by_name(self) -> None:
        for name, value in (
            ("maxBytesPerMsg", "1k"),
            ("maxNumProducers", "100"),
            ("maxNumBackupConsumers", "1"),
            ("limitBehavior", "REMOVE_OLDEST"),
            ("isLocalOnly", "true"),
            ("validateXMLSchemaEnabled", "true"),
        ):
            self.assertIn(f"The attribute '{name}' cannot be '{value}': ", self.refused(**{name: value}))
        self.assertEqual(self.settings(maxBytesPerMsg="-1", isLocalOnly="false", maxNumBackupConsumers="0"), AddressSettings())

    def test_unknown_attributes_and_values(self) -> None:
        self.assertIn(
            "Invalid attribute specified: maxNumMsg\nThe valid attributes for a queue are:\nXMLSchemaURIList\n", self.refused(maxNumMsg="1")
        )
        self.assertIn("Invalid attribute specified: localDeliveryPreferred", self.refused(queue=False, localDeliveryPreferred="true"))
        self.assertIn("The value 'XX' for the attribute 'limitBehavior' is invalid: expected one of", self.refused(limitBehavior="XX"))

    def test_a_change_leaves_the_other_settings(self) -> None:
        made = self.settings(present={"maxSizeMessages": 5, "addressFullMessagePolicy": "BLOCK", "maxDeliveryAttempts": 3}, maxNumMsgs="6")
        self.assertEqual((made.max_size_messages, made.address_full_policy, made.max_delivery_attempts), (6, "BLOCK", 3))

    def test_as_query_shows_them(self) -> None:
        shown = shown_attributes(self.settings(maxNumMsgs="10", useDMQ="false"), 4, 1000, queue=True)
        self.assertEqual(
            [
                shown[name]
                for name in ("Max Number of Messages", "Max Total Message Bytes", "Max Number of Active Consumers", "Limit Behavior")
            ],
            ["10", "unlimited (-1)", "4", "REJECT_NEWEST"],
        )
        self.assertEqual((shown["Use Dead Message Queue"], shown["Consumer Flow Limit"]), ("false", "1000"))
        self.assertNotIn("Local Delivery is Preferred", shown_attributes(AddressSettings(), None, 1000, queue=False))
