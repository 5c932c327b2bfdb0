"""Commands that ask the management of a broker."""

from __future__ import annotations

import json

from tests.integration.cli.test_commands_on_a_broker import CommandsOnABrokerCase
from tests.unit.cli.runner import mqbroker


class ManagementTests(CommandsOnABrokerCase):
    def test_a_queue_that_does_not_exist_is_named(self) -> None:
        reason = "queue not.there does not exist"
        for checks in ((), ("--produce", "1"), ("--browse", "1"), ("--consume", "1")):
            result = self.command("check", "queue", "--name", "not.there", *checks)
            self.assertEqual(result.status, 1)
            self.assertEqual(result.err, f"QueueCheck failed. Reason: failure: {reason}\n")
        result = self.command("queue", "purge", "--name", "not.there")
        self.assertEqual((result.status, result.err), (1, f"Failed to purge queue not.there. Reason: {reason}\n"))
        result = self.command("queue", "retry-messages", "--name", "not.there")
        self.assertEqual((result.status, result.err), (1, f"Failed to retry messages of queue not.there. Reason: {reason}\n"))

    def test_messages_are_moved_removed_and_sent_back(self) -> None:
        for number in (1, 2, 3):
            properties = json.dumps([{"type": "int", "key": "n", "value": str(number)}])
            self.good("producer", "--destination", "queue://work", "--message-count", "1", "--properties", properties)
        move = ("queue", "move-messages", "--name", "work", "--to", "DLQ", "--filter", "n > 1")
        self.assertIn("2 messages of queue work would be moved to DLQ.", self.good(*move, "--dry-run"))
        self.assertIn("2 messages of queue work moved to DLQ.", self.good(*move))
        retry = ("queue", "retry-messages", "--name", "DLQ")
        self.assertIn("2 messages of queue DLQ would be sent back to work.", self.good(*retry, "--dry-run"))
        text = self.good(*retry, "--filter", "n = 3")
        self.assertIn("1 message of queue DLQ sent back.", text)
        self.assertNotIn("still there", text)
        self.assertIn("1 message of queue DLQ deleted.", self.good("queue", "remove-messages", "--name", "DLQ", "--filter", "n = 2"))
        counts = {entry["name"]: entry["messageCount"] for entry in json.loads(self.good("queue", "stat", "--json"))["data"]}
        self.assertEqual((counts["work"], counts["DLQ"]), ("2", "0"))

    def test_wrong_password(self) -> None:
        result = mqbroker("queue", "stat", "--url", self.url, "--user", "admin", "--password", "wrong")
        self.assertEqual(result.status, 3)
