"""Whether a producer's messages come one by one or many in one chunk, the same happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.routing.remote import LoadBalancing, RemoteBinding
from mqclient.errors import MalformedPacketError
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import (
    KEY_CID,
    KEY_DUPLICATE_ID,
    KEY_ROUTING_TYPE,
    KEY_SCHEDULED_DELIVERY,
    CoreMessage,
    body_end,
    decode_message,
    encode_message,
    scan_headers,
)
from mqclient.wire.properties import BYTE, LONG, STRING, TypedValue
from tests.support.broker import PERMISSIONS, Session, World

CHANNEL = 10

kinds = st.sampled_from(
    (
        "plain",
        "plain",
        "plain",
        "text",
        "user",
        "duplicate",
        "scheduled",
        "unknown",
        "topic",
        "full",
        "ack",
        "cut",
        "forbidden",
        "remote",
        "turns",
    )
)
TABLES: dict[str, dict[str, TypedValue]] = {
    "nothing": {},
    "own": {"colour": (STRING, "red"), "number": (LONG, 7)},
    "routing type": {KEY_ROUTING_TYPE: (BYTE, 1)},
    "client": {KEY_CID: (STRING, "5e860d7f"), KEY_ROUTING_TYPE: (BYTE, 1)},
    "more": {KEY_CID: (STRING, "5e860d7f"), KEY_ROUTING_TYPE: (BYTE, 1), "colour": (STRING, "red"), "number": (LONG, 7)},
    "before": {"number": (LONG, 7), KEY_ROUTING_TYPE: (BYTE, 1), "colour": (STRING, "red")},
}
messages = st.tuples(kinds, st.booleans(), st.booleans(), st.integers(0, 300), st.integers(-1, 11))


def properties(kind: str) -> dict[str, TypedValue]:
    found: dict[str, TypedValue] = {KEY_CID: (STRING, "5e860d7f"), KEY_ROUTING_TYPE: (BYTE, 0 if kind == "topic" else 1)}
    if kind == "text":
        return {"colour": (STRING, "_AMQ_ROUTING_TYPE"), **found, "number": (LONG, 7)}
    if kind == "duplicate":
        found[KEY_DUPLICATE_ID] = (STRING, "once")
    if kind == "scheduled":
        found[KEY_SCHEDULED_DELIVERY] = (LONG, 1_700_000_005_000)
    return found


def send_frame(number: int, kind: str, durable: bool, reply: bool, size: int, priority: int) -> bytes:
    if kind == "ack":
        return frame(wire.FlowToken.TYPE, CHANNEL, wire.encode_packet(wire.FlowToken(99, 1), 136))
    address = {"unknown": "not.there", "topic": "t", "full": "small", "forbidden": "secret", "remote": "far", "turns": "both"}.get(
        kind, "q"
    )
    message = CoreMessage(
        address=address,
        durable=durable,
        priority=priority,
        timestamp=number,
        user_id=bytes(16) if kind == "user" else None,
        properties=properties(kind),
        body=bytes(size),
    )
    buffer = encode_message(message)
    if kind == "cut":
        return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer[:-3], reply, number, 1), 136))
    return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer, reply, number, 1), 136))


def make(window: int, transacted: bool, held: bool) -> tuple[World, Session]:
    everybody = {permission: frozenset({"all"}) for permission in PERMISSIONS}
    configuration = Configuration(security_settings={"#": everybody, "secret": {}})
    configuration.address_settings["small"] = {"max_size_bytes": 2000, "address_full_policy": "FAIL"}
    world = World(configuration)
    admin = world.peer().session(username="admin", password="secret")
    for name in ("q", "small"):
        admin.create_queue(name)
    admin.ok(wire.CreateAddress("t", (0,), True, False))
    for name in ("t1", "t2"):
        admin.create_queue(name, "t", routing_type=0, durable=name == "t1")
    admin.create_queue("far")
    core = world.server.messaging.core
    waiting = world.server.messaging.administration.create_store_and_forward("$.artemis.internal.sf.c.node")
    admin.create_queue("both")
    for name, balancing in (("far", LoadBalancing.ON_DEMAND), ("both", LoadBalancing.STRICT)):
        binding = RemoteBinding(name, name, name + 36 * "n", 7, 8, 1, balancing, waiting, core.routing)
        core.routing.bind_remote(binding)
        binding.consumer_added(None)
    session = world.peer().session(
        channel=CHANNEL,
        name="producer",
        username="admin",
        password="secret",
        window_size=window,
        auto_commit_sends=not transacted,
    )
    session.peer.transport.written.clear()
    world.store.held = held
    return world, session


def outcome(world: World, session: Session) -> dict[str, Any]:
    queues = world.messaging.core.queues
    addresses = world.messaging.core.addresses
    connection = session.peer.connection
    window = None if connection.closed else session.server_session.window
    return {
        "written": bytes(session.peer.transport.written),
        "closed": session.peer.transport.closed,
        "stored": [entry for batch in world.store.log for entry in batch],
        "waiting": {
            name: [(each.message.buffer, each.priority, each.order) for each in queue.references] for name, queue in queues.items()
        },
        "figures": {
            name: (
                queue.messages_added,
                queue.arriving,
                queue.delivering,
                queue.scheduled.count,
                queue.message_count,
                queue.persistent_size,
            )
            for name, queue in queues.items()
        },
        "memory": {
            name: (each.memory.size, each.memory.messages, each.routed_messages, each.unrouted_messages) for name, each in addresses.items()
        },
        "global": (world.messaging.core.global_memory.size, world.messaging.core.global_memory.messages),
        "window": None
        if window is None
        else (window.last_confirmed_command_id, window._received_bytes, window.cached, window.cached_bytes),
        "sent": None if connection.closed else session.server_session.sends.messages_sent,
    }


class SendRunTests(SynchronousTestCase):
    @settings(max_examples=150, deadline=None)
    @given(st.lists(messages, min_size=1, max_size=12), st.sampled_from((-1, 0, 700, 1 << 20)), st.booleans(), st.booleans())
    def test_one_chunk_is_as_good_as_many(
        self, content: list[tuple[str, bool, bool, int, int]], window: int, transacted: bool, held: bool
    ) -> None:
        frames = [send_frame(number, *each) for number, each in enumerate(content)]
        found = []
        for chunks in (frames, [b"".join(frames)]):
            world, session = make(window, transacted, held)
            for chunk in chunks:
                session.peer.feed(chunk)
            if transacted and not session.peer.connection.closed:
                session.send(wire.Commit())
            before = outcome(world, session)
            world.store.sync()
            world.clock.advance(0)
            found.append((before, outcome(world, session)))
        self.assertEqual(found[0], found[1])

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(sorted(TABLES)), st.integers(0, 120), st.integers(0, 6), st.binary(max_size=6)), max_size=6))
    def test_what_is_stored_can_be_decoded(self, damages: list[tuple[str, int, int, bytes]]) -> None:
        """Messages of which some have damaged properties, some with the very bytes of the one before at their beginning."""
        world, session = make(-1, False, False)
        chunk, decodable = b"", True
        for kind, at, cut, junk in damages:
            whole = encode_message(CoreMessage(address="q", properties=TABLES[kind], body=b"body"))
            at += scan_headers(whole, body_end(whole)).properties
            for buffer in (whole, whole, whole, whole[:at] + junk + whole[at + cut :]):
                chunk += frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer, True, 1, 1), 136))
                try:
                    decode_message(buffer)
                except MalformedPacketError:
                    decodable = False
        session.peer.feed(chunk)
        world.clock.advance(0)
        self.assertEqual(session.peer.transport.aborted, not decodable)
        for queue in world.messaging.core.queues.values():
            for reference in queue.references:
                decode_message(reference.message.buffer)

    def test_an_entry_too_many_behind_known_bytes(self) -> None:
        """The first bytes are those of a good message before; what they announce does not follow."""
        world, session = make(-1, False, False)
        good, bad = (
            encode_message(CoreMessage(address="q", properties={KEY_ROUTING_TYPE: (BYTE, 1), **more}))
            for more in ({"a": (LONG, 1)}, {"b": (LONG, 1)})
        )
        for buffer in (good, good, bad[:-13]):
            data = frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer, False, 1, 1), 136))
            session.peer.feed(data * 2)
        self.assertTrue(session.peer.transport.aborted)
        self.assertEqual(world.queue("q").message_count, 4)

    def test_what_changes_between_two_chunks_counts(self) -> None:
        """A queue that comes, and a permission that goes, between messages to an address that was plain."""
        world, session = make(-1, False, False)
        plain = b"".join(send_frame(number, "plain", True, True, 10, 4) for number in range(3))
        session.peer.feed(plain)
        world.session(username="admin", password="secret").create_queue("second", "q", routing_type=1)
        session.peer.feed(plain)
        self.assertEqual([world.queue(name).message_count for name in ("q", "second")], [5, 1])
        session.take()
        world.security.repository.set("q", {})
        session.peer.feed(plain)
        self.assertEqual([type(packet) for packet in session.take()], [wire.ExceptionResponse] * 3)

    def test_runs_are_stored_as_one(self) -> None:
        world, session = make(-1, False, False)
        chunk = b"".join(send_frame(number, "plain", True, True, 10, 4) for number in range(5))
        session.peer.feed(chunk)
        before = len(world.store.log)
        session.peer.feed(chunk)
        self.assertEqual(len(world.store.log) - before, 1)


class AcknowledgementRunTests(SynchronousTestCase):
    """The same for acknowledgements; each example settles what was delivered in some order, with and without answers."""

    acknowledgements = st.tuples(st.integers(0, 11), st.booleans(), st.sampled_from((0, 0, 0, 1, 5)))

    def prepared(self, window: int, transacted: bool) -> tuple[World, Session, list[int]]:
        world, producer = make(-1, False, False)
        session = world.peer().session(
            channel=CHANNEL, name="consumer", username="admin", password="secret", window_size=window, auto_commit_acks=not transacted
        )
        for number in range(12):
            kind = "topic" if number % 4 == 3 else "plain"
            producer.peer.feed(send_frame(number, kind, number % 3 > 0, False, 10, 4))
        session.consume("q", 0)
        session.consume("t1", 1)
        world.store.held = True
        ids = [
            entry.message.message_id for each in (0, 1) for entry in session.server_session.consumers.by_id[each].unacknowledged.values()
        ]
        return world, session, ids

    @settings(max_examples=100, deadline=None)
    @given(st.lists(acknowledgements, min_size=1, max_size=12), st.sampled_from((-1, 0, 70, 1 << 20)), st.booleans())
    def test_one_chunk_is_as_good_as_many(self, content: list[tuple[int, bool, int]], window: int, transacted: bool) -> None:
        found = []
        for together in (False, True):
            world, session, ids = self.prepared(window, transacted)
            frames = [
                frame(wire.Acknowledge.TYPE, CHANNEL, wire.encode_packet(wire.Acknowledge(consumer, ids[place], answer), 136))
                for place, answer, consumer in content
            ]
            for chunk in [b"".join(frames)] if together else frames:
                session.peer.feed(chunk)
            if transacted:
                session.send(wire.Commit())
            consumers = session.server_session.consumers.by_id.values()
            figures = [(each.messages_acknowledged, each.bytes_in_transit, list(each.unacknowledged)) for each in consumers]
            before = outcome(world, session)
            world.store.sync()
            world.clock.advance(0)
            found.append((figures, before, outcome(world, session)))
        self.assertEqual(found[0], found[1])
