"""HTTP for operators: ``/metrics``, ``/health/live`` and ``/health/ready``.

The texts come from callables.  The module is imported only by a broker that is configured to serve them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.interfaces import IPullProducer
from twisted.logger import Logger
from twisted.protocols.policies import WrappingFactory
from twisted.web.http import INTERNAL_SERVER_ERROR, OK, SERVICE_UNAVAILABLE
from twisted.web.pages import notFound
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from mqbroker.server.observation.metrics import CONTENT_TYPE

log = Logger(namespace="mqbroker.http")

CONNECTIONS_MAX = 100
"""Connections of one port for health and metrics that are open at a time; further ones are closed."""

UNREAD_SECONDS_MAX = 60
"""Seconds in which a client has to take a piece of the metrics; with more its connection ends.  Twisted itself would wait for ever, and
such clients would keep all others away."""

Check = Callable[[], str | None]
"""Returns one line about a problem; None without one."""


class CheckResource(Resource):
    """Status 200 when the check finds no problem, else 503 with the problem."""

    isLeaf = True

    def __init__(self, check: Check) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._check = check

    def render_GET(self, request: Any) -> bytes:
        request.setHeader(b"Content-Type", b"text/plain; charset=utf-8")
        request.setHeader(b"Cache-Control", b"no-store")
        problem = self._check()
        request.setResponseCode(OK if problem is None else SERVICE_UNAVAILABLE)
        return f"{'ok' if problem is None else problem}\n".encode()


class MetricsResource(Resource):
    """Writes the pieces of a text one by one, as the client takes them, so that a long text does not hold up the broker."""

    isLeaf = True

    def __init__(self, render: Callable[[], Iterator[bytes]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._render = render

    def render_GET(self, request: Any) -> int | bytes:
        request.setHeader(b"Content-Type", CONTENT_TYPE.encode())
        request.setHeader(b"Cache-Control", b"no-store")
        if request.method == b"HEAD":
            return b""
        _Writer(request, self._render()).start()
        return NOT_DONE_YET


@implementer(IPullProducer)
class _Writer:
    def __init__(self, request: Any, pieces: Iterator[bytes]) -> None:
        self._request = request
        self._pieces = pieces
        self._begun = False
        self._ended = False

    def start(self) -> None:
        self._request.channel.setTimeout(UNREAD_SECONDS_MAX)  # until the request is done
        self._request.registerProducer(self, False)

    def resumeProducing(self) -> None:
        if self._ended:
            return
        self._request.channel.resetTimeout()
        try:
            piece = next(self._pieces, None)
        except Exception:
            log.failure("metrics could not be rendered")
            self._fail()
            return
        if piece is None:
            self._finish()
        else:
            self._begun = True
            self._request.write(piece)

    def stopProducing(self) -> None:
        """The client has gone."""
        self._ended = True

    def _fail(self) -> None:
        if self._begun:
            # The connection is cut off: the client must not take half a text for the whole text.
            self._ended = True
            self._request.unregisterProducer()
            self._request.transport.abortConnection()
            return
        self._request.setResponseCode(INTERNAL_SERVER_ERROR)
        self._finish()

    def _finish(self) -> None:
        self._ended = True
        self._request.unregisterProducer()
        self._request.finish()


class _Folder(Resource):
    """A resource that only holds other resources; a request for its own path gets 404."""

    def render(self, request: Any) -> Any:
        nothing: Any = notFound()
        return nothing.render(request)

    def getChild(self, path: bytes, request: Any) -> Any:
        return notFound()


class FewConnections(WrappingFactory):
    """A site with at most :data:`CONNECTIONS_MAX` connections at a time."""

    noisy = False

    def buildProtocol(self, addr: Any) -> Any:
        return None if len(self.protocols) >= CONNECTIONS_MAX else super().buildProtocol(addr)


def health_root(live: Check, ready: Check, metrics: Callable[[], Iterator[bytes]] | None = None) -> Resource:
    """The root of a ``twisted.web.server.Site``.  Without ``metrics`` there is no ``/metrics``."""
    root, health = _Folder(), _Folder()  # type: ignore[no-untyped-call]
    health.putChild(b"live", CheckResource(live))
    health.putChild(b"ready", CheckResource(ready))
    root.putChild(b"health", health)
    if metrics is not None:
        root.putChild(b"metrics", MetricsResource(metrics))
    return root
