"""Large messages both ways: chunks, streams, compression, what a failure does."""

from __future__ import annotations

import io
import zlib
from collections.abc import AsyncIterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import IllegalStateError, LargeMessageBodyError, LargeMessageInterruptedError, UnblockedError
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, CoreMessage, decode_headers, decode_message, encode_headers
from mqclient.wire.packets import (
    FlowToken,
    ProducerRequestCredits,
    SessionReceiveContinuation,
    SessionReceiveLarge,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
)
from mqclient.wire.properties import BOOLEAN, LONG
from tests.unit.mqclient.core_support import ScriptedBroker, World, message, pending

CHANNEL = 10
CHUNK = 1000
NOISE = bytes((number * number * 31 + number // 7) % 251 for number in range(5000))


class LargeTestCase(SynchronousTestCase):
    def start(self, **settings: Any) -> None:
        self.broker = ScriptedBroker()
        self.world = World(self.broker, **{"min_large_message_size": CHUNK, "reconnect_attempts": -1, "retry_interval": 50, **settings})
        self.session = self.world.session()


class SendTests(LargeTestCase):
    def message(self, body: bytes = b"", source: Any = None) -> ClientMessage:
        message = self.session.create_message(4)
        message.body = body
        message.body_source = source
        return message

    def send(self, message: ClientMessage) -> Any:
        self.producer = self.world.finish(self.session.create_producer("a"))
        return self.producer.send(message)

    def chunks(self) -> list[tuple[int, bool]]:
        return [(len(packet.chunk), packet.continues) for packet in self.broker.got(SessionSendContinuation)]

    def test_threshold_counts_the_leading_length(self) -> None:
        self.start()
        self.world.finish(self.send(self.message(bytes(CHUNK - 4))))
        self.assertEqual((len(self.broker.got(SessionSend)), self.chunks()), (1, []))
        self.world.finish(self.send(self.message(bytes(CHUNK - 3))))
        self.assertEqual(self.chunks(), [(CHUNK - 3, False)])

    def test_exact_multiple_ends_with_an_empty_chunk(self) -> None:
        self.start()
        self.world.finish(self.send(self.message(bytes(2 * CHUNK))))
        self.assertEqual(self.chunks(), [(CHUNK, True), (CHUNK, True), (0, False)])
        last = self.broker.got(SessionSendContinuation)[-1]
        self.assertEqual((last.message_body_size, last.requires_response), (2 * CHUNK, True))
        self.assertEqual([packet.requires_response for packet in self.broker.got(SessionSendContinuation)], [False, False, True])

    def test_sources(self) -> None:
        async def stream() -> AsyncIterator[bytes]:
            for start in range(0, len(NOISE), 333):
                yield NOISE[start : start + 333]

        for source in (io.BytesIO(NOISE), [NOISE[:10], b"", NOISE[10:]], stream()):
            self.start()
            self.world.finish(self.send(self.message(source=source)))
            packets = self.broker.got(SessionSendContinuation)
            self.assertEqual(b"".join(packet.chunk for packet in packets), NOISE)
            self.assertEqual({len(packet.chunk) for packet in packets[:-1]}, {CHUNK})

    def test_empty_source_is_large_all_the_same(self) -> None:
        self.start()
        self.world.finish(self.send(self.message(source=io.BytesIO())))
        self.assertEqual(self.chunks(), [(0, False)])

    def test_window_has_every_chunk_answered(self) -> None:
        self.start(confirmation_window_size=100_000)
        self.world.finish(self.send(self.message(NOISE)))
        self.assertTrue(all(packet.requires_response for packet in self.broker.got(SessionSendContinuation)))

    def test_compressed_and_still_large(self) -> None:
        self.start(compress_large_message=True)
        original = self.message(NOISE)
        self.world.finish(self.send(original))
        headers = decode_headers(self.broker.got(SessionSendLarge)[0].headers)
        self.assertIs(headers.get(KEY_LARGE_COMPRESSED), True)
        packets = self.broker.got(SessionSendContinuation)
        self.assertEqual(zlib.decompress(b"".join(packet.chunk for packet in packets)), NOISE)
        self.assertEqual(packets[-1].message_body_size, len(NOISE))
        self.assertEqual((original.body, original.properties), (NOISE, {}))

    def test_compressed_until_it_is_small(self) -> None:
        self.start(compress_large_message=True)
        self.world.finish(self.send(self.message(bytes(50_000))))
        [packet] = self.broker.got(SessionSend)
        sent = decode_message(packet.message)
        self.assertEqual((sent.get(KEY_LARGE_COMPRESSED), sent.get(KEY_LARGE_SIZE)), (True, 50_000))
        self.assertEqual(zlib.decompress(sent.body), bytes(50_000))

    def test_too_many_headers(self) -> None:
        self.start()
        large = self.message(NOISE)
        large.put("long", "x" * CHUNK)
        error = self.assertRaises(IllegalStateError, self.world.finish, self.send(large))
        self.assertIn("minLargeMessageSize", str(error))

    def test_one_at_a_time(self) -> None:
        self.start(producer_window_size=1000)
        producer = self.world.finish(self.session.create_producer("a"))
        self.broker.credits = False
        sends = [producer.send(self.message(NOISE)), producer.send(self.message(NOISE))]
        self.world.network.stir()
        self.assertEqual(len(self.broker.got(SessionSendLarge)), 1)
        self.broker.credits = True
        while any(pending(send) for send in sends):
            asked = self.broker.got(ProducerRequestCredits)[-1]
            for answer in self.broker._answers(asked):
                self.broker.deliver(CHANNEL, answer)
        self.assertEqual([name for name in self.broker.names(CHANNEL) if name == "SESS_SEND_LARGE"], ["SESS_SEND_LARGE"] * 2)

    def test_failure_in_the_middle(self) -> None:
        for source, survives in ((None, True), (io.BytesIO(NOISE), False)):
            self.start(producer_window_size=1000)
            producer = self.world.finish(self.session.create_producer("a"))
            self.broker.credits = False
            send = producer.send(self.message(NOISE if survives else b"", source))
            self.world.network.stir()
            self.broker.credits = True
            self.world.network.link.cut()
            if survives:
                self.world.finish(send)
                self.assertEqual(b"".join(packet.chunk for packet in self.broker.got(SessionSendContinuation)), NOISE)
            else:
                self.assertRaises(LargeMessageInterruptedError, self.world.finish, send)

    def test_failure_before_the_last_answer(self) -> None:
        self.start()
        self.broker.silent.add(SessionSendContinuation)
        send = self.send(self.message(NOISE))
        self.world.network.stir()
        self.world.network.link.cut()
        self.assertRaises(UnblockedError, self.world.finish, send)


class ReceiveTests(LargeTestCase):
    def start(self, **settings: Any) -> None:
        super().start(**{"consumer_window_size": 3000, **settings})
        self.consumer = self.world.finish(self.session.create_consumer("q"))
        self.world.finish(self.session.start())

    def deliver(self, number: int, stored: bytes, upto: int | None = None, plain_size: int | None = None) -> None:
        properties: dict[str, Any] = {}
        if plain_size is not None:
            properties = {KEY_LARGE_COMPRESSED: (BOOLEAN, True), KEY_LARGE_SIZE: (LONG, plain_size)}
        headers = encode_headers(CoreMessage(number, "q", type=4, properties=properties))
        self.broker.deliver(CHANNEL, SessionReceiveLarge(0, 1, len(stored), headers))
        parts = [stored[start : start + CHUNK] for start in range(0, len(stored), CHUNK)] or [b""]
        for index, part in enumerate(parts[:upto]):
            self.broker.deliver(CHANNEL, SessionReceiveContinuation(part, index < len(parts) - 1, 0))

    def receive(self) -> Any:
        return self.world.finish(self.consumer.receive(0))

    def granted(self) -> int:
        return sum(packet.credits for packet in self.broker.got(FlowToken)[1:])

    def test_reading(self) -> None:
        self.start()
        self.deliver(1, NOISE)
        received = self.receive()
        self.assertEqual(received.large.size, len(NOISE))
        self.assertEqual(self.world.finish(received.large.read()), NOISE)
        self.assertRaises(LargeMessageBodyError, self.world.finish, received.large.read())
        self.assertRaises(LargeMessageBodyError, received.plain_body)

    def test_reading_waits_for_chunks(self) -> None:
        self.start()
        self.deliver(1, NOISE, upto=2)
        reading = self.receive().large.read()
        self.world.network.stir()
        self.assertTrue(pending(reading))
        for start in (2000, 3000, 4000):
            self.broker.deliver(CHANNEL, SessionReceiveContinuation(NOISE[start : start + CHUNK], start < 4000, 0))
        self.assertEqual(self.world.finish(reading), NOISE)

    def test_saving_and_iterating(self) -> None:
        self.start()
        target = io.BytesIO()
        self.deliver(1, NOISE)
        self.world.finish(self.receive().large.save_to(target))
        self.assertEqual(target.getvalue(), NOISE)
        self.deliver(2, NOISE)
        body = self.receive().large

        async def collect() -> list[bytes]:
            return [chunk async for chunk in body]

        self.assertEqual(
            self.world.finish(self.world.runtime.spawn(collect())), [NOISE[start : start + CHUNK] for start in range(0, 5000, CHUNK)]
        )

    def test_empty_body(self) -> None:
        self.start()
        self.deliver(1, b"")
        self.assertEqual(self.world.finish(self.receive().large.read()), b"")

    def test_compressed(self) -> None:
        self.start()
        self.deliver(1, zlib.compress(NOISE, 0), plain_size=len(NOISE))
        received = self.receive()
        self.assertEqual((received.large.size, self.world.finish(received.large.read())), (len(NOISE), NOISE))
        self.deliver(2, NOISE, plain_size=10)
        self.assertRaises(LargeMessageBodyError, self.world.finish, self.receive().large.read())

    def test_compressed_regular(self) -> None:
        self.start()
        properties = {KEY_LARGE_COMPRESSED: (BOOLEAN, True)}
        self.broker.deliver(CHANNEL, message(1, body=zlib.compress(NOISE), properties=properties))
        self.assertEqual(self.receive().plain_body(), NOISE)
        self.broker.deliver(CHANNEL, message(2, body=b"no zlib", properties=properties))
        self.assertRaises(LargeMessageBodyError, self.receive().plain_body)

    def test_chunks_are_paid_for_when_they_are_taken(self) -> None:
        self.start()
        self.deliver(1, NOISE, upto=3)
        received = self.receive()
        self.assertEqual(self.granted(), 0)
        received.large.read()
        self.world.network.stir()
        self.assertGreaterEqual(self.granted(), 1500)

    def test_unread_body_is_given_up_for_the_next_message(self) -> None:
        self.start()
        self.deliver(1, NOISE, upto=3)
        first = self.receive()
        waiting = self.consumer.receive(1000)
        self.broker.deliver(CHANNEL, SessionReceiveContinuation(NOISE[3000:4000], True, 0))
        self.broker.deliver(CHANNEL, SessionReceiveContinuation(NOISE[4000:], False, 0))
        self.broker.deliver(CHANNEL, message(2))
        self.assertEqual(self.world.finish(waiting).message_id, 2)
        self.assertRaises(LargeMessageBodyError, self.world.finish, first.large.read())
        self.assertGreaterEqual(self.granted(), 5000 - 1500)

    def test_unread_body_does_not_hold_up_the_next_message(self) -> None:
        self.start()
        self.deliver(1, NOISE, upto=3)
        self.receive()
        self.consumer.receive()
        self.world.network.stir()
        spent = 3 * (CHUNK + 13 + 4 + 1 + 8) + 100
        self.assertGreater(3000 - spent + self.granted(), 0, "the broker waits for credits, the client for a message")

    def test_a_body_that_is_left_half_read_does_not_hold_up_the_next_message(self) -> None:
        class FullDisk(io.BytesIO):
            def write(self, data: Any) -> int:
                raise OSError("no space left")

        async def leave(body: Any) -> None:
            async for _ in body:
                break

        async def save(body: Any) -> None:
            await body.save_to(FullDisk())

        async def cancel(body: Any) -> None:
            reading = body.read()
            reading.addErrback(lambda failure: failure.trap(CancelledError))
            reading.cancel()

        for give_up in (leave, save, cancel):
            self.start()
            self.deliver(1, NOISE, upto=3)
            body = self.receive().large
            giving_up = Deferred.fromCoroutine(give_up(body))
            giving_up.addErrback(lambda failure: failure.trap(OSError))
            self.world.network.stir()
            self.consumer.receive()
            self.world.network.stir()
            spent = 3 * (CHUNK + 13 + 4 + 1 + 8) + 100
            self.assertGreater(3000 - spent + self.granted(), 0, f"after {give_up.__name__} the broker waits for credits")
            self.assertRaises(LargeMessageBodyError, self.world.finish, body.read())

    def test_interrupted_bodies(self) -> None:
        for interrupt in ("close", "rollback", "failure"):
            self.start()
            self.deliver(1, NOISE, upto=2)
            reading = self.receive().large.read()
            self.world.network.stir()
            if interrupt == "close":
                self.world.finish(self.consumer.close())
            elif interrupt == "rollback":
                self.world.finish(self.session.rollback())
            else:
                self.world.network.link.cut()
            self.assertRaises(LargeMessageInterruptedError, self.world.finish, reading)
