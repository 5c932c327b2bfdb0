"""Whether what another broker of the cluster sends comes one by one or many in one chunk, the same happens, and nothing twice."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import Recovered
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import (
    KEY_ACK_ROUTE_TO,
    KEY_BRIDGE_DUPLICATE_ID,
    KEY_CID,
    KEY_DUPLICATE_ID,
    KEY_ORIGINAL_MESSAGE_ID,
    KEY_ROUTE_TO,
    KEY_ROUTING_TYPE,
    CoreMessage,
    encode_message,
)
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import BYTE, BYTES, DOUBLE, LONG, STRING, TypedValue
from tests.support.broker import PERMISSIONS, Session, World
from tests.unit.storage.support import Rig

CHANNEL = 10
CACHE = "BRIDGE.q"
NODES = (b"n" * 16, b"m" * 16)

kinds = st.sampled_from(
    (
        *("usual", "usual", "usual", "usual", "first", "between", "long", "own id", "acknowledged", "no id", "short id", "twice", "plain"),
        *("both", "topic", "gone", "untyped", "wrong type", "unknown", "small", "forbidden", "cut", "tail", "bare", "filtered"),
    )
)
arrivals = st.tuples(kinds, st.integers(0, 1), st.integers(0, 9), st.booleans(), st.booleans(), st.integers(1, 4))
"""Some messages with ascending ids."""


def table(kind: str, world: World, duplicate_id: bytes) -> list[tuple[str, TypedValue]]:
    """The properties of a message, in the order in which they stand there."""
    ids = {name: queue.queue_id for name, queue in world.messaging.core.queues.items()}
    stated = {
        "both": [ids["q2"], ids["q"]],
        "topic": [ids["t1"], ids["t2"]],
        "gone": [99999],
        "small": [ids["small"]],
        "forbidden": [ids["secret"]],
        "filtered": [ids["filtered"]],
    }.get(kind, [ids["q"]])
    route = (KEY_ROUTE_TO, (BYTES, b"".join(struct.pack(">q", number) for number in stated)))
    bridge = (KEY_BRIDGE_DUPLICATE_ID, (BYTES, duplicate_id))
    own: list[tuple[str, TypedValue]] = [
        (KEY_CID, (STRING, "5e860d7f")),
        (KEY_ROUTING_TYPE, (BYTE, {"topic": MULTICAST, "wrong type": MULTICAST}.get(kind, ANYCAST))),
        ("colour", (STRING, "_AMQ_ROUTE_TO_AMQ_BRIDGE_DUP" * (1 + (kind == "long")))),
        ("data", (BYTES, encoded_tail(bridge[1][1]))),
        ("number", (LONG, 7)),
    ]
    if kind == "untyped":
        del own[1]
    if kind == "bare":
        own.clear()
    if kind == "own id":
        own.append((KEY_DUPLICATE_ID, (STRING, "once")))
    if kind == "acknowledged":
        own.append((KEY_ACK_ROUTE_TO, (BYTES, struct.pack(">q", ids["q"]))))
    if kind == "first":
        return [bridge, route, *own]
    if kind == "between":
        return [*own[:2], route, *own[2:4], bridge, *own[4:]]
    if kind == "plain":
        return own
    if kind == "no id":
        return [*own, route]
    if kind == "twice":
        return [*own, route, bridge, (f"{KEY_ROUTE_TO}other", (DOUBLE, 0.5))]
    return [*own, route, bridge]


def encoded_tail(duplicate_id: object) -> bytes:
    """A value that looks like the end of a table."""
    assert isinstance(duplicate_id, bytes)
    key = KEY_BRIDGE_DUPLICATE_ID.encode("utf-16-le")
    return struct.pack(">i", len(key)) + key + struct.pack(">bi", BYTES, len(duplicate_id)) + duplicate_id


def send_frame(world: World, number: int, kind: str, node: int, bridge_id: int, durable: bool, reply: bool) -> bytes:
    duplicate_id = NODES[node] + struct.pack(">q", bridge_id)
    if kind == "short id":
        duplicate_id = duplicate_id[8:]
    address = {"topic": "t", "unknown": "not.there", "small": "small", "forbidden": "secret", "filtered": "f"}.get(kind, "q")
    message = CoreMessage(address=address, durable=durable, timestamp=number, body=b"%d" % number)
    message.properties.update(table(kind, world, duplicate_id))
    buffer = encode_message(message)
    if kind == "cut":
        buffer = buffer[:-3]
    if kind == "tail":
        buffer += b"xyz"
    return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer, reply, number, 1), 136))


def make(size: int, window: int = -1, transacted: bool = False, diverted: bool = False) -> tuple[World, Session]:
    everybody = {permission: frozenset({"all"}) for permission in PERMISSIONS}
    configuration = Configuration(security_settings={"#": everybody, "secret": {}})
    configuration.address_settings["#"] = {"id_cache_size": size}
    configuration.address_settings["small"] = {"max_size_bytes": 2000, "address_full_policy": "FAIL"}
    world = World(configuration)
    admin = world.peer().session(username="admin", password="secret")
    for name in ("q", "small"):
        admin.create_queue(name)
    admin.create_queue("q2", "q", durable=False)
    world.security.repository.set("secret", everybody)
    admin.create_queue("secret")
    world.security.repository.set("secret", {})
    admin.ok(wire.CreateAddress("t", (0,), True, False))
    for name in ("t1", "t2"):
        admin.create_queue(name, "t", routing_type=0, durable=name == "t1")
    admin.create_queue("filtered", "f", filter_string="a = 1")
    if diverted:
        world.messaging.diverts.deploy([DivertConfiguration("d", "q", ("t",), exclusive=True)])
    request: dict[str, Any] = {"username": "admin", "password": "secret", "window_size": window, "auto_commit_sends": not transacted}
    session = world.peer().session(channel=CHANNEL, name="link", **request)
    session.peer.transport.written.clear()
    return world, session


def seen(message: Message) -> bytes:
    """The bytes behind the id, without the id that the original of a divert's copy had."""
    data, key = message.buffer[message.headers + 8 :], KEY_ORIGINAL_MESSAGE_ID.encode("utf-16-le")
    at = data.find(key)
    return data if at < 0 else data[: at + len(key) + 1] + data[at + len(key) + 9 :]


def outcome(world: World, session: Session) -> dict[str, Any]:
    """All that is seen of it; which numbers messages and records have is not."""
    core = world.messaging.core
    names = {queue.queue_id: name for name, queue in core.queues.items()}
    entries = [entry for batch in world.store.log for entry in batch]
    caches = {name: core.known_duplicate_ids(name) for name in (CACHE, "BRIDGE.t", "BRIDGE.f", "q")}
    connection = session.peer.connection
    window = None if connection.closed else session.server_session.window
    return {
        "written": bytes(session.peer.transport.written),
        "closed": session.peer.transport.closed,
        "messages": [[names.get(each) for each in entry[2]] for entry in entries if entry[0] == "message"],
        "duplicates": [entry[1:] for entry in entries if entry[0] == "duplicate"],
        "known": {name: None if cache is None else list(cache._ids) for name, cache in caches.items()},
        "waiting": {
            name: [(each.message.body_size, each.message.timestamp, each.message.durable, seen(each.message)) for each in queue.references]
            for name, queue in core.queues.items()
        },
        "figures": {
            name: (queue.messages_added, queue.arriving, queue.message_count, queue.persistent_size) for name, queue in core.queues.items()
        },
        "memory": {
            name: (each.memory.size, each.memory.messages, each.routed_messages, each.unrouted_messages)
            for name, each in core.addresses.items()
        },
        "window": None if window is None else (window.last_confirmed_command_id, window._received_bytes, window.cached),
        "sent": None if connection.closed else session.server_session.sends.messages_sent,
    }


class ArrivalRunTests(SynchronousTestCase):
    def test_in_a_branch_of_a_session_that_commits_by_itself(self) -> None:
        """Nothing of it is there after the rollback."""
        world, _ = make(1000)
        session = world.peer().session(channel=CHANNEL, name="manager", username="admin", password="secret", xa=True)
        branch = Xid(7, b"b", b"g")
        session.call(wire.XaStart(branch))
        session.peer.feed(b"".join(send_frame(world, number, "usual", 0, number, True, False) for number in range(4)))
        for packet in (wire.XaEnd(branch), wire.XaRollback(branch)):
            self.assertEqual(session.call(packet), wire.XaResponse(False, 0))
        world.store.sync()
        world.clock.advance(0)
        self.assertEqual((world.queue("q").message_count, world.queue("q").arriving), (0, 0))

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(arrivals, min_size=1, max_size=7),
        st.sampled_from((0, 1, 3, 100)),
        st.sampled_from((-1, 700)),
        st.booleans(),
        st.sampled_from((False, False, False, True)),
        st.sampled_from((False, False, False, True)),
    )
    def test_one_chunk_is_as_good_as_many(
        self, content: list[tuple[str, int, int, bool, bool, int]], size: int, window: int, held: bool, transacted: bool, diverted: bool
    ) -> None:
        found = []
        for together in (False, True):
            world, session = make(size, window, transacted, diverted)
            frames = [
                send_frame(world, number, kind, node, bridge_id + number, durable, reply)
                for kind, node, bridge_id, durable, reply, count in content
                for number in range(count)
            ]
            session.peer.feed(send_frame(world, 0, "both", 0, 99, True, True))
            world.store.held = held
            for chunk in [b"".join(frames)] if together else frames:
                session.peer.feed(chunk)
            if transacted and not session.peer.connection.closed:
                session.send(wire.Commit())
            before = outcome(world, session)
            world.store.sync()
            world.clock.advance(0)
            found.append((before, outcome(world, session)))
        self.assertEqual(found[0], found[1])

    def test_a_run_is_one_batch_and_one_record(self) -> None:
        world, session = make(100)
        frames = [send_frame(world, number, "usual", 0, number, True, True) for number in range(9)]
        session.peer.feed(frames[0])
        before = len(world.store.log)
        session.peer.feed(b"".join(frames[1:]))
        (batch,) = world.store.log[before:]
        self.assertEqual([entry[0] for entry in batch], ["message"] * 8 + ["duplicate"] * 8)

    def test_a_message_that_comes_again_is_answered_after_the_first_is_durable(self) -> None:
        world, session = make(100)
        session.peer.feed(send_frame(world, 0, "usual", 0, 0, True, True))
        session.take()
        world.store.held = True
        chunk = b"".join(send_frame(world, number, "usual", 0, number, True, True) for number in (1, 2, 1))
        session.peer.feed(chunk)
        self.assertEqual(session.take(), [])
        world.store.sync()
        world.clock.advance(0)
        self.assertEqual(len(session.take()), 3)
        self.assertEqual(world.queue("q").message_count, 3)

    def test_what_changes_between_two_chunks_counts(self) -> None:
        """A permission that goes, and a queue."""
        world, session = make(100)
        frames = [send_frame(world, number, "usual", 0, number, True, True) for number in range(9)]
        session.peer.feed(b"".join(frames[:3]))
        everybody = {permission: frozenset({"all"}) for permission in PERMISSIONS}
        world.security.repository.set("q", {})
        session.take()
        session.peer.feed(b"".join(frames[3:6]))
        self.assertEqual([type(packet) for packet in session.take()], [wire.ExceptionResponse] * 3)
        world.security.repository.set("q", everybody)
        world.session(username="admin", password="secret").ok(wire.DeleteQueue("q"))
        session.peer.feed(b"".join(frames[6:]))
        self.assertEqual([type(packet) for packet in session.take()], [wire.NullResponse] * 3)
        self.assertEqual(world.queue("q2").message_count, 0 if "q" in world.messaging.core.queues else 3)


class PagedTests(SynchronousTestCase):
    """To addresses that page, with a journal and pages on a simulated disk."""

    def begin(self, rig: Rig, recovered: Recovered, size: int = 100, **limits: Any) -> tuple[World, Session]:
        configuration = Configuration(security_enabled=False)
        paging = {"max_size_bytes": 1500, "page_size_bytes": 2000, "address_full_policy": "PAGE", **limits}
        configuration.address_settings["#"] = {"id_cache_size": size, **paging}
        world = World(configuration, store=rig.store, clock=rig.clock, recovered=recovered)
        return world, world.peer().session(channel=CHANNEL, name="link")

    def fresh(self, size: int = 100, **limits: Any) -> tuple[Rig, World, Session]:
        rig = Rig(1, journal_file_size=1 << 16)
        world, session = self.begin(rig, rig.start(), size, **limits)
        admin = world.peer().session()
        for name, address, durable in (("q", "q", True), ("q2", "q", False), ("t1", "t", True), ("t2", "t", True)):
            admin.send(wire.CreateQueueV2(address, name, durable=durable, routing_type=int(address == "q")))
        for name in ("small", "secret", "filtered"):
            admin.send(wire.CreateQueueV2(name, name, durable=True, routing_type=1))
        rig.settle()
        session.peer.transport.written.clear()
        return rig, world, session

    def seen(self, world: World) -> dict[str, Any]:
        core = world.messaging.core
        found: dict[str, Any] = {}
        for name in ("q", "q2"):
            queue = core.queues[name]
            unread = [] if queue.pages is None else list(queue.pages.unread())
            messages = [*(each.message for each in queue.references), *unread]
            found[name] = [(each.durable, seen(each)) for each in messages]
            found[f"{name} figures"] = queue.messages_added, queue.arriving, queue.message_count, queue.paged, queue.persistent_size
        cache = core.known_duplicate_ids(CACHE)
        address = core.addresses["q"]
        paging = address.memory.paging
        found["known"] = None if cache is None else cache.ids()
        found["memory"] = address.memory.size, address.memory.messages, address.routed_messages
        found["pages"] = None if paging is None else (paging.folder.messages, sorted(paging.folder.queue_ids()))
        return found

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(("usual", "usual", "usual", "long", "no id", "short id", "both", "bare", "own id", "untyped", "gone")),
                st.integers(0, 1),
                st.integers(0, 9),
                st.booleans(),
                st.booleans(),
                st.integers(1, 6),
            ),
            min_size=2,
            max_size=7,
        ),
        st.sampled_from((0, 3, 100)),
        st.sampled_from(({}, {}, {"page_full_policy": "FAIL", "page_limit_messages": 4}, {"address_full_policy": "DROP"})),
    )
    def test_one_chunk_is_as_good_as_many(
        self, content: list[tuple[str, int, int, bool, bool, int]], size: int, limits: dict[str, Any]
    ) -> None:
        found = []
        for together in (False, True):
            rig, world, session = self.fresh(size, **limits)
            frames = [
                send_frame(world, number, kind, node, bridge_id + number, durable, reply)
                for kind, node, bridge_id, durable, reply, count in content
                for number in range(count)
            ]
            for chunk in [b"".join(frames)] if together else frames:
                session.peer.feed(chunk)
            rig.settle()
            found.append((bytes(session.peer.transport.written), self.seen(world)))
        self.assertEqual(found[0], found[1])

    def test_a_run_goes_to_the_pages_as_one_batch(self) -> None:
        rig, world, session = self.fresh()
        session.peer.feed(b"".join(arrival(world, number) for number in range(10)))
        rig.settle()
        queue = world.queue("q")
        before, paged = rig.store.ticket(), queue.paged
        self.assertTrue(paged)
        session.peer.feed(b"".join(arrival(world, number) for number in range(10, 40)))
        rig.settle()
        self.assertEqual((rig.store.ticket() - before, queue.paged - paged), (1, 30))

    def test_nothing_comes_twice_after_a_crash(self) -> None:
        for seed in range(6):
            rig, world, session = self.fresh()
            session.peer.feed(b"".join(arrival(world, number) for number in range(20)))
            rig.settle()
            answered = len(session.take())
            session.peer.feed(b"".join(arrival(world, number) for number in range(20, 40)))
            rig.clock.run_due()
            for _ in range(seed):
                rig.writer.run_one()
            world, session = self.begin(rig, rig.crash())
            session.peer.feed(b"".join(arrival(world, number) for number in range(40)))
            rig.settle()
            queue = world.queue("q")
            assert queue.pages is not None
            messages = [*(each.message for each in queue.references), *queue.pages.unread()]
            self.assertEqual((answered, [each.timestamp for each in messages]), (20, list(range(40))))


class RestartTests(SynchronousTestCase):
    """The journal on a simulated disk, and a machine that stops."""

    def begin(self, rig: Rig, recovered: Recovered, size: int) -> tuple[World, Session]:
        configuration = Configuration(security_enabled=False)
        configuration.address_settings["#"] = {"id_cache_size": size}
        world = World(configuration, store=rig.store, clock=rig.clock, recovered=recovered)
        session = world.peer().session(channel=CHANNEL, name="link")
        return world, session

    def send(self, rig: Rig, world: World, session: Session, numbers: range, settle: bool = True) -> None:
        session.peer.feed(b"".join(arrival(world, number) for number in numbers))
        if settle:
            rig.settle()

    def timestamps(self, world: World) -> list[int]:
        return [reference.message.timestamp for reference in world.queue("q").references]

    def test_nothing_comes_twice_after_a_crash(self) -> None:
        for seed in range(8):
            rig = Rig(seed, journal_file_size=1 << 16)
            world, session = self.begin(rig, rig.start(), 100)
            world.peer().session().send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
            rig.settle()
            session.take()
            self.send(rig, world, session, range(1))
            self.send(rig, world, session, range(1, 7))
            self.assertEqual(len(session.take()), 7)
            self.send(rig, world, session, range(7, 12), settle=False)
            rig.clock.run_due()
            for _ in range(seed % 4):
                rig.writer.run_one()
            world, session = self.begin(rig, rig.crash(), 100)
            self.assertEqual(self.timestamps(world)[:7], list(range(7)))
            self.send(rig, world, session, range(12))
            self.send(rig, world, session, range(12))
            self.assertEqual(sorted(self.timestamps(world)), list(range(12)))

    def test_the_size_of_the_cache_holds_across_restarts(self) -> None:
        """Runs that have gone in part come back whole, and go again with what comes next; their records go with their last id."""
        rig = Rig(1, journal_file_size=1 << 16)
        world, session = self.begin(rig, rig.start(), 5)
        world.peer().session().send(wire.CreateQueueV2("q", "q", durable=True, routing_type=1))
        rig.settle()
        self.send(rig, world, session, range(1))
        self.send(rig, world, session, range(1, 5))
        self.send(rig, world, session, range(5, 8))
        kept = list(self.cache(world)._ids)
        self.assertEqual(len(kept), 5)
        recovered = rig.crash()
        self.assertEqual([number(entry.duplicate_id) for entry in recovered.duplicate_ids], list(range(1, 8)))
        world, session = self.begin(rig, recovered, 5)
        self.send(rig, world, session, range(3, 9))
        self.assertEqual([number(each) for each in self.cache(world)._ids], list(range(4, 9)))
        self.assertEqual(self.timestamps(world), list(range(9)))
        self.send(rig, world, session, range(9, 10))
        self.assertEqual([number(entry.duplicate_id) for entry in rig.crash().duplicate_ids], list(range(5, 10)))

    def cache(self, world: World) -> Any:
        return world.messaging.core.known_duplicate_ids(CACHE)


def arrival(world: World, number: int) -> bytes:
    properties: dict[str, TypedValue] = {KEY_ROUTING_TYPE: (BYTE, ANYCAST)}
    properties[KEY_ROUTE_TO] = (BYTES, struct.pack(">q", world.queue("q").queue_id))
    properties[KEY_BRIDGE_DUPLICATE_ID] = (BYTES, NODES[0] + struct.pack(">q", number))
    buffer = encode_message(CoreMessage(address="q", durable=True, timestamp=number, properties=properties, body=b"body"))
    return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(wire.SessionSend(buffer, True, number, 1), 136))


def number(duplicate_id: bytes) -> int:
    found: int = struct.unpack(">q", duplicate_id[16:])[0]
    return found
