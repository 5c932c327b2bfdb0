"""JMS consumers and large messages: what is acknowledged when, and connections that are lost in the middle of a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.threads import blockingCallFromThread, deferToThread

from mqclient.jms import ConnectionFactory, JMSException, MessageConsumer
from mqclient.wire.message import TYPE_BYTES, TYPE_TEXT, CoreMessage, encode_headers
from mqclient.wire.packets import Acknowledge, Packet, SessionReceiveContinuation, SessionReceiveLarge
from tests.integration.mqclient.test_shells import ShellTestCase
from tests.support.network import message

TEXT = b"\x01\x00\x00\x00\x04\x00h\x00i"  # a nullable string of two characters, as a text message's body has it


class LargeTests(ShellTestCase):
    async def in_thread(self, function: Callable[[MessageConsumer], Any]) -> Any:
        def work() -> Any:
            url = self.url("&reconnectAttempts=-1&retryInterval=20")
            with ConnectionFactory(url) as factory, factory.create_connection() as connection:
                return function(connection.create_session().create_consumer("q"))

        return await deferToThread(work)

    def deliver(self, *packets: Packet) -> None:
        def send() -> None:
            assert self.broker._consumer is not None
            channel = self.broker._consumer[0]
            for packet in packets:
                self.broker.send(self.broker.connections[-1]._link, channel, packet)

        blockingCallFromThread(reactor, send)  # type: ignore[no-untyped-call]

    def header(self, kind: int, size: int) -> SessionReceiveLarge:
        return SessionReceiveLarge(0, 1, size, encode_headers(CoreMessage(7, "q", type=kind)))

    def cut(self) -> None:
        blockingCallFromThread(reactor, self.broker.cut)  # type: ignore[no-untyped-call]

    def acknowledged(self, consumer: MessageConsumer) -> list[int]:
        consumer.receive(0)  # what was posted has been sent then
        return [packet.message_id for packet in self.broker.got(Acknowledge)]

    async def test_body_that_is_cut_off_is_not_acknowledged(self) -> None:
        def work(consumer: MessageConsumer) -> Any:
            self.deliver(self.header(TYPE_BYTES, 8), SessionReceiveContinuation(b"half", True, 0))
            received: Any = consumer.receive(10_000)
            before = self.broker.got(Acknowledge)
            self.cut()
            self.assertRaises(JMSException, lambda: received.data)
            return before, self.acknowledged(consumer)

        self.assertEqual(await self.in_thread(work), ([], []))

    async def test_body_that_was_read(self) -> None:
        def work(consumer: MessageConsumer) -> Any:
            self.deliver(self.header(TYPE_BYTES, 8), SessionReceiveContinuation(b"half", True, 0))
            received: Any = consumer.receive(10_000)
            self.deliver(SessionReceiveContinuation(b"more", False, 0))
            return received.data, self.acknowledged(consumer)

        self.assertEqual(await self.in_thread(work), (b"halfmore", [7]))

    async def test_body_that_nobody_wants(self) -> None:
        def work(consumer: MessageConsumer) -> Any:
            self.deliver(self.header(TYPE_BYTES, 8), SessionReceiveContinuation(b"half", True, 0))
            consumer.receive(10_000)
            consumer.close()
            return [packet.message_id for packet in self.broker.got(Acknowledge)]

        self.assertEqual(await self.in_thread(work), [7])

    async def test_receive_goes_on_with_the_redelivery(self) -> None:
        def work(consumer: MessageConsumer) -> Any:
            self.deliver(self.header(TYPE_TEXT, len(TEXT)), SessionReceiveContinuation(TEXT[:4], True, 0))

            def again() -> None:
                self.broker.cut()
                reactor.callLater(0, later)  # type: ignore[attr-defined]

            def later() -> None:
                if self.broker._consumer is None:  # the client has not made it again yet
                    reactor.callLater(0.02, later)  # type: ignore[attr-defined]
                    return
                channel = self.broker._consumer[0]
                self.broker.send(self.broker.connections[-1]._link, channel, message(8, delivery_count=2, body=b"whole"))

            reactor.callFromThread(reactor.callLater, 0.1, again)  # type: ignore[attr-defined]
            received: Any = consumer.receive(10_000)
            return received._core.message_id

        self.assertEqual(await self.in_thread(work), 8)
