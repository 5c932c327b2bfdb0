"""A broker whose event loop really stalls."""

from __future__ import annotations

import time
from typing import Any

from twisted.logger import globalLogPublisher

from tests.integration.server.wire_client import BrokerCase

STALL = 6.0
"""A busy machine may stall for two seconds by itself, and the test is about one stall."""


class StallTests(BrokerCase):
    async def test_a_stall_is_logged_with_its_stack_and_the_policy_is_followed(self) -> None:
        events: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        broker = self.start(critical_analyzer_timeout=3000, critical_analyzer_check_period=50, critical_analyzer_policy="HALT")
        failures: list[str] = []
        broker._on_failure = failures.append
        client = await self.connect(broker)
        for _ in range(3):
            await client.ping()
        deadline = time.monotonic() + STALL
        while time.monotonic() < deadline or not (failures or time.monotonic() > deadline + 20):
            time.sleep(0.01)
        await client.ping()
        lines = [str(event["log_format"]).format(**event) for event in events if "log_format" in event]
        stalls = [line for line in lines if "it is stuck here" in line]
        self.assertEqual(len(stalls), 1)
        self.assertIn("test_a_stall_is_logged", stalls[0])
        self.assertEqual(len(failures), 1)
        lag = broker.figures().broker()["event.loop.lag"]
        self.assertGreaterEqual(lag, 3000)

    async def test_nothing_is_watched_where_it_is_switched_off(self) -> None:
        broker = self.start(critical_analyzer=False)
        self.assertNotIn("event.loop.lag", broker.figures().broker())
