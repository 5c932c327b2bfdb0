"""Queues and addresses that management makes and describes."""

from __future__ import annotations

import json

from tests.unit.server.management.test_service import ManagementCase


class DefinitionTests(ManagementCase):
    def test_queues_are_made_described_and_destroyed(self) -> None:
        text = self.call("broker", "createQueue", json.dumps({"name": "new", "routing-type": "ANYCAST", "max-consumers": 3}))
        self.assertEqual((json.loads(text)["name"], json.loads(text)["max-consumers"]), ("new", 3))
        self.assertIn("AMQ229019", self.fails("broker", "createQueue", json.dumps({"name": "new"})))
        self.assertIn("AMQ229229", self.fails("broker", "createQueue", "{}"))
        self.assertIn("JSON", self.fails("broker", "createQueue", "{"))
        self.call("broker", "destroyQueue", "new")
        self.assertIn("AMQ229017", self.fails("broker", "destroyQueue", "new"))
