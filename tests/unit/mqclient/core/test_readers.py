"""Named readers: blocks of messages, the calls of a session, and a range that is read while the next block is on its way."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.readers import KIND_LARGE, KIND_MESSAGE, MESSAGE_SIZE_MIN, MessageBlock
from mqclient.errors import IllegalStateError, MalformedPacketError, MQError, UnblockedError
from mqclient.protocol.connection import ROOM_MIN, CoreConnection, FrameReceived
from mqclient.wire.frames import FRAME_SIZE_MAX, frame
from mqclient.wire.packets import (
    READERS_ADDRESS,
    BindingQuery,
    BindingQueryResponseV5,
    CreateSessionResponse,
    ExceptionResponse,
    IdCacheQuery,
    IdCacheState,
    NullResponse,
    Packet,
    ReaderBody,
    ReaderBodyChunk,
    ReaderMessages,
    ReaderOpen,
    ReaderRange,
    ReaderRead,
    ReaderRemove,
    ReaderReserve,
    ReaderSettle,
    ReaderState,
    SessionReceiveContinuation,
    encode_packet,
)
from tests.support.network import ScriptedBroker, World, pending

Item = tuple[int, int, int, bytes]
ITEMS = st.lists(
    st.tuples(
        st.integers(1, 2**63 - 1),
        st.integers(1, 2**31 - 1),
        st.sampled_from((KIND_MESSAGE, KIND_LARGE)),
        st.binary(min_size=8, max_size=40),
    ),
    max_size=8,
)


def payload(items: list[Item]) -> bytes:
    """(id, delivery count, kind, message) of each, as they travel."""
    return b"".join(
        (
            *(struct.pack(">q", item[0]) for item in items),
            *(struct.pack(">i", item[1]) for item in items),
            *(struct.pack(">i", len(item[3])) for item in items),
            *(struct.pack(">b", item[2]) for item in items),
            *(item[3] for item in items),
        )
    )


def packet_of(*numbers: int, end: bool = False) -> ReaderMessages:
    items = [(number, 1, KIND_MESSAGE, b"message %03d" % number) for number in numbers]
    return ReaderMessages(numbers[-1] if numbers else 0, end, False, len(items), payload(items))


def ids(block: MessageBlock) -> list[int]:
    return list(struct.unpack(f">{block.count}q", block.ids))


class BlockTests(SynchronousTestCase):
    @given(ITEMS, st.booleans(), st.booleans())
    def test_arrays_and_messages(self, items: list[Item], end: bool, lost: bool) -> None:
        block = MessageBlock(ReaderMessages(7, end, lost, len(items), payload(items)))
        self.assertEqual((block.position, block.end, block.lost, block.count), (7, end, lost, len(items)))
        count = len(items)
        at = 0
        for index, item in enumerate(items):
            size = struct.unpack(f">{count}i", block.sizes)[index]
            found = (
                ids(block)[index],
                struct.unpack(f">{count}i", block.delivery_counts)[index],
                block.kinds[index],
                bytes(block.messages[at : at + size]),
            )
            self.assertEqual(found, item)
            at += size
        self.assertEqual(at, len(block.messages))

    @given(ITEMS, st.integers(-5, 20), st.integers(0, 200), st.binary(max_size=6), st.integers(0, 6))
    def test_damage_is_refused_or_fits(self, items: list[Item], count: int, at: int, junk: bytes, cut: int) -> None:
        data = payload(items)
        data = data[:at] + junk + data[at + cut :]
        try:
            block = MessageBlock(ReaderMessages(7, False, False, count, data))
        except MalformedPacketError as error:
            self.assertIn("READER_MESSAGES.", str(error))
            return
        sizes = struct.unpack(f">{block.count}i", block.sizes)
        self.assertEqual(sum(sizes), len(block.messages))
        self.assertTrue(all(size >= MESSAGE_SIZE_MIN for size in sizes))
        self.assertTrue(all(kind in (KIND_MESSAGE, KIND_LARGE) for kind in block.kinds))

    def test_the_error_names_the_field(self) -> None:
        good: Item = (1, 1, 0, b"12345678")
        for field, count, data in (
            ("count", -1, b""),
            ("count", 1, b"\0" * 16),
            ("messages", 0, b"surplus"),
            ("sizes", 1, payload([good])[:-1]),
            ("sizes", 1, payload([good]) + b"x"),
            ("sizes", 1, payload([(1, 1, 0, b"1234567")])),
            ("sizes", 2, payload([good, good])[:24] + struct.pack(">ii", -8, 24) + payload([good, good])[32:]),
            ("kinds", 1, payload([(1, 1, 2, b"12345678")])),
        ):
            with self.assertRaises(MalformedPacketError) as caught:
                MessageBlock(ReaderMessages(7, False, False, count, data))
            self.assertIn(f"READER_MESSAGES.{field}", str(caught.exception))


class ReaderBroker(ScriptedBroker):
    """Has messages 1 to 6 in a queue, two of which come in a block."""

    known = True

    def handle(self, link: Any, channel: int, packet: Packet) -> None:
        answer: Packet | None = None
        if isinstance(packet, ReaderOpen):
            answer = ReaderState("node", 3, 0, 0, 6, 6, "address")
        elif isinstance(packet, ReaderReserve):
            answer = ReaderRange(packet.after, 6, 6 - packet.after, 100, 1, (3, 6))
        elif isinstance(packet, ReaderRead):
            numbers = range(packet.after + 1, min(packet.after + 2, packet.until) + 1)
            answer = packet_of(*numbers, end=numbers[-1] == packet.until)
        elif isinstance(packet, ReaderBody):
            answer = ReaderBodyChunk(b"0123456789"[packet.offset : packet.offset + packet.size])
        elif isinstance(packet, IdCacheQuery):
            answer = IdCacheState(2000, True)
        elif isinstance(packet, (ReaderSettle, ReaderRemove)):
            answer = NullResponse()
        elif isinstance(packet, BindingQuery):
            answer = BindingQueryResponseV5(self.known and packet.address == READERS_ADDRESS, ())
        if answer is not None and type(packet) not in self.silent and type(packet) not in self.answers:
            self.send(link, channel, answer)
        else:
            super().handle(link, channel, packet)


class SessionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ReaderBroker()
        self.world = World(self.broker, reconnect_attempts=3, retry_interval=10)
        self.session = self.world.session()

    def finish(self, awaitable: Any) -> Any:
        return self.world.finish(awaitable)

    def test_calls(self) -> None:
        readers = self.session.readers
        self.assertTrue(self.finish(readers.supported()))
        self.assertEqual(self.finish(readers.open("q", "r")).epoch, 3)
        self.assertEqual(self.finish(readers.reserve("q", "r", 3, 2, max_messages=10, parts=2)).ends, (3, 6))
        self.assertEqual(self.finish(readers.survey("q", 4)).messages, 2)
        self.assertEqual(ids(self.finish(readers.read("q", 1, 6))), [2, 3])
        self.assertEqual(self.finish(readers.body("q", 1, 4, 3)), b"456")
        self.assertIsNone(self.finish(readers.settle("q", "r", 3, 6)))
        self.assertIsNone(self.finish(readers.remove("q", "r")))
        self.assertEqual(self.finish(readers.id_cache("a")).size, 2000)
        self.assertEqual(
            self.broker.got(ReaderOpen, ReaderReserve, ReaderSettle, ReaderRemove, IdCacheQuery),
            [
                ReaderOpen("q", "r", -1),
                ReaderReserve("q", "r", 3, 2, -1, 10, -1, 2),
                ReaderReserve("q", None, 0, 4, -1, -1, -1, 1),
                ReaderSettle("q", "r", 3, 6),
                ReaderRemove("q", "r"),
                IdCacheQuery("a"),
            ],
        )

    def test_a_broker_without_readers_is_recognised(self) -> None:
        self.broker.known = False
        self.assertFalse(self.finish(self.session.readers.supported()))

    def test_the_answer_says_why_not(self) -> None:
        self.broker.answers[ReaderReserve] = lambda packet: ExceptionResponse(IllegalStateError.code, "epoch 3, yours is 2")
        with self.assertRaises(IllegalStateError) as caught:
            self.finish(self.session.readers.reserve("q", "r", 2, 0))
        self.assertIn("yours is 2", str(caught.exception))

    def test_the_next_block_is_asked_for_before_one_is_handed_over(self) -> None:
        blocks = self.session.readers.blocks("q", 0, 5)
        first = self.finish(self.session.runtime.spawn(blocks.next()))
        self.assertEqual(ids(first), [1, 2])
        self.world.network.stir()
        self.assertEqual([packet.after for packet in self.broker.got(ReaderRead)], [0, 2])
        rest = [self.finish(self.session.runtime.spawn(blocks.next())) for _ in range(3)]
        self.assertEqual([None if block is None else ids(block) for block in rest], [[3, 4], [5], None])
        self.assertEqual([packet.after for packet in self.broker.got(ReaderRead)], [0, 2, 4])

    def test_iteration(self) -> None:
        async def read() -> list[list[int]]:
            return [ids(block) async for block in self.session.readers.blocks("q", 1, 6, max_bytes=100, filter_string="a = 1")]

        self.assertEqual(self.finish(self.session.runtime.spawn(read())), [[2, 3], [4, 5], [6]])
        self.assertEqual(self.broker.got(ReaderRead)[0], ReaderRead("q", 1, 6, 100, "a = 1"))

    def test_a_block_that_was_lost_with_its_connection_is_asked_for_again(self) -> None:
        blocks = self.session.readers.blocks("q", 0, 6)
        self.broker.silent.add(ReaderRead)
        waiting = self.session.runtime.spawn(blocks.next())
        self.world.network.stir()
        self.assertTrue(pending(waiting))
        self.broker.silent.clear()
        self.world.network.link.cut()
        self.world.advance(1)
        self.assertEqual(ids(self.finish(waiting)), [1, 2])

    def test_a_block_that_nobody_waits_for_may_be_lost(self) -> None:
        blocks = self.session.readers.blocks("q", 0, 6)
        self.finish(self.session.runtime.spawn(blocks.next()))
        self.broker.silent.add(ReaderRead)
        self.assertEqual(ids(self.finish(self.session.runtime.spawn(blocks.next()))), [3, 4])
        self.world.network.brokers.clear()
        self.world.network.link.cut()
        self.world.advance(1)
        self.assertRaises(MQError, self.finish, self.session.runtime.spawn(blocks.next()))

    def test_a_block_that_is_lost_each_time_ends_the_reading(self) -> None:
        self.broker.silent.add(ReaderRead)
        reading = self.session.runtime.spawn(self.session.readers.blocks("q", 0, 6).next())
        for _ in range(3):
            self.world.network.stir()
            self.world.network.link.cut()
            self.world.advance(1)
            self.assertTrue(pending(reading))
        self.world.network.link.cut()
        self.world.advance(1)
        self.assertRaises(UnblockedError, self.finish, reading)

    def test_a_malformed_block_is_an_error_of_its_reader_alone(self) -> None:
        self.broker.answers[ReaderRead] = lambda packet: ReaderMessages(1, True, False, 3, b"short")
        self.assertRaises(MalformedPacketError, self.finish, self.session.readers.read("q", 0, 6))
        self.assertTrue(self.finish(self.session.readers.supported()))


class RoomTests(SynchronousTestCase):
    """Large frames are read to where they stay, whatever pieces they come in."""

    def connection(self) -> CoreConnection:
        connection = CoreConnection(-1, -1)
        answer = CreateSessionResponse(136)
        connection.receive_data(frame(answer.TYPE, 1, encode_packet(answer, 136)), 0)
        return connection

    @given(
        st.lists(st.integers(0, 3 * ROOM_MIN), max_size=4),
        st.lists(st.integers(3000, 2 * ROOM_MIN), min_size=1, max_size=6),
        st.integers(0, 9),
    )
    def test_frames_are_the_same(self, sizes: list[int], reads: list[int], seed: int) -> None:
        random = Random(seed)
        frames = []
        for size in sizes:
            kind = random.choice((ReaderMessages.TYPE, ReaderBodyChunk.TYPE, SessionReceiveContinuation.TYPE))
            frames.append(frame(kind, 10, random.randbytes(size)))
        stream = memoryview(b"".join(frames))
        connection = self.connection()
        found: list[bytes] = []
        used = 0
        while stream:
            room = connection.room() if random.random() < 0.8 else None
            piece = stream[: reads[used % len(reads)]]
            used += 1
            if room is None:
                events = connection.receive_data(bytes(piece), 0)
            else:
                piece = piece[: len(room)]
                room[: len(piece)] = piece
                events = connection.room_filled(len(piece), 0)
            stream = stream[len(piece) :]
            for event in events:
                assert isinstance(event, FrameReceived)
                found.append(bytes(event.frame))
                self.assertTrue(isinstance(event.frame, bytes) or event.packet_type != SessionReceiveContinuation.TYPE)
        self.assertEqual(found, frames)

    def test_room_only_for_what_is_large_and_handed_on_as_a_view(self) -> None:
        for kind, size, offered in (
            (ReaderMessages.TYPE, 2 * ROOM_MIN, True),
            (ReaderMessages.TYPE, ROOM_MIN // 2, False),
            (SessionReceiveContinuation.TYPE, 2 * ROOM_MIN, False),
        ):
            for come in (5, 12, 14):
                connection = self.connection()
                self.assertIsNone(connection.room())
                connection.receive_data(frame(kind, 10, bytes(size))[:come], 0)
                room = connection.room()
                self.assertEqual(room is not None, offered and come > 12, (kind, size, come))
                if room is not None:
                    self.assertEqual(len(room), 13 + size - come)

    def test_a_frame_beyond_the_limit_gets_no_room(self) -> None:
        connection = self.connection()
        events = connection.receive_data(struct.pack(">ibq", FRAME_SIZE_MAX, ReaderMessages.TYPE, 10) + b"x", 0)
        self.assertEqual([type(event).__name__ for event in events], ["ConnectionBroken"])
        self.assertIsNone(connection.room())
