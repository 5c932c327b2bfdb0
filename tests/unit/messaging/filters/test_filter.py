"""Filters: grammar, three-valued logic, types, identifiers, and the limits that keep a hostile text cheap."""

from __future__ import annotations

import json
import struct
import uuid
from pathlib import Path
from unittest import TestCase

from mqbroker.messaging.filters.filter import FILTER_LENGTH_MAX, Filter, parse_filter
from mqbroker.messaging.message.message import Message
from mqclient.errors import InvalidFilterExpressionError
from mqclient.wire.message import TYPE_TEXT, CoreMessage
from mqclient.wire.properties import INT, STRING, TypedValue

VECTORS = Path(__file__).parents[4] / "protocol-spec" / "vectors"


def message(properties: dict[str, TypedValue] | None = None, text: str | None = None) -> Message:
    plain = CoreMessage(address="prices.stocks", durable=True, timestamp=1000, priority=4, properties=properties or {})
    if text is not None:
        raw = text.encode("utf-16-le")
        plain.type, plain.body = TYPE_TEXT, b"\x01" + struct.pack(">i", len(raw)) + raw
    return Message.of(plain)


def matches(text: str, **properties: TypedValue) -> bool:
    filter = parse_filter(text)
    assert filter is not None
    return filter.matches(message(properties))


def refusal(text: str) -> str:
    """What the error says with which the text is refused."""
    try:
        parse_filter(text)
    except InvalidFilterExpressionError as error:
        assert error.code == 103
        return str(error)
    raise AssertionError(f"accepted: {text[:200]}")


class IdentifierTests(TestCase):
    def test_headers(self) -> None:
        user_id = uuid.UUID("c0652703-e543-11f1-b8bb-fddb2e946694")
        plain = CoreMessage(address="a.b", user_id=user_id.bytes, durable=False, expiration=5000, timestamp=1000, priority=7)
        plain.properties["_AMQ_GROUP_ID"] = (STRING, "g")
        encoded = Message.of(plain)
        for text in (
            "AMQPriority = 7",
            "AMQTimestamp = 1000 AND AMQTimestamp > 999.5",
            "AMQExpiration = 5000",
            "AMQDurable = 'NON_DURABLE'",
            f"AMQSize = {len(encoded.buffer)}",
            f"AMQUserID = 'ID:{user_id}'",
            "AMQAddress = 'a.b'",
            "AMQGroupID = 'g'",
            '"AMQPriority" > 6',
        ):
            self.assertTrue(Filter(text).matches(encoded), text)

    def test_absent_headers(self) -> None:
        for text in (
            "AMQUserID IS NULL",
            "AMQGroupID IS NULL",
            "AMQExpiration = 0",
            "AMQDurable = 'DURABLE'",
            "NOT (AMQUserID = 'x') IS NULL",
        ):
            self.assertTrue(matches(text), text)

    def test_a_property_cannot_pose_as_a_header(self) -> None:
        self.assertFalse(matches("AMQPriority = 9", AMQPriority=(INT, 9)))
        self.assertTrue(matches("JMSPriority = 9 AND AMQX = 1", JMSPriority=(INT, 9), AMQX=(INT, 1)))

    def test_damaged_properties_match_nothing(self) -> None:
        """Behind the property that the filter names nothing is read."""
        damaged = message({"a": (INT, 1), "b": (STRING, "xyz")})
        damaged.buffer = damaged.buffer[:-2]
        self.assertTrue(Filter("a = 1").matches(damaged))
        self.assertFalse(Filter("b IS NULL OR TRUE").matches(damaged))


class LimitTests(TestCase):
    def test_long_chains_of_and_and_or(self) -> None:
        self.assertTrue(matches(" OR ".join(["a = 1"] * 5000 + ["a = 2"]), a=(INT, 2)))
        self.assertFalse(matches(" AND ".join(["a = 2"] * 5000 + ["a = 1"]), a=(INT, 2)))

    def test_nesting_is_bounded(self) -> None:
        self.assertTrue(matches("(" * 150 + "a = 1" + ")" * 150, a=(INT, 1)))
        self.assertTrue(matches("a = 1" + " + 1" * 150, a=(INT, 151)))
        for text in (
            "(" * 30000 + "a = 1" + ")" * 30000,
            "NOT " * 10000 + "a",
            "- " * 10000 + "1 = 1",
            "a = 1" + " + 1" * 10000,
            "a" + " IS NULL" * 7000,
            "(" * 150 + "1" + " + 1)" * 150 + " + 1" * 150 + " = a",
            "a = (" * 9000,
            "a = 1 + (" * 5000,
        ):
            error = refusal(text)
            self.assertIn("levels of nesting", error)

    def test_length_is_bounded(self) -> None:
        values = ",".join(f"'{number:050}'" for number in range(1000))
        self.assertTrue(matches(f"a IN ({values})", a=(STRING, f"{999:050}")))
        error = refusal("a" * (FILTER_LENGTH_MAX + 1))
        self.assertIn("AMQ229020", error)
        self.assertLess(len(error), 400)

    def test_comments_without_line_break_are_searched_for_once(self) -> None:
        """Sixty thousand hyphens: ends at once, or not within the time of a test."""
        self.assertTrue(matches(" OR ".join(["a=2--1"] * 6000), a=(INT, 3)))


class VectorTests(TestCase):
    """What real clients sent, and what the real broker gave them."""

    def test_recorded_selectors(self) -> None:
        files = sorted(VECTORS.glob("*/selectors.json"))
        self.assertGreaterEqual(len(files), 4)
        for file in files:
            recorded = json.loads(file.read_text(encoding="utf-8"))
            accepted, refused = [], {error["message"] for error in recorded["expect"]["errors"]}
            filters = self.sent_filters(recorded)
            for text in filters:
                if f"AMQ229020: Invalid filter: {text}" in refused:
                    refusal(text)
                else:
                    accepted.append(Filter(text))
            self.assertEqual((len(accepted), len(filters)), (3, 5))
            messages = {entry["body"]: self.message_of(entry) for entry in recorded["expect"]["sent"]}
            received = [entry["text"] for entry in recorded["expect"]["received"]]
            # the first two consumers took one message each and the third what was left
            takers = [accepted[0], accepted[1], accepted[2]]
            for body, taker in zip(received, takers, strict=True):
                self.assertTrue(taker.matches(messages[body]), (file.parent.name, body, taker.text))
            self.assertEqual([body for body in messages if accepted[0].matches(messages[body])], ["m2"])
            self.assertEqual([body for body in messages if accepted[1].matches(messages[body])], ["m1"])
            self.assertFalse(accepted[2].matches(messages["m0"]))

    @staticmethod
    def sent_filters(recorded: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[str]:
        found = []
        for connection in recorded["connections"]:
            for frame in connection["frames"]:
                if frame["name"] == "SESS_CREATECONSUMER":
                    raw = bytes.fromhex(frame["hex"])
                    (queue_length,) = struct.unpack_from(">i", raw, 21)
                    at = 25 + queue_length
                    assert raw[at] == 1
                    (size,) = struct.unpack_from(">i", raw, at + 1)
                    found.append(raw[at + 5 : at + 5 + size].decode("utf-16-le"))
        return found

    @staticmethod
    def message_of(entry: dict[str, object]) -> Message:
        kinds = {"INT": INT, "STRING": STRING}
        properties = entry["properties"]
        assert isinstance(properties, dict)
        typed = {name: (kinds[value["type"]], value["value"]) for name, value in properties.items()}
        timestamp = entry["timestamp"]
        assert isinstance(timestamp, int)
        return Message.of(CoreMessage(address="v.sel", durable=bool(entry["durable"]), timestamp=timestamp, properties=typed))
