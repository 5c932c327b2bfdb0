"""``mqbroker consumer`` and ``browser``."""

from __future__ import annotations

import json

from tests.integration.cli.test_commands_on_a_broker import CommandsOnABrokerCase


class ConsumerTests(CommandsOnABrokerCase):
    def test_produce_browse_consume(self) -> None:
        queue = ("--destination", "queue://pbc")
        sent = json.loads(self.good("producer", *queue, "--message-count", "7", "--threads", "2", "--commit-interval", "3", "--json"))
        self.assertEqual(sent["messages"], 14)
        self.assertIn("browsed: 5 messages", self.good("browser", *queue, "--message-count", "5"))
        got = self.good("consumer", *queue, "--message-count", "14")
        self.assertIn("Consumed: 14 messages", got)
        self.assertRegex(got, r"Rate: 14 messages in [\d.]+ s")
        self.assertIn("Consumed: 0 messages", self.good("consumer", *queue, "--break-on-null", "--receive-timeout", "50"))

    def test_a_durable_subscription(self) -> None:
        topic = ("--destination", "topic://news", "--message-count", "1", "--receive-timeout", "50", "--break-on-null")
        self.good("consumer", *topic, "--durable", "--clientID", "me")
        self.good("producer", "--destination", "topic://news", "--message-count", "1")
        self.assertIn("Consumed: 1 messages", self.good("consumer", *topic, "--durable", "--clientID", "me"))
        self.assertEqual(self.command("consumer", *topic, "--durable").status, 2)
