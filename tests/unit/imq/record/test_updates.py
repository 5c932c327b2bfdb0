"""How a queue becomes what the record says."""

from __future__ import annotations

from dataclasses import replace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.record.updates import queue_update
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition

QUEUE = QueueDefinition("q", "a", ANYCAST)


class UpdateTests(SynchronousTestCase):
    def test_nothing_changes(self) -> None:
        found = queue_update(replace(QUEUE, user="u"), QUEUE)
        self.assertEqual((dict(found.changes), found.replaced), ({}, False))

    def test_in_place(self) -> None:
        found = queue_update(replace(QUEUE, auto_created=True, max_consumers=3), QUEUE)
        self.assertEqual((dict(found.changes), found.replaced), ({"auto_created": False, "max_consumers": -1}, False))

    def test_anew(self) -> None:
        for other in (
            replace(QUEUE, address="b"),
            replace(QUEUE, routing_type=0),
            replace(QUEUE, durable=False),
            replace(QUEUE, last_value=True, last_value_key="k"),
            replace(QUEUE, non_destructive=True),
        ):
            self.assertTrue(queue_update(other, QUEUE).replaced)
