"""CORE inside HTTP, for clients with ``httpEnabled`` on any acceptor (Artemis manual, "Configuring Netty HTTP").

The client sends its bytes in the bodies of POST requests, and a GET or an empty POST when it has been silent for a while; all on one
connection.  The broker can speak only in responses.  A request is therefore answered when there is output, or with an empty body after
``httpResponseTime``.  The bodies, put together, are the byte streams of an ordinary connection.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mqclient.errors import ProtocolError
from mqclient.protocol.http import Head, HttpSplitter

if TYPE_CHECKING:
    from mqbroker.messaging.ports import Cancellable, Clock
    from mqbroker.server.transport.connection import ConnectionTransport, ServerConnection

RESPONSE_MS = 10_000
"""The time that a request waits for output, unless the acceptor has ``httpResponseTime``."""

SCAN_MS = 5_000
"""The time between two searches for requests that have waited so long, unless the acceptor has ``httpServerScanPeriod``."""

WAITING_REQUESTS_MAX = 100
"""Requests of one HTTP connection that wait for a response; with more the first one is answered with an empty body."""

UNSAID_BYTES_MAX = 256 * 1024
"""Bytes of output that wait for a request; beyond them nothing is delivered to the client until a request comes.

The client may send the greatest frame and as many bytes meanwhile; with more, and still no end of the request, its connection ends.
"""

_BEGINNINGS = (b"GE", b"PO", b"PU", b"HE", b"OP", b"PA", b"DE", b"TR")
_EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_REFUSAL = "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def looks_like_http(data: bytes) -> bool | None:
    """Does a connection that begins with these bytes speak HTTP?  None when one more byte is needed."""
    if len(data) < 2:
        return None if any(each.startswith(data) for each in _BEGINNINGS) else False
    return data[:2] in _BEGINNINGS


class HttpTunnel:
    """The transport of a connection whose client speaks HTTP, in front of the ``transport`` of the socket.

    The owner of the socket calls :meth:`received`, :meth:`pause_output`, :meth:`resume_output` and :meth:`lost` of the tunnel instead of
    the connection's.
    """

    def __init__(
        self,
        transport: ConnectionTransport,
        connection: ServerConnection,
        clock: Clock,
        response_ms: int = RESPONSE_MS,
        scan_ms: int = SCAN_MS,
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._clock = clock
        self._response_seconds = response_ms / 1000
        self._scan_seconds = max(scan_ms, 1) / 1000
        self._splitter = HttpSplitter()
        self._requests: deque[float] = deque()
        """The latest times to answer the waiting requests, in monotonic seconds; the oldest first."""
        self._timer: Cancellable | None = None
        self._is_post = False
        self._spoken = False
        self._unsaid: list[bytes] = []
        self._unsaid_bytes = 0
        self._held = False
        """Is delivery paused, because too much output waits for a request?"""
        self._congested = False
        self._pause_wanted = False
        self._paused = False
        self._unheard = 0
        self._refused = False
        self._over = False

    # --- from the socket

    def received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            for found in self._splitter.feed(data):
                if self._over:
                    return
                if isinstance(found, Head):
                    self._begin(found)
                elif isinstance(found, bytes):
                    self._hear(found)
                else:
                    self._end()
        except ProtocolError as error:
            self._refuse("400 Bad Request", str(error))

    def _begin(self, head: Head) -> None:
        method = head.first_line.partition(" ")[0]
        if "upgrade" in head.headers:
            self._refuse("403 Forbidden", "the client asks for an upgrade of HTTP to another protocol")
        elif method not in ("GET", "POST"):
            self._refuse("405 Method Not Allowed", f"the HTTP method {method[:20]!r} is neither GET nor POST")
        self._is_post = method == "POST"

    def _hear(self, data: bytes) -> None:
        if self._held:
            self._unheard += len(data)
            if self._unheard > self._connection.server.frame_size_max + UNSAID_BYTES_MAX:
                self._refuse("413 Content Too Large", "the client sends without taking answers")
                return
        if self._is_post:
            self._spoken = True
            self._connection.received(data)

    def _end(self) -> None:
        if not self._spoken:
            # The client waits for a first response (httpRequiresSessionId) before it sends anything else.
            self._transport.writeSequence([_EMPTY])
            return
        self._requests.append(self._clock.monotonic() + self._response_seconds)
        if self._unsaid:
            self._say()
        elif len(self._requests) > WAITING_REQUESTS_MAX:
            self._answer_empty()
        if self._timer is None:
            self._timer = self._clock.call_later(self._scan_seconds, self._scan)

    def _refuse(self, status: str, reason: str) -> None:
        self._refused = True
        self._transport.writeSequence([_REFUSAL.format(status=status).encode()])
        self._connection.fail(f"AMQ222067: {reason}")

    def _scan(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._requests and self._requests[0] <= now:
            self._answer_empty()
        if self._requests:
            self._timer = self._clock.call_later(self._scan_seconds, self._scan)

    def _answer_empty(self) -> None:
        self._requests.popleft()
        self._transport.writeSequence([_EMPTY])

    def lost(self) -> None:
        """The socket is gone."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- the output, which may have to wait for the socket or for a request

    def pause_output(self) -> None:
        self._congested = True
        self._connection.pause_output()

    def resume_output(self) -> None:
        self._congested = False
        if not self._held:
            self._connection.resume_output()

    def writeSequence(self, data: list[bytes]) -> None:
        if self._refused:
            return
        self._unsaid += data
        self._unsaid_bytes += sum(map(len, data))
        if self._requests:
            self._say()
        elif self._unsaid_bytes > UNSAID_BYTES_MAX and not self._held:
            self._held = True
            self._unheard = 0
            self._connection.pause_output()

    def _say(self) -> None:
        self._requests.popleft()
        self._write_response()
        if self._held:
            self._held = False
            self._apply_pause()
            if not self._congested:
                self._connection.resume_output()

    def _write_response(self) -> None:
        unsaid, self._unsaid = self._unsaid, []
        size, self._unsaid_bytes = self._unsaid_bytes, 0
        self._transport.writeSequence([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size, *unsaid])

    # --- the rest of a connection's transport

    def loseConnection(self) -> None:
        if self._unsaid:
            self._write_response()  # without a request: the goodbye matters more than the order of requests and responses
        self._transport.loseConnection()

    def abortConnection(self) -> None:
        self._over = True
        if self._refused:
            self._transport.loseConnection()  # the client is to read why
        else:
            self._transport.abortConnection()

    def pauseProducing(self) -> None:
        self._pause_wanted = True
        self._apply_pause()

    def resumeProducing(self) -> None:
        self._pause_wanted = False
        self._apply_pause()

    def _apply_pause(self) -> None:
        """Pause reading if wanted, but not while output waits for a request, which can only come by reading."""
        wanted = self._pause_wanted and not self._held
        if wanted != self._paused:
            self._paused = wanted
            if wanted:
                self._transport.pauseProducing()
            else:
                self._transport.resumeProducing()
