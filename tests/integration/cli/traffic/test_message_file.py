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

    def test_messages_go_back_to_the_queue_that_they_are_from(self) -> None:
        """Although the address knows the duplicate id of one of them."""
        file = str(self.instance / "tmp" / "messages.xml")
        known = '[{"type": "string", "key": "_AMQ_DUPL_ID", "value": "one"}]'
        self.good("producer", "--destination", "queue://f1", "--message-count", "1", "--properties", known)
        self.good("consumer", "--destination", "queue://f1", "--message-count", "1", "--data", file)
        self.assertIn("Produced: 1 messages", self.good("producer", "--destination", "queue://f1", "--data", file))
        self.assertEqual(len(self.good("browser", "--destination", "queue://f1", "--json").splitlines()), 1)

    def test_a_message_that_does_not_get_into_the_file_stays_in_its_queue(self) -> None:
        file = str(self.instance / "tmp" / "messages.xml")
        for queue, text, name, reason in (
            ("f1", "a\x01b", file, "has characters that XML cannot hold"),
            ("f2", "ab", "/dev/full", "No space left on device"),
        ):
            self.good("producer", "--destination", f"queue://{queue}", "--message", text, "--message-count", "1")
            result = self.command("consumer", "--destination", f"queue://{queue}", "--message-count", "1", "--data", name)
            self.assertEqual(result.status, 1)
            self.assertIn(reason, result.err)
            left = [json.loads(line) for line in self.good("browser", "--destination", f"queue://{queue}", "--json").splitlines()]
            self.assertEqual([line["body"] for line in left], [text])
