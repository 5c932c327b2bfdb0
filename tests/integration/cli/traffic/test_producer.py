"""``mqbroker producer``."""

from __future__ import annotations

import json

from tests.integration.cli.test_commands_on_a_broker import CommandsOnABrokerCase


class ProducerTests(CommandsOnABrokerCase):
    def test_filters_and_properties(self) -> None:
        queue = ("--destination", "queue://filtered")
        for value in ("1", "2"):
            properties = json.dumps([{"type": "int", "key": "n", "value": value}, {"type": "string", "key": "s", "value": "x"}])
            self.good("producer", *queue, "--message-count", "1", "--message", f"text {value}", "--properties", properties)
        line = json.loads(self.good("browser", *queue, "--filter", "n = 2", "--json"))
        self.assertEqual((line["body"], line["properties"]), ("text 2", {"n": 2, "s": "x"}))
        self.assertEqual(self.command("consumer", *queue, "--filter", "n = = 2").status, 1)
