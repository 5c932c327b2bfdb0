"""Handlers of messages that fail."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.network import message
from tests.unit.mqclient.core.connection.test_reconnect import CHANNEL, FailoverTestCase


class HandlerTests(FailoverTestCase):
    def test_handler_that_awaits_what_waits_for_handlers(self) -> None:
        self.start()
        session = self.world.session(self.factory, auto_commit_acks=False)
        consumer = self.world.finish(session.create_consumer("q"))
        done: list[str] = []

        async def handler(received: Any) -> None:
            await session.rollback()
            done.append("rolled back")
            await consumer.close()
            done.append("closed")

        self.world.finish(session.start())
        consumer.set_message_handler(handler)
        self.broker.deliver(CHANNEL + 1, message(1))
        self.world.network.stir()
        self.assertEqual((done, self.world.runtime.warnings), (["rolled back", "closed"], []))

    def test_handler_that_awaits_what_was_cancelled_does_not_end_delivery(self) -> None:
        """Under asyncio that is no Exception.  Messages that have arrived hold all credits: nothing else would let delivery go on."""
        self.start()
        consumer = self.world.finish(self.session.create_consumer("q"))
        handled: list[int] = []

        async def handler(received: Any) -> None:
            handled.append(received.message_id)
            raise asyncio.CancelledError

        self.world.finish(self.session.start())
        for number in range(3):
            self.broker.send(self.world.network.link, CHANNEL, message(number))
        self.world.network.stir()
        consumer.set_message_handler(handler)
        self.world.advance(0.5)
        self.assertEqual(handled, [0, 1, 2])
