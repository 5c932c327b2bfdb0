"""Lists that management gives of connections, sessions, consumers and queues."""

from __future__ import annotations

import json

from mqclient.wire.properties import STRING
from tests.unit.server.management.test_service import REPLIES, ManagementCase


class ListTests(ManagementCase):
    def listed(self, page: int, size: int, **options: str) -> tuple[list[str], int]:
        found = json.loads(self.call("broker", "listQueues", json.dumps(options) if options else "", page, size))
        return [row["name"] for row in found["data"]], found["count"]

    def test_pages(self) -> None:
        for number in range(5):
            self.session.create_queue(f"list.{number}")
        options = {"field": "name", "operation": "CONTAINS", "value": "list.", "sortField": "name"}
        self.assertEqual(self.listed(1, 2, **options), (["list.0", "list.1"], 5))
        self.assertEqual(self.listed(3, 2, **options), (["list.4"], 5))
        self.assertEqual(self.listed(9, 2, **options), ([], 5))
        self.assertEqual(len(self.listed(1, -1, **options)[0]), 5)
        self.assertEqual(self.listed(1, 1, **{**options, "sortOrder": "desc"})[0], ["list.4"])
        self.assertEqual(self.listed(1, 50)[1], 7)

    def test_addresses_tell_how_many_duplicate_ids_they_know(self) -> None:
        for number in (1, 2, 2):
            self.session.publish(properties={"_AMQ_DUPL_ID": (STRING, str(number))})
        options = json.dumps({"field": "name", "operation": "EQUALS", "value": "q"})
        (row,) = json.loads(self.call("broker", "listAddresses", options, 1, 10))["data"]
        self.assertEqual((row["currentDuplicateIdCacheSize"], row["messageCount"]), ("2", "2"))

    def test_a_pause_that_outlasts_a_restart_is_shown(self) -> None:
        def shown() -> tuple[str, str]:
            (row,) = json.loads(
                self.call("broker", "listQueues", json.dumps({"field": "name", "operation": "EQUALS", "value": "q"}), 1, 1)
            )["data"]
            return row["paused"], row["persistedPause"]

        self.call("queue.q", "pause")
        self.assertEqual(shown(), ("true", "false"))
        self.call("queue.q", "pause", True)
        self.assertEqual(shown(), ("true", "true"))

    def test_numbers_are_compared_as_numbers(self) -> None:
        self.fill(10)
        self.session.create_queue("empty")
        self.assertEqual(self.listed(1, 50, field="messageCount", operation="GREATER_THAN", value="9")[0], ["q"])

    def test_a_number_is_never_beyond_what_is_no_number(self) -> None:
        for operation in ("LESS_THAN", "GREATER_THAN"):
            options = json.dumps({"field": "consumerCount", "operation": operation, "value": "many"})
            self.assertEqual(json.loads(self.call("broker", "listQueues", options, 1, 10))["count"], 0)

    def test_values_are_texts(self) -> None:
        found = json.loads(self.call("broker", "listConsumers", "", 1, 10))
        (row,) = found["data"]
        self.assertEqual((row["queue"], row["session"], row["messagesInTransit"]), (REPLIES, self.session.name, "0"))
