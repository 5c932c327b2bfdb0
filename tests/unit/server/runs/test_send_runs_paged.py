"""Messages for an address that pages: whether they come one by one or many in one chunk, the same happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.frames import frame
from mqclient.wire.message import (
    KEY_CID,
    KEY_DUPLICATE_ID,
    KEY_ROUTING_TYPE,
    KEY_SCHEDULED_DELIVERY,
    CoreMessage,
    encode_message,
)
from mqclient.wire.properties import BYTE, LONG, STRING, TypedValue
from tests.support.broker import PERMISSIONS, Session, World
from tests.unit.messaging.paging_support import unread
from tests.unit.storage.support import Rig

CHANNEL = 10
LIMITED = {"page_limit_messages": 5, "page_full_policy": "FAIL"}

KINDS = ("plain", "plain", "plain", "topic", "topic", "turns", "duplicate", "scheduled", "elsewhere")
messages = st.tuples(st.sampled_from(KINDS), st.booleans(), st.booleans())


def send_frame(number: int, kind: str, durable: bool, reply: bool) -> bytes:
    properties: dict[str, TypedValue] = {KEY_CID: (STRING, "5e860d7f"), KEY_ROUTING_TYPE: (BYTE, 0 if kind == "topic" else 1)}
    if kind == "duplicate":
        properties[KEY_DUPLICATE_ID] = (STRING, f"id{number % 4}")
    if kind == "scheduled":
        properties[KEY_SCHEDULED_DELIVERY] = (LONG, 1 << 45)
    address = {"elsewhere": "memory", "topic": "t", "turns": "both"}.get(kind, "q")
    message = CoreMessage(address=address, durable=durable, timestamp=number, properties=properties, body=b"%04d" % number)
    packet = wire.SessionSend(encode_message(message), reply, number, 1)
    return frame(wire.SessionSend.TYPE, CHANNEL, wire.encode_packet(packet, 136))


class Broker:
    """A server over a store on a simulated disk."""

    def __init__(self, limits: dict[str, Any], transacted: bool) -> None:
        self.rig = Rig(journal_file_size=65536)
        self.limits = limits
        self.world: World
        self.start()
        admin = self.world.session(username="admin", password="secret")
        self.answered(admin, wire.CreateAddress("t", (0,), True, False))
        for name, address, durable in (("q", "q", True), ("memory", "memory", True), ("both", "both", True), ("second", "both", False)):
            self.answered(admin, wire.CreateQueueV2(address, name, durable=durable, routing_type=1))
        for name, durable in (("t1", True), ("t2", False)):
            self.answered(admin, wire.CreateQueueV2("t", name, durable=durable, routing_type=0))
        self.session: Session = self.world.peer().session(
            channel=CHANNEL, name="producer", username="admin", password="secret", auto_commit_sends=not transacted
        )
        self.session.peer.transport.written.clear()

    def start(self) -> None:
        everybody = {permission: frozenset({"all"}) for permission in PERMISSIONS}
        configuration = Configuration(security_settings={"#": everybody})
        configuration.address_settings["#"] = {"max_size_bytes": 0, "page_size_bytes": 4096, **self.limits}
        configuration.address_settings["memory"] = {"max_size_bytes": -1}
        recovered = self.rig.start()
        self.world = World(configuration, store=self.rig.store, clock=self.rig.clock, recovered=recovered)

    def answered(self, session: Session, request: wire.Packet) -> None:
        session.send(request)
        self.settle()

    def settle(self) -> None:
        self.world.messaging.core.turn.end()
        self.rig.settle()

    def figures(self) -> dict[str, Any]:
        core = self.world.messaging.core
        return {
            "queues": {
                name: (queue.paged, queue.arriving, queue.messages_added, queue.message_count, queue.references.count)
                for name, queue in core.queues.items()
            },
            "addresses": {name: (each.memory.size, each.memory.messages, each.routed_messages) for name, each in core.addresses.items()},
            "global": (core.global_memory.size, core.global_memory.messages),
            "backlog": self.rig.store.pager.backlog if self.rig.store.pager else None,
        }

    def contents(self) -> dict[str, list[bytes]]:
        """What the queues would give, without what is scheduled."""
        found = {}
        for name, queue in self.world.messaging.core.queues.items():
            waiting = [reference.message for reference in queue.references]
            found[name] = [message.decoded().body for message in (*waiting, *unread(queue))]
        return found


class PagedRunTests(SynchronousTestCase):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(messages, min_size=1, max_size=12), st.booleans(), st.booleans())
    def test_one_chunk_is_as_good_as_many(self, content: list[tuple[str, bool, bool]], transacted: bool, limited: bool) -> None:
        frames = [send_frame(number, *each) for number, each in enumerate(content)]
        found = []
        for chunks in (frames, [b"".join(frames)]):
            broker = Broker(LIMITED if limited else {}, transacted)
            for chunk in chunks:
                broker.session.peer.feed(chunk)
            if transacted and not broker.session.peer.connection.closed:
                broker.session.send(wire.Commit())
            broker.settle()
            written = bytes(broker.session.peer.transport.written)
            before = broker.figures(), broker.contents()
            broker.rig.disk.crash()
            broker.start()
            broker.settle()
            found.append((written, before, broker.figures()["queues"], broker.contents()))
        self.assertEqual(found[0], found[1])

    def test_a_run_is_stored_as_one_and_answered_when_it_is_on_the_disk(self) -> None:
        for kind, queues in (("plain", ("q",)), ("topic", ("t1", "t2"))):
            broker = Broker({}, False)
            chunk = b"".join(send_frame(number, kind, True, True) for number in range(8))
            broker.session.peer.feed(chunk)
            broker.settle()
            broker.session.peer.transport.written.clear()
            ticket = broker.rig.store.last
            broker.session.peer.feed(chunk)
            self.assertEqual(broker.rig.store.last - ticket, 1)
            self.assertEqual(bytes(broker.session.peer.transport.written), b"")
            broker.settle()
            self.assertNotEqual(bytes(broker.session.peer.transport.written), b"")
            for queue in queues:
                self.assertEqual(broker.figures()["queues"][queue][:2], (16, 0))
            self.assertEqual(broker.figures()["global"], (0, 0))
