"""Connections of the shell for Twisted."""

from __future__ import annotations

from typing import Any

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqclient.errors import NotConnectedError
from tests.integration.mqclient.test_shells import ShellTestCase


class NetworkTests(ShellTestCase):
    async def test_reconnect(self) -> None:
        locator = mqclient.twisted.server_locator(self.url("&reconnectAttempts=20&retryInterval=50"))
        factory = await locator.create_session_factory()
        session = await factory.create_session()
        consumer = await session.create_consumer("q")
        await session.start()
        receive = consumer.receive()
        self.broker.cut()
        producer = await session.create_producer("q")
        await producer.send(session.create_message())
        self.assertIsNotNone(await receive)
        await locator.close()

    async def test_nobody_listens(self) -> None:
        await self.broker.stop()
        locator = mqclient.twisted.server_locator(self.url())
        call: Any = locator.create_session_factory()
        error: Any = await self.assertFailure(call, NotConnectedError)
        self.assertIn(str(self.broker.port), str(error))
        await self.broker.listen()
