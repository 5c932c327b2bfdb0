"""Headers in rows."""

from __future__ import annotations

import uuid

from mqclient.wire.properties import BYTE, STRING
from tests.unit.mqspark.messages.test_rows import NOW, RowsTestCase

try:
    import pyarrow as pa
except ImportError:
    pa = None


class HeaderTests(RowsTestCase):
    def test_defaults(self) -> None:
        (message,) = self.encoded({"text": pa.array(["a"])}, routing_type=1)
        self.assertEqual(
            (message.address, message.durable, message.priority, message.expiration, message.timestamp, message.user_id),
            ("orders", True, 4, 0, NOW, None),
        )
        self.assertEqual(message.properties, {"_AMQ_ROUTING_TYPE": (BYTE, 1)})

    def test_times_in_the_hour_that_a_zone_has_twice(self) -> None:
        """Spark hands over times in the zone of its session."""
        hour = 3_600_000_000
        begin = 1_729_989_000_000_000  # 2024-10-27T00:30Z: half past two in Berlin, as an hour later
        times = [begin + 1_999, begin + hour + 1_999]
        messages = self.encoded({"timestamp": pa.array(times, pa.timestamp("us", "Europe/Berlin"))})
        self.assertEqual([message.timestamp for message in messages], [begin // 1000 + 1, (begin + hour) // 1000 + 1])

    def test_columns(self) -> None:
        ident = uuid.UUID("8d6b3f53-4a4b-1d57-8be7-d0a9a4c1e111")
        columns = {
            "address": pa.array(["a", "b", "a"]),
            "priority": pa.array([0, 9, None], pa.int32()),
            "durable": pa.array([True, False, None]),
            "expiration": pa.array([5, None, 0], pa.int64()),
            "timestamp": pa.array([1_000_999, None, -1], pa.timestamp("us", "UTC")),
            "user_id": pa.array([f"ID:{ident}", str(ident), None]),
            "correlation_id": pa.array(["c", None, "d"]),
            "reply_to": pa.array([None, "queue://r", "topic://t"]),
            "group_id": pa.array(["g", "h", None]),
        }
        messages = self.encoded(columns, time_to_live=1000)
        self.assertEqual([message.address for message in messages], ["a", "b", "a"])
        self.assertEqual([message.priority for message in messages], [0, 9, 4])
        self.assertEqual([message.durable for message in messages], [True, False, True])
        self.assertEqual([message.expiration for message in messages], [5, NOW + 1000, 0])
        self.assertEqual([message.timestamp for message in messages], [1000, NOW, -1])
        self.assertEqual([message.user_id for message in messages], [ident.bytes, ident.bytes, None])
        self.assertEqual(messages[0].properties, {"JMSCorrelationID": (STRING, "c"), "_AMQ_GROUP_ID": (STRING, "g")})
        self.assertEqual(messages[1].properties, {"JMSReplyTo": (STRING, "queue://r"), "_AMQ_GROUP_ID": (STRING, "h")})
        self.assertEqual(messages[2].properties, {"JMSCorrelationID": (STRING, "d"), "JMSReplyTo": (STRING, "topic://t")})

    def test_the_address_of_the_settings_wins(self) -> None:
        (message,) = self.encoded({"address": pa.array(["a"])}, address="b")
        self.assertEqual(message.address, "b")

    def test_values_that_no_message_can_hold(self) -> None:
        self.assertIn("priority holds 10, expected 0 to 9", self.refused({"priority": pa.array([1, 10])}))
        self.assertIn("user_id: 2 bytes, expected 16", self.refused({"user_id": pa.array([b"xy"], pa.binary())}))
        self.assertIn("user_id", self.refused({"user_id": pa.array(["nonsense"])}))
        self.assertIn("address is null", self.refused({"address": pa.array(["a", None])}))

    def test_no_rows(self) -> None:
        self.assertEqual(self.encoded({"text": pa.array([], pa.string()), "address": pa.array([], pa.string())}, id_prefix="q/"), [])
