"""Metrics and health over a real connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, HTTPConnectionPool, readBody
from twisted.web.server import Site

from mqbroker.server.observation.health import health_root

reactor: Any = _reactor


class HealthTests(TestCase):
    async def setUp(self) -> None:  # type: ignore[override]
        self.pieces = [f"series{number} {number}\n".encode() * 1000 for number in range(200)]
        site: Any = Site(health_root(lambda: None, lambda: "the journal is being read", self.render))
        site.log = lambda request: None
        port: Any = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(site)
        self.addCleanup(port.stopListening)
        self.url = f"http://127.0.0.1:{port.getHost().port}"
        pool = HTTPConnectionPool(reactor, persistent=False)
        self.agent = Agent(reactor, pool=pool)

    def render(self) -> Iterator[bytes]:
        yield from self.pieces

    async def get(self, path: str) -> tuple[int, bytes]:
        response = await self.agent.request(b"GET", (self.url + path).encode())
        return response.code, await readBody(response)

    async def test_metrics_arrive_whole(self) -> None:
        code, body = await self.get("/metrics")
        self.assertEqual(code, 200)
        self.assertEqual(body, b"".join(self.pieces))

    async def test_health(self) -> None:
        self.assertEqual(await self.get("/health/live"), (200, b"ok\n"))
        self.assertEqual(await self.get("/health/ready"), (503, b"the journal is being read\n"))
        self.assertEqual((await self.get("/health/none"))[0], 404)
