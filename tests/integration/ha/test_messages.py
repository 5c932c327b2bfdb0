"""Messages of every kind that move to another broker."""

from __future__ import annotations

import time

from mqclient.wire.properties import BYTE, LONG
from tests.integration.cluster.nodes import ANYCAST
from tests.integration.ha.test_scale_down import ScaleDownCase


class MessageTests(ScaleDownCase):
    async def test_scheduled_large_and_non_durable_messages(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        session = await self.session(one)
        await self.queue(session, "q")
        producer = await session.create_producer("q")
        due = int(time.time() * 1000) + 3_600_000
        for durable, body, properties in (
            (True, bytes(400_000), {}),
            (False, b"light", {}),
            (True, b"later", {"_AMQ_SCHED_DELIVERY": (LONG, due)}),
        ):
            message = session.create_message(durable=durable)
            message.put("_AMQ_ROUTING_TYPE", ANYCAST, BYTE)
            message.properties.update(properties)
            message.body = body
            await producer.send(message)
        await one.stop()
        queue = two.broker.messaging.core.queues["q"]
        self.assertEqual([reference.scheduled for reference in queue.scheduled], [due])
        self.assertEqual([(each.message.durable, each.message.body_size) for each in queue.references], [(True, 400_000), (False, 5)])

    async def test_paged_messages(self) -> None:
        paging = {"#": {"max_size_bytes": 20_000, "page_size_bytes": 10_000, "address_full_policy": "PAGE"}}
        one, two = await self.cluster_that_scales_down(2, address_settings=paging)
        await self.queue(await self.session(one), "q")
        texts = [f"{number:04}".ljust(500) for number in range(200)]
        await self.send(one, "q", texts)
        self.assertGreater(one.broker.messaging.core.queues["q"].paged, 100)
        await one.stop()
        self.assertEqual(await self.receive(await self.consumer(two, "q"), 200), texts)
