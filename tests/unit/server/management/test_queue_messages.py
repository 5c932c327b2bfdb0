"""Messages of a queue as management shows them."""

from __future__ import annotations

import json

from mqclient.wire import packets as wire
from mqclient.wire.properties import BYTES, STRING, TypedValue
from tests.support.broker import message_id
from tests.unit.server.management.test_queue_control import QueueControlCase


class MessageTests(QueueControlCase):
    def test_look(self) -> None:
        self.fill()
        self.assertEqual(self.call("queue.q", "countMessages", "n > 0"), 2)
        self.assertEqual(json.loads(self.call("queue.q", "countMessages", "", "n")), {"0": 1, "1": 1, "2": 1})
        self.assertEqual(json.loads(self.call("queue.q", "countMessages", None, None)), {"null": 3})
        self.assertEqual(json.loads(self.call("queue.q", "countMessages", "n > 0", None)), {"null": 2})
        (first,) = json.loads(self.attribute("queue.q", "FirstMessageAsJSON"))
        self.assertEqual((first["n"], json.loads(self.call("queue.q", "peekFirstMessageAsJSON"))), (0, first))
        rows = json.loads(self.call("queue.q", "listMessagesAsJSON", "n = 1"))
        self.assertEqual([(row["n"], row["address"], row["durable"]) for row in rows], [(1, "q", True)])
        self.assertIn("filter", self.fails("queue.q", "countMessages", "n ="))

    def test_long_properties_are_cut(self) -> None:
        properties: dict[str, TypedValue] = {"text": (STRING, "x" * 300), "bytes": (BYTES, b"y" * 300), "short": (BYTES, b"y")}
        self.session.publish(properties=properties)
        (row,) = self.call("queue.q", "listMessages", "")
        self.assertEqual(row["text"], "x" * 256 + ", + 44 more")
        self.assertEqual((row["bytes"], row["short"]), ([121] * 256, [121]))

    def test_what_clients_hold_is_listed_and_left_alone(self) -> None:
        self.fill()
        self.session.consume("q")
        self.session.received()
        (entry,) = json.loads(self.call("queue.q", "listDeliveringMessagesAsJSON"))
        self.assertEqual(len(entry["elements"]), 3)
        self.assertEqual(self.call("queue.q", "removeAllMessages"), 0)
        self.assertEqual(self.world.queue("q").message_count, 3)
        (rows,) = self.call("queue.q", "listDeliveringMessages").values()
        self.assertEqual([row["n"] for row in rows], [0, 1, 2])
        self.assertEqual(self.call("queue.q", "countDeliveringMessages", None), 3)
        self.assertEqual(json.loads(self.call("queue.q", "countDeliveringMessages", None, None)), {"null": 3})
        self.assertEqual(self.call("queue.q", "countDeliveringMessages", "n > 0"), 2)
        self.assertEqual(json.loads(self.call("queue.q", "countDeliveringMessages", "n > 0", "n")), {"1": 1, "2": 1})
        self.assertEqual(self.attribute("queue.q", "DurableDeliveringCount"), 3)
        size = self.attribute("queue.q", "DeliveringSize")
        self.assertEqual((size, self.attribute("queue.q", "DurableDeliveringSize")), (self.attribute("queue.q", "PersistentSize"), size))

    def test_what_a_transaction_has_taken_is_in_delivery(self) -> None:
        self.assertEqual(self.attribute("queue.q", "FirstMessageAsJSON"), "[{}]")
        self.assertEqual(self.call("queue.q", "peekFirstMessageAsJSON"), "null")
        self.fill()
        taker = self.world.peer().open(username="admin", password="secret", auto_commit_acks=False)
        taker.consume("q", 7)
        first = taker.received()[0]
        taker.send(wire.Acknowledge(7, message_id(first), False))
        taker.ok(wire.ConsumerClose(7))
        (entry,) = json.loads(self.call("queue.q", "listDeliveringMessagesAsJSON"))
        self.assertEqual([row["n"] for row in entry["elements"]], [0])
        self.assertEqual(self.call("queue.q", "countDeliveringMessages", "n = 0"), 1)
