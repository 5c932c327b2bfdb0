"""The client's link through HTTP: what is written below it, and what comes out of it."""

from __future__ import annotations

from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.configuration import configuration_from_url
from mqclient.core.connection.http_link import HttpLink, link_handler
from mqclient.core.runtime import Runtime
from mqclient.wire.primitives import TransportConfiguration
from tests.support.clock import ClientClock

OK = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
HEAD = b" http://h:1/messaging/ActiveMQServlet HTTP/1.1\r\nhost: h:1\r\n"
ASK = b"POST" + HEAD + b"content-length: 0\r\n\r\n"


class Below:
    """The link below, and the handler above."""

    peer = "h:1"

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.received = b""
        self.ends: list[str] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True

    def data_received(self, data: bytes) -> None:
        self.received += data

    def link_lost(self, reason: str) -> None:
        self.ends.append(reason)

    def link_paused(self) -> None: ...

    def link_resumed(self) -> None: ...

    def taken(self) -> list[bytes]:
        found, self.written = self.written, []
        return found


class HttpLinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = ClientClock()
        self.below = Below()

    def link(self, **parameters: str) -> HttpLink:
        runtime: Any = self.clock
        link = HttpLink(cast(Runtime, runtime), {"host": "h", "port": "1", **parameters}, self.below)
        link.over(self.below)
        return link

    def test_what_is_written_is_the_body_of_a_request(self) -> None:
        self.link().write(b"frames")
        self.assertEqual(self.below.taken(), [b"POST" + HEAD + b"content-length: 6\r\n\r\nframes"])

    def test_bodies_of_responses_come_in_together(self) -> None:
        link = self.link()
        stream = OK % 3 + b"abc" + OK % 0 + OK % 2 + b"de"
        for at in range(0, len(stream), 5):
            link.data_received(stream[at : at + 5])
        self.assertEqual(self.below.received, b"abcde")

    def test_a_silent_client_asks_once_until_it_is_answered(self) -> None:
        link = self.link(httpClientIdleTime="1000", httpClientIdleScanPeriod="100")
        self.clock.advance(0.95)
        link.write(b"x")
        self.below.taken()
        self.clock.advance(0.9)
        self.assertEqual(self.below.taken(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.below.taken(), [ASK])
        self.clock.advance(10)
        self.assertEqual(self.below.taken(), [])
        link.data_received(OK % 0)
        self.clock.advance(0.1)
        self.assertEqual(self.below.taken(), [ASK])

    def test_it_never_asks_with_a_period_of_zero(self) -> None:
        self.link(httpClientIdleScanPeriod="0")
        self.clock.advance(100)
        self.assertEqual(self.below.taken(), [])

    def test_a_session_id_is_waited_for_and_sent_from_then_on(self) -> None:
        link = self.link(httpRequiresSessionId="true")
        link.write(b"AR")
        link.write(b"TEMIS")
        self.assertEqual(self.below.taken(), [ASK])
        link.data_received(b"HTTP/1.1 200 OK\r\nset-cookie: JSESSIONID=7; Path=/\r\ncontent-length: 0\r\n\r\n")
        link.write(b"more")
        expected = [
            b"POST" + HEAD + b"cookie: JSESSIONID=7\r\ncontent-length: %d\r\n\r\n" % len(body) + body for body in (b"ARTEMIS", b"more")
        ]
        self.assertEqual(self.below.taken(), expected)

    def test_an_answer_that_is_no_success_ends_the_link_and_says_why(self) -> None:
        for answer in (b"HTTP/1.1 404 Not Found\r\ncontent-length: 3\r\n\r\nabc", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nbad\r\n\r\n"):
            self.below = Below()
            link = self.link()
            link.data_received(answer)
            self.assertTrue(self.below.aborted)
            link.link_lost("closed")
            self.assertNotEqual(self.below.ends, ["closed"])
            self.assertEqual((len(self.below.ends), self.below.received), (1, b""))

    def test_nothing_is_asked_after_the_end(self) -> None:
        link = self.link()
        link.link_lost("reset")
        self.clock.advance(10)
        self.assertEqual((self.below.taken(), self.below.ends), ([], ["reset"]))


class ConnectorTests(SynchronousTestCase):
    def test_a_url_leads_through_http(self) -> None:
        configuration = configuration_from_url("tcp://[::1]:1?httpEnabled=true;httpClientIdleTime=50")
        (connector,) = configuration.connectors
        self.assertEqual(configuration.warnings, [])
        link = link_handler(cast(Runtime, ClientClock()), connector, below := Below())
        assert isinstance(link, HttpLink)
        link.over(below).write(b"")
        self.assertTrue(below.written[0].startswith(b"POST http://[::1]:1/messaging/"))

    def test_without_it_nothing_is_between(self) -> None:
        below = Below()
        for parameters in ((), (("httpEnabled", "false"),)):
            connector = TransportConfiguration("c", "", (("host", "h"), ("port", "1"), *parameters))
            self.assertIs(link_handler(cast(Runtime, ClientClock()), connector, below), below)

    def test_a_bad_number_is_told(self) -> None:
        connector = TransportConfiguration("c", "", (("host", "h"), ("port", "1"), ("httpEnabled", "true"), ("httpClientIdleTime", "soon")))
        self.assertRaisesRegex(ValueError, "httpClientIdleTime='soon'", link_handler, cast(Runtime, ClientClock()), connector, Below())
