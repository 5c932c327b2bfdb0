"""CORE inside HTTP, from the bytes of a socket to the sessions of the broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.transport.acceptor import Acceptor, BrokerFactory
from mqbroker.server.transport.http_tunnel import UNSAID_BYTES_MAX, WAITING_REQUESTS_MAX, looks_like_http
from mqclient.protocol.http import Head, HttpSplitter
from mqclient.urls import TransportUri
from mqclient.wire import packets as wire
from mqclient.wire.frames import PREAMBLE, FrameSplitter
from tests.support.broker import Peer, Transport, World

GET = b"GET http://h:1/messaging/ActiveMQServlet HTTP/1.1\r\nhost: h:1\r\n\r\n"


def post(data: bytes) -> bytes:
    return b"POST http://h:1/messaging/ActiveMQServlet HTTP/1.1\r\nhost: h:1\r\ncontent-length: %d\r\n\r\n" % len(data) + data


class Socket(Transport):
    """A socket's transport, as an acceptor sees it."""

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def registerProducer(self, producer: object, streaming: bool) -> None: ...

    def getPeer(self) -> Any:
        return SimpleNamespace(host="127.0.0.1", port=5000)

    def getPeerCertificate(self) -> None: ...


class HttpPeer(Peer):
    """A client that sends each piece as the body of a POST request, and reads the bodies of the responses."""

    def __init__(self, world: World, parameters: dict[str, str] | None = None, handshake: bool = True) -> None:
        self.world = world
        acceptor = Acceptor(world.server, TransportUri("tcp", "127.0.0.1", 0, parameters or {}), None, lambda path: b"")
        acceptor.secure = True  # the bytes are those below TLS, for which the transport itself writes
        self.transport = Socket()
        self.protocol = BrokerFactory(acceptor).buildProtocol(None)
        self.protocol.makeConnection(self.transport)
        self.connection = self.protocol.connection
        self.version = 136
        self.responses: list[int] = []
        """The length of each response up to now."""
        self.first_lines: set[str] = set()
        self._splitter = FrameSplitter(1 << 30)
        self._http = HttpSplitter()
        self._next_channel = 10
        self.inbox = []
        if handshake:
            self.feed(PREAMBLE)

    def raw(self, data: bytes) -> None:
        self.protocol.dataReceived(data)

    def feed(self, data: bytes) -> None:
        self.raw(post(data))

    def read(self) -> list[tuple[int, wire.Packet]]:
        written = bytes(self.transport.written)
        self.transport.written.clear()
        for found in self._http.feed(written):
            if isinstance(found, Head):
                self.first_lines.add(found.first_line)
                self.responses.append(0)
            elif isinstance(found, bytes):
                self.responses[-1] += len(found)
                self.transport.written += found
        return super().read()

    def answered(self) -> list[int]:
        """The lengths of the responses since the last call."""
        self.read()
        found, self.responses = self.responses, []
        return found


class TunnelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.peer = HttpPeer(self.world)

    def test_messages_are_sent_and_received(self) -> None:
        session = self.peer.open()
        session.create_queue("q")
        session.publish(b"one")
        session.consume()
        self.world.clock.advance(0)
        self.assertEqual(session.bodies(), [b"one"])
        self.assertEqual(self.peer.first_lines, {"HTTP/1.1 200 OK"})

    @given(st.integers(1, 40))
    @hypothesis_settings(max_examples=10)
    def test_requests_may_be_cut_anywhere(self, size: int) -> None:
        world = World()
        peer = HttpPeer(world, handshake=False)
        whole = peer.raw
        peer.raw = lambda data: [whole(data[at : at + size]) for at in range(0, len(data), size)]  # type: ignore[assignment, return-value]
        peer.feed(PREAMBLE)
        session = peer.open()
        session.create_queue("q")
        session.publish(b"one")
        self.assertEqual(world.queue("q").message_count, 1)

    def test_what_the_broker_says_answers_a_request_that_waits(self) -> None:
        session = self.peer.open()
        session.create_queue("q")
        session.consume()
        self.peer.raw(GET)
        while self.peer.answered():
            self.world.clock.advance(10)
        self.world.session().publish(b"one")
        self.world.clock.advance(0)
        self.assertEqual(self.peer.transport.written, b"", "nobody has asked")
        self.peer.raw(GET)
        self.assertEqual(session.bodies(), [b"one"])
        self.peer.raw(GET)
        self.assertEqual(self.peer.transport.written, b"", "there is nothing to say yet")
        self.world.session().publish(b"two")
        self.world.clock.advance(0)
        self.assertEqual(session.bodies(), [b"two"])

    def test_a_request_that_has_waited_long_enough_is_answered_with_nothing(self) -> None:
        peer = HttpPeer(self.world, {"httpResponseTime": "3000", "httpServerScanPeriod": "1000"})
        peer.open()
        peer.answered()
        self.world.clock.advance(0.5)
        peer.raw(GET)
        self.world.clock.advance(2.4)
        self.assertEqual(peer.answered(), [])
        self.world.clock.advance(0.2)
        self.assertEqual(peer.answered(), [0], "the request with which the session was opened")
        self.world.clock.advance(1.0)
        self.assertEqual(peer.answered(), [0])

    def test_a_client_that_waits_for_a_first_response_gets_it_at_once(self) -> None:
        for request in (GET, post(b"")):
            peer = HttpPeer(self.world, handshake=False)
            peer.raw(request)
            self.assertEqual(peer.answered(), [0])
            peer.feed(PREAMBLE)
            self.assertTrue(peer.open())

    def test_only_so_many_requests_wait(self) -> None:
        self.peer.open()
        self.peer.answered()
        for _ in range(WAITING_REQUESTS_MAX + 50):
            self.peer.raw(GET)
        self.assertGreaterEqual(len(self.peer.answered()), 50)
        self.world.clock.advance(20)
        self.assertLessEqual(len(self.peer.answered()), WAITING_REQUESTS_MAX)

    def test_too_much_that_nobody_asks_for_stops_the_delivery_until_somebody_does(self) -> None:
        session = self.peer.open()
        session.create_queue("q")
        session.consume(credits=-1)
        self.world.clock.advance(20)
        self.peer.answered()
        sender = self.world.session()
        for _ in range(10):
            sender.publish(bytes(UNSAID_BYTES_MAX // 4))
        self.world.clock.advance(0)
        self.assertFalse(self.peer.connection.writable)
        self.assertTrue(self.peer.transport.reading, "or no request would ever come")
        self.assertGreater(self.world.queue("q").references.count, 0)
        received: list[bytes] = []
        for _ in range(10):
            self.peer.raw(GET)
            self.world.clock.advance(0)
            received += session.bodies()
        self.assertEqual(len(received), 10)
        self.assertTrue(self.peer.connection.writable)

    def test_a_client_that_sends_on_without_asking_is_sent_away(self) -> None:
        self.world = World()
        self.world.server.frame_size_max = 100_000
        self.peer = HttpPeer(self.world)
        session = self.peer.open()
        session.create_queue("q")
        session.consume(credits=-1)
        self.world.clock.advance(20)
        sender = self.world.session()
        for _ in range(10):
            sender.publish(bytes(UNSAID_BYTES_MAX // 4))
        self.world.clock.advance(0)
        self.peer.raw(b"POST / HTTP/1.1\r\ncontent-length: 1000000000\r\n\r\n")
        ping = session.frame(wire.Ping(60000))
        for _ in range(UNSAID_BYTES_MAX // len(ping) + 100_000 // len(ping) + 2):
            self.peer.raw(ping)
        self.assertTrue(self.peer.transport.closed)

    def test_a_full_socket_holds_the_delivery_too(self) -> None:
        self.peer.open()
        self.peer.protocol.pauseProducing()
        self.assertFalse(self.peer.connection.writable)
        self.assertFalse(self.peer.transport.reading)
        self.peer.protocol.resumeProducing()
        self.assertTrue(self.peer.connection.writable)
        self.assertTrue(self.peer.transport.reading)

    def test_what_is_no_tunnel_is_answered_and_closed(self) -> None:
        for request, status in (
            (b"PUT / HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            (b"GET / HTTP/1.1\r\nUpgrade: activemq-remoting\r\n\r\n", "403 Forbidden"),
            (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400 Bad Request"),
        ):
            peer = HttpPeer(self.world, handshake=False)
            peer.raw(request)
            peer.raw(post(PREAMBLE))
            peer.read()
            self.assertEqual(peer.first_lines, {f"HTTP/1.1 {status}"})
            self.assertTrue(peer.transport.closed)
            self.assertFalse(peer.transport.aborted, "the answer is to arrive")

    def test_a_body_that_is_no_core_ends_the_connection(self) -> None:
        peer = HttpPeer(self.world, handshake=False)
        peer.feed(b"STOMP and so on")
        self.assertTrue(peer.transport.aborted)

    def test_requests_without_core_are_given_up_after_the_time_for_a_handshake(self) -> None:
        peer = HttpPeer(self.world, handshake=False)
        for _ in range(11):
            peer.raw(GET)
            self.world.clock.advance(1)
        self.assertTrue(peer.transport.closed)

    def test_the_goodbye_is_said_although_nobody_asks(self) -> None:
        self.peer.open()
        self.world.clock.advance(20)
        self.peer.answered()
        self.peer.connection.disconnect(wire.DisconnectV3(None, 0, None))
        self.assertEqual([type(packet) for _, packet in self.peer.read()], [wire.DisconnectV3])
        self.assertTrue(self.peer.transport.closed)

    def test_nothing_is_answered_when_the_socket_is_gone(self) -> None:
        self.peer.open()
        self.peer.raw(GET)
        self.peer.protocol.connectionLost()
        self.peer.transport.written.clear()
        self.world.clock.advance(60)
        self.assertEqual(self.peer.transport.written, b"")


class BeginningTests(SynchronousTestCase):
    def test_the_first_two_bytes_tell(self) -> None:
        self.assertEqual([looks_like_http(data) for data in (b"GE", b"POST", b"HEAD")], [True] * 3)
        self.assertEqual([looks_like_http(data) for data in (b"ARTEMIS", b"A", b"HORNETQ", b"\0", b"\0\0\0\x0c")], [False] * 5)
        self.assertEqual([looks_like_http(data) for data in (b"", b"G", b"H")], [None] * 3)

    def test_other_clients_may_send_their_first_byte_alone(self) -> None:
        peer = HttpPeer(World(), handshake=False)
        for byte in b"HORNETQ":
            peer.raw(bytes((byte,)))
        self.assertTrue(peer.transport.aborted)
        self.assertEqual(peer.transport.written, b"")
