"""Checks of health, and the HTTP resources of health and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import TestCase, mock

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import NOT_DONE_YET, Site
from twisted.web.test.requesthelper import DummyRequest

from mqbroker.server.observation.health import MetricsResource, health_root


class CheckTests(TestCase):
    def setUp(self) -> None:
        self.problem: str | None = None

    def get(self, path: str, method: str = "GET") -> tuple[int, bytes]:
        """What a server answers, over a transport in memory."""
        site: Any = Site(health_root(lambda: None, lambda: self.problem))  # type: ignore[no-untyped-call]
        site.log = lambda request: None
        channel: Any = site.buildProtocol(None)
        transport: Any = StringTransport()  # type: ignore[no-untyped-call]
        channel.makeConnection(transport)
        channel.dataReceived(f"{method} {path} HTTP/1.0\r\n\r\n".encode())
        channel.connectionLost(None)
        head, _, body = transport.value().partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def test_checks(self) -> None:
        self.assertEqual(self.get("/health/live"), (200, b"ok\n"))
        self.assertEqual(self.get("/health/ready"), (200, b"ok\n"))
        self.problem = "not started"
        self.assertEqual(self.get("/health/live"), (200, b"ok\n"))
        self.assertEqual(self.get("/health/ready"), (503, b"not started\n"))
        self.assertEqual(self.get("/health/ready", "HEAD"), (503, b""))

    def test_nothing_else(self) -> None:
        for path in ("/", "/health", "/health/", "/health/other", "/other", "/metrics"):
            self.assertEqual(self.get(path)[0], 404, path)


class MetricsResourceTests(SynchronousTestCase):
    @staticmethod
    def request() -> Any:
        request: Any = DummyRequest([b""])
        request.channel = mock.Mock()
        return request

    def get(self, pieces: Iterator[bytes], method: bytes = b"GET") -> Any:
        request = self.request()
        request.method = method
        request.transport = StringTransport()  # type: ignore[no-untyped-call]
        resource: Any = MetricsResource(lambda: pieces)
        body = resource.render(request)
        if body is not NOT_DONE_YET:
            request.write(body)
            request.finish()
        return request

    def test_pieces_are_written_one_by_one(self) -> None:
        request = self.get(iter((b"a 1\n", b"b 2\n")))
        self.assertEqual(request.written, [b"a 1\n", b"b 2\n"])
        self.assertEqual(request.finished, 1)
        self.assertEqual(request.responseHeaders.getRawHeaders(b"content-type"), [b"text/plain; version=0.0.4; charset=utf-8"])

    def test_head(self) -> None:
        self.assertEqual(self.get(self.failing(0), b"HEAD").written, [b""])

    def test_failure_before_the_first_piece(self) -> None:
        request = self.get(self.failing(0))
        self.assertEqual((request.responseCode, request.finished, request.written), (500, 1, []))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_failure_in_the_middle_cuts_the_connection(self) -> None:
        """Half a text must not look like a whole one."""
        request = self.get(self.failing(1))
        self.assertEqual((request.finished, request.transport.disconnected), (0, True))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_client_that_leaves(self) -> None:
        """Nothing is rendered for it any more, and nothing is written to a request that has ended."""
        producers: list[Any] = []
        request = self.request()
        request.registerProducer = lambda producer, streaming: producers.append(producer)
        pieces = iter((b"a", b"b", b"c"))
        resource: Any = MetricsResource(lambda: pieces)
        resource.render(request)
        producers[0].resumeProducing()
        producers[0].stopProducing()
        producers[0].resumeProducing()
        self.assertEqual((request.written, request.finished, list(pieces)), ([b"a"], 0, [b"b", b"c"]))

    def test_client_that_does_not_read(self) -> None:
        """A hundred of them kept everybody else away for ever."""
        clock = Clock()
        root = health_root(lambda: None, lambda: None, lambda: iter((b"a",)))
        site: Any = Site(root, reactor=clock)  # type: ignore[no-untyped-call]
        site.log = lambda request: None
        channel: Any = site.buildProtocol(None)
        transport: Any = StringTransport()  # type: ignore[no-untyped-call]
        channel.makeConnection(transport)
        channel.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.addCleanup(channel.connectionLost, None)
        self.addCleanup(transport.producer.stopProducing)  # as a real transport does first
        clock.advance(59)
        self.assertFalse(transport.disconnecting)
        clock.advance(1)
        self.assertTrue(transport.disconnecting)

    @staticmethod
    def failing(pieces: int) -> Iterator[bytes]:
        for _ in range(pieces):
            yield b"a 1\n"
        raise ZeroDivisionError
