"""A link through HTTP (``httpEnabled=true``): output goes into the bodies of POST requests, and input comes from the bodies of responses.

Source: the Artemis manual, "Configuring Netty HTTP"; ``protocol-spec/``, chapter "Transport".
"""

from __future__ import annotations

from mqclient.core.runtime import Link, LinkHandler, Runtime, Timer
from mqclient.errors import ProtocolError
from mqclient.protocol.http import Head, HttpSplitter
from mqclient.wire.primitives import TransportConfiguration

PATH = "/messaging/ActiveMQServlet"
IDLE_MS = 500
"""Silence after which the broker is asked for output, and the period of that check, unless the URL has other values."""


def link_handler(runtime: Runtime, connector: TransportConfiguration, handler: LinkHandler) -> LinkHandler:
    """``handler``, or an :class:`HttpLink` before it where the connector says so.  Raises ValueError for a bad parameter."""
    parameters = {name: str(value) for name, value in connector.parameters}
    return HttpLink(runtime, parameters, handler) if parameters.get("httpEnabled", "").lower() == "true" else handler


class HttpLink:
    """Both halves of the link.  It handles the events of the link below, which is set by :meth:`over`.

    ``parameters`` are the connector's: ``host``, ``port``, ``httpClientIdleTime`` and ``httpClientIdleScanPeriod`` (ms; with 0 or less the
    broker is never asked), and ``httpRequiresSessionId`` (wait for a first response, and send its cookie ``JSESSIONID`` from then on).
    """

    def __init__(self, runtime: Runtime, parameters: dict[str, str], handler: LinkHandler) -> None:
        self._runtime = runtime
        self._handler = handler
        self._splitter = HttpSplitter()
        host = parameters.get("host", "localhost")
        place = f"{f'[{host}]' if ':' in host else host}:{parameters.get('port', 61616)}"
        self._head = f"POST http://{place}{PATH} HTTP/1.1\r\nhost: {place}\r\n"
        self._idle_seconds = _number(parameters, "httpClientIdleTime") / 1000
        self._scan_seconds = _number(parameters, "httpClientIdleScanPeriod") / 1000
        self._cookie = ""
        self._unsent: list[bytes] | None = [] if parameters.get("httpRequiresSessionId", "").lower() == "true" else None
        """Data that waits for the first response, which brings the session id; None when no data has to wait any more."""
        self._link: Link | None = None
        self._timer: Timer | None = None
        self._asked = False
        self._last_sent = 0.0
        self._reason: str | None = None

    def over(self, link: Link) -> Link:
        """The link below is there."""
        self._link = link
        self._last_sent = self._runtime.now()
        if self._unsent is not None:
            self._ask()
        if self._scan_seconds > 0:
            self._timer = self._runtime.call_later(self._scan_seconds, self._scan)
        return self

    # --- the sending half

    @property
    def peer(self) -> str:
        return "" if self._link is None else self._link.peer

    def write(self, data: bytes) -> None:
        if self._unsent is not None:
            self._unsent.append(data)
        else:
            self._post(data)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    def abort(self) -> None:
        if self._link is not None:
            self._link.abort()

    def _post(self, data: bytes) -> None:
        if self._link is not None:
            self._link.write(b"".join((f"{self._head}{self._cookie}content-length: {len(data)}\r\n\r\n".encode(), data)))
            self._last_sent = self._runtime.now()

    def _ask(self) -> None:
        """Give the broker a request to answer.  Java sends a GET, upon which Artemis 2.44 closes the connection."""
        self._asked = True
        self._post(b"")

    def _scan(self) -> None:
        self._timer = self._runtime.call_later(self._scan_seconds, self._scan)
        if not self._asked and self._runtime.now() >= self._last_sent + self._idle_seconds:
            self._ask()

    # --- the receiving half

    def data_received(self, data: bytes) -> None:
        try:
            for found in self._splitter.feed(data):
                if self._reason is not None:
                    return
                if isinstance(found, bytes):
                    self._handler.data_received(found)
                elif isinstance(found, Head):
                    self._begin(found)
        except ProtocolError as error:
            self._give_up(str(error))

    def _begin(self, head: Head) -> None:
        self._asked = False
        version, _, status = head.first_line.partition(" ")
        if not version.startswith("HTTP/1.") or not status.startswith("200"):
            self._give_up(f"the answer of the other side is {head.first_line[:100]!r}, expected HTTP/1.1 200")
        elif self._unsent is not None:
            cookie = head.headers.get("set-cookie", "").partition(";")[0]
            self._cookie = f"cookie: {cookie}\r\n" if cookie.startswith("JSESSIONID=") else ""
            unsent, self._unsent = self._unsent, None
            if unsent:
                self.write(b"".join(unsent))

    def _give_up(self, reason: str) -> None:
        self._reason = reason
        self.abort()

    def link_lost(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._handler.link_lost(self._reason or reason)

    def link_paused(self) -> None:
        self._handler.link_paused()

    def link_resumed(self) -> None:
        self._handler.link_resumed()


def _number(parameters: dict[str, str], name: str) -> int:
    text = parameters.get(name, str(IDLE_MS))
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r}: expected a whole number of ms") from None
