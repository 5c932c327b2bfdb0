"""A queue with many messages moves with memory that does not depend on their number."""

from __future__ import annotations

import os
import resource

from mqbroker.config.model.cluster import ScaleDownConfiguration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.turns.context import OperationContext
from mqclient.wire.message import CoreMessage
from tests.integration.cluster.nodes import ANYCAST, ClusterCase, Node

MESSAGES = int(os.environ.get("MQBROKER_TEST_MESSAGES", "20000"))
"""In full it is 100,000 or a million, with the same limit of memory."""
GROWTH_MAX_KB = 20_000


def fill(node: Node) -> None:
    core, sending = node.broker.messaging.core, node.broker.messaging.sending
    context = OperationContext(core.store)

    def some(start: int) -> None:
        for number in range(start, start + 1000):
            content = CoreMessage(message_id=core.store.next_id(), address="q", durable=True, body=b"%06d" % number)
            sending.send(Message.of(content), "q", None, ANYCAST, context)

    for start in range(0, MESSAGES, 1000):
        core.turn.run(some, start)


class ManyTests(ClusterCase):
    timeout = 900

    async def test_memory_while_messages_move(self) -> None:
        paging = {"#": {"max_size_bytes": 1_000_000, "page_size_bytes": 1_000_000, "address_full_policy": "PAGE"}}
        one, two = self.make(2, address_settings=paging)
        one.configuration.scale_down = ScaleDownConfiguration()
        one.start()
        two.start()
        await self.formed([one, two])
        await self.queue(await self.session(one), "q")
        fill(one)
        await self.until(lambda: one.count("q") == MESSAGES, "all are stored", 300)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await one.stop()
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertEqual(two.count("q"), MESSAGES)
        self.assertLess(growth, GROWTH_MAX_KB)
        self.assertEqual(await self.receive(await self.consumer(two, "q"), 3), ["000000", "000001", "000002"])
