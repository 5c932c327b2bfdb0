"""Large messages that come in: chunks, streams, compression, failures."""

from __future__ import annotations

import io
import zlib
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from mqclient.errors import LargeMessageBodyError, LargeMessageInterruptedError, LargeMessageTakenBackError
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, CoreMessage, encode_headers
from mqclient.wire.packets import (
    FlowToken,
    SessionReceiveContinuation,
    SessionReceiveLarge,
)
from mqclient.wire.properties import BOOLEAN, LONG
from tests.support.network import message, pending
from tests.unit.mqclient.core.sending.test_uploads import CHANNEL, CHUNK, NOISE, LargeTestCase


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
            error = self.assertRaises(LargeMessageInterruptedError, self.world.finish, reading)
            self.assertEqual(isinstance(error, LargeMessageTakenBackError), interrupt == "failure")
