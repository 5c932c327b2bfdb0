"""Messages that go through a file."""

from __future__ import annotations

import json

from tests.integration.cli.test_commands_on_a_broker import CommandsOnABrokerCase


class FileTests(CommandsOnABrokerCase):
    def test_messages_go_through_a_file(self) -> None:
        file = str(self.instance / "tmp" / "messages.xml")
        self.good("producer", "--destination", "queue://f1", "--message", "a ]]> b\n", "--message-count", "1", "--group", "g")
        self.good("producer", "--destination", "queue://f1", "--message-size", "300", "--message-count", "1")
        self.good("consumer", "--destination", "queue://f1", "--message-count", "2", "--data", file)
        self.assertIn("Produced: 2 messages", self.good("producer", "--destination", "queue://f2", "--data", file))
        lines = [json.loads(line) for line in self.good("browser", "--destination", "queue://f2", "--json").splitlines()]
        self.assertEqual([line["body"] for line in lines], ["a ]]> b\n", {"bytes": 300}])
        self.assertEqual(lines[0]["properties"], {"JMSXGroupID": "g"})
