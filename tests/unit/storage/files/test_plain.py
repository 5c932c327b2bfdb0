"""A start reads plain messages in a way of its own: it must find what the ordinary replay finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import Message
from mqbroker.storage.files.plain import PlainMessages, place_of
from mqclient.storageformat.frames import (
    HEADER_SIZE,
    KIND_BINDINGS,
    KIND_MESSAGES,
    SegmentHeader,
    encode_frame,
)
from mqclient.storageformat.images import Images, LogImage, LogSegment
from mqclient.storageformat.records import (
    ACKNOWLEDGE,
    ACKNOWLEDGED,
    QUEUE_BINDING,
    encode_binding,
    encode_branch_ends,
    encode_delivery_count,
    encode_message_head,
    encode_schedule,
)
from mqclient.storageformat.replay import References, State, replay
from mqclient.storageformat.replay_plain import replay_plain
from mqclient.wire.message import CoreMessage, encode_message

QUEUES = (1, 2, 300)
GONE_QUEUE = 9
IDS = st.integers(1000, 1006)
BRANCH_IDS = (1005, 1006)
"""Messages of the branch: no id is used twice."""


def buffer_of(message_id: int, address: str | None, user_id: bytes | None, durable: bool, priority: int) -> tuple[bytes, int]:
    core = CoreMessage(message_id, address, user_id, 4, durable, 77, 88, priority, body=b"b" * (message_id % 7))
    return encode_message(core), 4 + len(core.body)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    queue_id = draw(st.sampled_from((*QUEUES, GONE_QUEUE)))
    message_id = draw(IDS)
    kind = draw(st.sampled_from(("message", "message", "message", "acknowledge", "acknowledge", "count", "schedule", "ends")))
    if kind == "acknowledge":
        return ACKNOWLEDGED.pack(ACKNOWLEDGE, queue_id, message_id)
    if kind == "count":
        return encode_delivery_count(queue_id, message_id, 3)
    if kind == "schedule":
        return encode_schedule(queue_id, message_id, 12345)
    if kind == "ends":
        return encode_branch_ends(500, draw(st.booleans()))
    address = draw(st.sampled_from(("a", "a", "longer.address", "ä€\U0001f600", "", None)))
    user_id = draw(st.sampled_from((None, bytes(16), bytes(range(16)))))
    buffer, headers = buffer_of(message_id, address, user_id, draw(st.booleans()), draw(st.integers(0, 9)))
    queue_ids = draw(st.sampled_from(([queue_id], [queue_id], [queue_id], list(QUEUES))))
    other = draw(st.sampled_from((None, None, None, "elsewhere")))
    branch_id = 500 if message_id in BRANCH_IDS else 0
    moved = draw(st.booleans())
    return encode_message_head(headers, len(buffer), queue_ids, other, None, moved, branch_id) + buffer


class Files:
    """Segments in memory; only what a replay reads."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def list(self, directory: str) -> list[str]:
        return []

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        data = self.files[path][offset:]
        return data if size < 0 else data[:size]


def images_of(frames: list[list[list[bytes]]]) -> Images:
    """Segments of frames of records, with bindings of all queues but the one that is gone."""
    files = Files()
    messages = LogImage(files, "journal", KIND_MESSAGES)  # type: ignore[arg-type]
    bindings = LogImage(files, "bindings", KIND_BINDINGS)  # type: ignore[arg-type]
    bound = [encode_binding(QUEUE_BINDING, {"id": queue_id}) for queue_id in QUEUES]
    for image, segments in ((bindings, [[bound]]), (messages, frames)):
        for sequence, contents in enumerate(segments, 1):
            header = SegmentHeader(KIND_MESSAGES, sequence, bytes(16), 5, 1, HEADER_SIZE, 0)
            data = bytearray(HEADER_SIZE)
            for content in contents:
                data += encode_frame(content, header.seed, len(data), 0)
            path = f"{id(image)}-{sequence}"
            files.files[path] = bytes(data)
            image.segments.append(LogSegment(header, path, len(data)))
    return Images(messages, bindings, 0)


Found = dict[int, tuple[int, int, bytes, References, int, str | None]]


def found_in(state: State) -> Found:
    found: Found = {}
    for number, stored in state.messages.items():
        record = stored.record
        table = dict(stored.reference_table())
        found[number] = (stored.sequence, record.headers, record.buffer, table, record.branch_id, record.address)
    return found


class PlainReplayTest(SynchronousTestCase):
    @given(st.lists(st.lists(st.lists(records(), max_size=8), min_size=1, max_size=3), max_size=3))
    def test_same_as_the_ordinary_replay(self, frames: list[list[list[bytes]]]) -> None:
        expected = replay(images_of(frames))
        plain = PlainMessages()
        state = replay_plain(images_of(frames), plain)
        found = found_in(state)
        self.assertFalse(found.keys() & plain.messages.keys())
        for number, message in plain.messages.items():
            self.assertEqual(message.message_id, number)
            sequence, queue_id = place_of(message)
            found[number] = (sequence, message.headers, message.buffer, {queue_id: (0, 0)}, 0, None)
            # All that was read in the short way is what the long one reads.
            again = Message.read(message.buffer, message.headers)
            names = ("address", "durable", "expiration", "timestamp", "priority", "properties_offset", "memory", "message_id")
            for name in names:
                self.assertEqual(getattr(message, name), getattr(again, name), name)
        self.assertEqual(found, found_in(expected))
        self.assertEqual(state.id_limit, expected.id_limit)
        self.assertEqual(state.branches, expected.branches)
