"""Large messages both ways: chunks, streams, compression, what a failure does."""

from __future__ import annotations

import io
import zlib
from collections.abc import AsyncIterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.message import ClientMessage
from mqclient.errors import AddressFullError, IllegalStateError, LargeMessageInterruptedError, UnblockedError
from mqclient.wire.message import KEY_LARGE_COMPRESSED, KEY_LARGE_SIZE, decode_headers, decode_message
from mqclient.wire.packets import (
    ProducerCredits,
    ProducerFailCredits,
    ProducerRequestCredits,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
)
from mqclient.wire.properties import LONG
from tests.support.network import ScriptedBroker, World, pending

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

    def test_a_body_that_was_compressed_before_keeps_the_size_that_it_had(self) -> None:
        self.start()
        passed_on = self.message(source=[NOISE])
        passed_on.put(KEY_LARGE_COMPRESSED, True)
        passed_on.put(KEY_LARGE_SIZE, 1_000_000, LONG)
        self.world.finish(self.send(passed_on))
        headers = decode_headers(self.broker.got(SessionSendLarge)[0].headers)
        self.assertEqual(headers.get(KEY_LARGE_SIZE), 1_000_000)
        self.assertEqual(self.broker.got(SessionSendContinuation)[-1].message_body_size, -1, "as from the bridge of a broker")

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

    def test_message_that_the_broker_has_is_not_refused_for_the_credits_of_its_last_chunk(self) -> None:
        """The address is full with this very message: the sender would send it again."""
        self.start(producer_window_size=1000)

        def credits(packet: ProducerRequestCredits) -> ProducerCredits | ProducerFailCredits:
            whole = any(not chunk.continues for chunk in self.broker.got(SessionSendContinuation))
            return ProducerFailCredits(packet.credits, packet.address) if whole else ProducerCredits(packet.credits, packet.address)

        self.broker.answers[ProducerRequestCredits] = credits
        self.world.finish(self.send(self.message(NOISE[:-100])))
        self.assertRaises(AddressFullError, self.world.finish, self.producer.send(self.message(b"next")))

    def test_nor_does_the_sender_wait_for_these(self) -> None:
        self.start(producer_window_size=1000)
        producer = self.world.finish(self.session.create_producer("a"))

        def credits(packet: ProducerRequestCredits) -> ProducerCredits | None:
            whole = any(not chunk.continues for chunk in self.broker.got(SessionSendContinuation))
            return None if whole else ProducerCredits(packet.credits, packet.address)

        self.broker.answers[ProducerRequestCredits] = credits
        self.world.finish(producer.send(self.message(NOISE[:-100])))
        later = producer.send(self.message(b"later"))
        self.world.network.stir()
        self.assertEqual(self.broker.got(SessionSend), [])
        self.broker.deliver(CHANNEL, ProducerCredits(10_000, "a"))
        self.world.finish(later)
