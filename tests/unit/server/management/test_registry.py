"""Names of resources, attributes and operations."""

from __future__ import annotations

from tests.unit.server.management.test_service import ManagementCase


class NameTests(ManagementCase):
    def test_attributes_in_either_spelling(self) -> None:
        self.fill()
        self.assertEqual(self.attribute("queue.q", "messageCount"), 3)
        self.assertEqual(self.attribute("queue.q", "MessageCount"), 3)
        self.assertEqual(self.call("queue.q", "getMessageCount"), 3)

    def test_unknown_things_are_told(self) -> None:
        self.assertIn("AMQ229067", self.fails("queue.missing", "countMessages"))
        self.assertIn("AMQ229069", self.fails("queue.q", "noSuchThing", 1, 2))
        self.assertIn("AMQ229069", self.fails("queue.q", "pause", 1, 2, 3))
        self.request({"_AMQ_ResourceName": "queue.q", "_AMQ_Attribute": "nothing"}, b"")
        self.assertEqual(self.reply()[0], False)
