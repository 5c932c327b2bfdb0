"""The shell for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from twisted.internet.threads import deferToThread

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqclient.core.api import LocatorSettings
from mqclient.errors import NotConnectedError
from tests.integration.mqclient.exchange import exchange
from tests.integration.mqclient.test_shells import ShellTestCase


class AsyncioTests(ShellTestCase):
    def run_asyncio(self, function: Callable[[], Any]) -> Any:
        return deferToThread(lambda: asyncio.run(function()))

    async def test_exchange(self) -> None:
        async def main() -> list[int]:
            return await exchange(mqclient.asyncio.server_locator(self.url()))

        self.assertEqual(await self.run_asyncio(main), [1, 2, 3])

    async def test_cancelled_receive(self) -> None:
        async def main() -> str:
            locator = mqclient.asyncio.server_locator(self.connectors(), LocatorSettings(call_timeout=5000))
            factory = await locator.create_session_factory()
            session = await factory.create_session()
            consumer = await session.create_consumer("q")
            try:
                await asyncio.wait_for(asyncio.ensure_future(consumer.receive()), 0.05)
            except TimeoutError:
                return "ended"
            finally:
                await locator.close()
            return "went on"

        self.assertEqual(await self.run_asyncio(main), "ended")

    async def test_nobody_listens(self) -> None:
        async def main() -> str:
            try:
                await mqclient.asyncio.server_locator("tcp://127.0.0.1:1").create_session_factory()
            except NotConnectedError as error:
                return str(error)
            return "connected"

        self.assertIn("127.0.0.1:1 cannot be reached", await self.run_asyncio(main))
