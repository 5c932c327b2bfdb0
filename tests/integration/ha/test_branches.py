"""Prepared branches that move to another broker."""

from __future__ import annotations

from mqclient.xa import Xid
from tests.integration.ha.test_scale_down import ScaleDownCase


class BranchTests(ScaleDownCase):
    async def test_prepared_branches(self) -> None:
        one, two = await self.cluster_that_scales_down(2)
        session = await self.session(one, xa=True)
        await self.queue(session, "q")
        await self.send(one, "q", ["consumed"])
        xid = Xid(1, b"global", b"branch")
        await session.xa_resource.start(xid)
        consumer = await session.create_consumer("q")
        await session.start()
        taken = await consumer.receive(20_000)
        assert taken is not None
        await consumer.individual_acknowledge(taken)
        producer = await session.create_producer("q")
        message = session.create_message()
        message.body = b"sent"
        await producer.send(message)
        await session.xa_resource.end(xid)
        await session.xa_resource.prepare(xid)
        await one.stop()
        await two.stop()
        two.start()
        there = await self.session(two, xa=True)
        self.assertEqual(await there.xa_resource.recover(), [xid])
        await there.xa_resource.rollback(xid)
        self.assertEqual(await self.receive(await self.consumer(two, "q"), 1), ["consumed"])
        await self.alone_again(one)
        self.assertEqual((one.broker.messaging.branches.prepared(), one.count("q")), ([], 0))
