"""Messages with duplicate ids: whether they go one by one or in runs, the same happens, and nothing twice."""

from __future__ import annotations

import struct
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import MQError
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import KEY_CID, KEY_DUPLICATE_ID, KEY_ROUTING_TYPE, KEY_SCHEDULED_DELIVERY, CoreMessage, encode_message
from mqclient.wire.properties import BYTE, BYTES, INT, LONG, STRING, TypedValue
from tests.support.broker import Session, World
from tests.unit.server.runs import test_send_runs_arrivals
from tests.unit.server.runs.test_send_runs_arrivals import CHANNEL, outcome

TYPE = (KEY_ROUTING_TYPE, (BYTE, 1))
INNER = struct.pack(">i", 24) + KEY_DUPLICATE_ID.encode("utf-16-le") + b"\x0a\0\0\0\x02x\0"
"""A duplicate id as it stands in a table, for a value."""

kinds = st.sampled_from(
    (
        *("behind", "behind", "behind", "bytes", "last", "before", "untyped", "none", "none", "long", "longer", "empty", "odd", "cut"),
        *("number", "twice", "in a value", "in a text", "scheduled", "with CID", "both", "small"),
        *("batch a", "batch a", "batch b"),
    )
)
sends = st.tuples(kinds, st.integers(0, 12), st.booleans(), st.booleans(), st.integers(1, 4))
"""Some messages with ascending ids."""


def table(kind: str, number: int) -> list[tuple[str, TypedValue]]:
    own: tuple[str, TypedValue] = (KEY_DUPLICATE_ID, (STRING, f"id/{number}"))
    other: tuple[str, TypedValue] = ("colour", (STRING, "red"))
    found: dict[str, list[tuple[str, TypedValue]]] = {
        "bytes": [TYPE, (KEY_DUPLICATE_ID, (BYTES, b"%03d" % number)), other],
        "last": [TYPE, other, own],
        "before": [own, TYPE, other],
        "untyped": [own, other],
        "none": [TYPE, other],
        "long": [TYPE, (KEY_DUPLICATE_ID, (STRING, f"{number:064}"))],
        "longer": [TYPE, (KEY_DUPLICATE_ID, (STRING, f"{number:065}"))],
        "empty": [TYPE, (KEY_DUPLICATE_ID, (STRING, ""))],
        "number": [TYPE, (KEY_DUPLICATE_ID, (INT, number))],
        "in a value": [TYPE, ("raw", (BYTES, INNER)), other],
        "in a text": [TYPE, own, ("text", (STRING, "an _AMQ_ text"))],
        "scheduled": [TYPE, own, (KEY_SCHEDULED_DELIVERY, (LONG, 1_700_000_005_000))],
        "batch a": [TYPE, (KEY_DUPLICATE_ID, (STRING, f"batch!a!{number}")), other],
        "batch b": [TYPE, (KEY_DUPLICATE_ID, (STRING, f"batch!b!{number}")), other],
        "with CID": [(KEY_CID, (STRING, "5e860d7f")), TYPE, own],
    }
    return found.get(kind, [TYPE, own, other])


def send_frame(number: int, kind: str, ident: int, durable: bool, reply: bool) -> bytes:
    message = CoreMessage(
        address={"both": "q", "small": "small"}.get(kind, "one"), durable=durable, timestamp=number, body=bytes(number % 7)
    )
    message.properties.update(table(kind, ident))
    buffer = encode_message(message)
    if kind == "twice":
        at = buffer.index(struct.pack(">Bi", 1, 3))
        buffer = buffer[:at] + struct.pack(">Bi", 1, 4) + buffer[at + 5 :] + INNER
    if kind == "odd":
        at = buffer.index(KEY_DUPLICATE_ID.encode("utf-16-le")) + 25
        size: int = struct.unpack_from(">i", buffer, at)[0]
        buffer = buffer[:at] + struct.pack(">i", size + 1) + buffer[at + 4 : at + 4 + size] + b"\0" + buffer[at + 4 + size :]
    if kind == "cut":
        buffer = buffer[:-3]
    return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer, reply, number, 1), 136))


def make(size: int, window: int = -1, transacted: bool = False) -> tuple[World, Session]:
    world, session = test_send_runs_arrivals.make(size, window, transacted)
    world.session(username="admin", password="secret").create_queue("one")
    return world, session


def seen(world: World, session: Session) -> dict[str, Any]:
    found = outcome(world, session)
    known = world.messaging.core.known_duplicate_ids("one")
    found["known in one"] = None if known is None else list(known.ids())
    found["duplicates"] = sorted(entry[:2] for entry in found["duplicates"])
    return found


class DuplicateRunTests(SynchronousTestCase):
    @settings(max_examples=120, deadline=None)
    @given(st.lists(sends, min_size=1, max_size=8), st.sampled_from((-1, 700)), st.integers(3, 9), st.booleans(), st.booleans())
    def test_runs_are_as_good_as_one_by_one(
        self, content: list[tuple[str, int, bool, bool, int]], window: int, size: int, transacted: bool, held: bool
    ) -> None:
        found = []
        for together in (False, True):
            world, session = make(size, window, transacted)
            frames = [
                send_frame(number, kind, ident + number, durable, reply)
                for kind, ident, durable, reply, count in content
                for number in range(count)
            ]
            if not together:
                session.server_session.sends.runs._enabled = False  # each message goes its own way then
            session.peer.feed(send_frame(0, "none", 0, True, True))
            world.store.held = held
            for chunk in [b"".join(frames)] if together else frames:
                session.peer.feed(chunk)
            if transacted and not session.peer.connection.closed:
                session.send(wire.Commit())
            before = seen(world, session)
            world.store.sync()
            world.clock.advance(0)
            found.append((before, seen(world, session)))
        self.assertEqual(found[0], found[1])

    def test_a_run_is_one_batch(self) -> None:
        world, session = make(100)
        session.peer.feed(send_frame(0, "behind", 0, True, True))
        before = len(world.store.log)
        session.peer.feed(b"".join(send_frame(number, "behind", number, True, True) for number in range(1, 9)))
        (batch,) = world.store.log[before:]
        self.assertEqual([entry[0] for entry in batch], ["message"] * 8 + ["duplicate"] * 8)

    def test_a_message_for_which_there_is_no_number_leaves_no_id_behind(self) -> None:
        world, session = make(100)
        session.peer.feed(send_frame(0, "behind", 0, True, True))
        session.take()
        real = world.store.next_id
        numbers = [real(), real(), real()]  # for the record of the ids and two messages
        error = MQError("no more numbers")
        with mock.patch.object(world.store, "next_id", side_effect=[*numbers, *[error] * 5]):
            session.peer.feed(b"".join(send_frame(number, "behind", number, True, True) for number in range(1, 5)))
        world.clock.advance(0)
        self.assertEqual([type(answer) for answer in session.take()], [wire.NullResponse] * 2 + [wire.ExceptionResponse] * 2)
        session.peer.feed(b"".join(send_frame(number, "behind", number, True, True) for number in range(1, 5)))
        world.clock.advance(0)
        self.assertEqual(world.queue("one").message_count, 5)

    def test_a_batch_pushes_out_ids_of_others_and_not_its_own(self) -> None:
        for together in (False, True):
            world, session = make(5)
            frames = [
                *(send_frame(number, "batch a", number, True, True) for number in range(3)),
                *(send_frame(number, "batch b", number, True, True) for number in range(7)),
            ]
            session.peer.feed(send_frame(0, "none", 0, True, True))
            session.take()
            for chunk in [b"".join(frames)] if together else frames:
                session.peer.feed(chunk)
            world.clock.advance(0)
            answers = session.take()
            refused = [answer.message for answer in answers if isinstance(answer, wire.ExceptionResponse)]
            self.assertEqual((len(answers), len(refused)), (10, 2))
            self.assertIn("AMQ229909: the address one keeps 5 duplicate ids", refused[0] or "")
            self.assertEqual(world.queue("one").message_count, 9)
            # What it had got of the batch it knows still.
            session.peer.feed(b"".join(send_frame(number, "batch b", number, True, True) for number in range(5)))
            world.clock.advance(0)
            self.assertEqual(world.queue("one").message_count, 9)

    def test_what_comes_again_is_answered_after_the_first_is_durable(self) -> None:
        world, session = make(100)
        session.peer.feed(send_frame(0, "behind", 0, True, True))
        session.take()
        world.store.held = True
        session.peer.feed(b"".join(send_frame(number, "behind", number, True, True) for number in (1, 2, 1)))
        self.assertEqual(session.take(), [])
        world.store.sync()
        world.clock.advance(0)
        self.assertEqual(len(session.take()), 3)
        self.assertEqual(world.queue("one").message_count, 3)
