"""Does a web server answer?  Real sockets on loopback."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from mqbroker.process.web_answers import web_answer

REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


class _Server(Protocol):
    def __init__(self, answer: bytes, log: list[bytes], ended: Deferred[None]) -> None:
        self._answer = answer
        self._log = log
        self._ended = ended

    def dataReceived(self, data: bytes) -> None:
        self._log.append(data)
        transport: Any = self.transport
        transport.write(self._answer)
        if not self._answer:
            transport.loseConnection()

    def connectionLost(self, reason: object = None) -> None:
        if not self._ended.called:
            self._ended.callback(None)


class WebAnswerTests(TestCase):
    def serve(self, answer: bytes) -> int:
        self.log: list[bytes] = []
        self.ended: Deferred[None] = Deferred()

        class Making(Factory):
            noisy = False

            def buildProtocol(inner, address: object) -> Protocol:  # noqa: N805
                return _Server(answer, self.log, self.ended)

        network: Any = reactor
        port = network.listenTCP(0, Making(), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        return int(port.getHost().port)

    def ask(self, port: int) -> Deferred[None]:
        return web_answer(reactor, "127.0.0.1", port, REQUEST, secure=False)

    async def test_any_answer_of_http_will_do_and_no_more_is_read(self) -> None:
        for answer in (b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 No\r\n\r\n" + b"x" * 10_000_000):
            port = self.serve(answer)
            self.assertIsNone(await self.ask(port))
            await self.ended
            self.assertEqual(self.log, [REQUEST])

    async def test_other_protocols_and_silence_are_none(self) -> None:
        for answer in (b"SSH-2.0-x\r\n", b"", b"HTTQ/"):
            with self.assertRaises(Exception):  # noqa: B017 - any failure is no answer
                await self.ask(self.serve(answer))
            await self.ended

    async def test_nobody_listens(self) -> None:
        network: Any = reactor
        port = network.listenTCP(0, Factory(), interface="127.0.0.1")
        number = port.getHost().port
        await port.stopListening()
        with self.assertRaises(ConnectError):
            await self.ask(number)

    async def test_cancelling_ends_the_connection(self) -> None:
        port = self.serve(b"HT")
        asked = self.ask(port)
        network: Any = reactor
        while not self.log:
            turn: Deferred[None] = Deferred()
            network.callLater(0, turn.callback, None)
            await turn
        asked.cancel()
        with self.assertRaises(CancelledError):
            await asked
        await self.ended

    async def test_cancelling_while_it_connects(self) -> None:
        port = self.serve(b"HTTP/")
        asked = self.ask(port)
        asked.cancel()
        with self.assertRaises(Exception):  # noqa: B017 - any failure is no answer
            await asked
        await self.ask(port)
        self.assertEqual(self.log, [REQUEST])
