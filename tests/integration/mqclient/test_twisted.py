"""The shell for Twisted."""

from __future__ import annotations

from typing import Any

from twisted.logger import globalLogPublisher

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from tests.integration.mqclient.exchange import exchange
from tests.integration.mqclient.test_shells import ShellTestCase


class TwistedTests(ShellTestCase):
    async def test_exchange(self) -> None:
        self.assertEqual(await exchange(mqclient.twisted.server_locator(self.url())), [1, 2, 3])

    async def test_connections_leave_the_log_alone(self) -> None:
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        await exchange(mqclient.twisted.server_locator(self.url()))
        self.assertEqual([event for event in events if "starting factory" in str(event.get("log_format")).lower()], [])
