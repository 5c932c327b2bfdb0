"""Which messages are sent after a split, to which queues, and with which duplicate ids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.journal_folder import DataFolders
from mqbroker.cli.data.merge.comparison import compare
from mqbroker.cli.data.merge.sending import Plan, Target, id_cache_problem, make_plan, send
from mqbroker.cli.status import CommandError
from mqclient.core.message import ClientMessage
from mqclient.errors import AddressFullError
from mqclient.wire.message import KEY_DUPLICATE_ID, KEY_ORIGINAL_MESSAGE_ID, KEY_ROUTE_TO
from mqclient.wire.properties import LONG, STRING
from tests.unit.cli.data.merge.support import KEPT, Pair, add


class FakeSession:
    """A session, its producer and its runner in one; ``room`` is how many messages it takes."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.sent: list[tuple[str, ClientMessage]] = []

    def call(self, function: Any, *args: Any) -> Any:
        return function(*args)

    def create_producer(self) -> FakeSession:
        return self

    def send(self, message: ClientMessage, address: str) -> None:
        if len(self.sent) == self.room:
            raise AddressFullError("full")
        self.sent.append((address, message))


class SendingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = Pair()
        self.q, self.r = self.pair.start("q", "r")
        self.old = self.pair.kept.add(self.q)
        self.pair.split()
        self.targets = {"q": Target("a", 70), "r": Target("a", 71)}

    def plan(self, with_undecided: bool = False, kept: DataFolders = KEPT) -> Plan:
        split = self.pair.read()
        return make_plan(split, compare(split.kept, split.running, split.common), kept, with_undecided, self.targets.get)

    def send(self, plan: Plan, session: Any, kept: DataFolders = KEPT) -> int:
        return send(plan.to_send, kept, session, session, lambda: None)

    def remember(self, duplicate_id: bytes) -> None:
        store = self.pair.running.store
        batch = store.begin()
        batch.add_duplicate_id("a", duplicate_id, store.next_id())
        store.commit(batch)

    def test_a_second_run_adds_nothing(self) -> None:
        add(self.pair.kept, [self.q, self.r], b"first")
        add(self.pair.kept, [self.q], b"second", **{KEY_DUPLICATE_ID: (STRING, "own")})
        session = FakeSession()
        self.assertEqual(self.send(self.plan(), session), 2)
        (address, first), (_, second) = session.sent
        self.assertEqual((address, first.body, first.durable), ("a", b"first", True))
        self.assertEqual(first.properties[KEY_ROUTE_TO][1], (70).to_bytes(8, "big") + (71).to_bytes(8, "big"))
        self.assertEqual(second.properties[KEY_DUPLICATE_ID], (STRING, "own"))
        made = first.properties[KEY_DUPLICATE_ID][1]
        assert isinstance(made, bytes)
        self.remember(made)
        self.assertEqual([each.found.content().body for each in self.plan().known], [b"first"])
        self.remember("own".encode("utf-16-le"))
        self.assertEqual((len(self.plan().known), self.plan().to_send), (2, []))
        self.assertEqual(self.plan().ids(), {"a": 2})

    def test_copies_with_the_id_of_one_message_get_ids_of_their_own(self) -> None:
        properties = {KEY_DUPLICATE_ID: (STRING, "own"), KEY_ORIGINAL_MESSAGE_ID: (LONG, self.old.message_id)}
        for queue in (self.q, self.r):
            add(self.pair.kept, [queue], **properties)
        add(self.pair.kept, [self.q], **{KEY_DUPLICATE_ID: (STRING, "own")})
        self.assertEqual(len(self.plan().to_send), 1)
        alone = self.plan().to_send[0].made_id
        made = [each.made_id for each in self.plan(with_undecided=True).to_send]
        self.assertEqual(len(set(made)), 3)
        self.assertIn(alone, made)

    def test_a_queue_that_is_missing_in_the_running_broker(self) -> None:
        add(self.pair.kept, [self.q, self.r])
        del self.targets["r"]
        plan = self.plan()
        self.assertEqual(
            (plan.to_send, [each.reason for each in plan.unsendable]), ([], ["the running broker has no queue r of address a"])
        )
        self.targets["r"] = Target("b", 71)
        self.assertEqual(len(self.plan().unsendable), 1)

    def test_a_large_message(self) -> None:
        kept = DataFolders(Path(), Path(), Path(self.mktemp()))
        kept.large_messages.mkdir()
        add(self.pair.kept, [self.q])
        plan = self.plan()
        record = plan.to_send[0].found.record
        split = self.pair.read()
        stored = split.kept.messages[record.message_id].record
        stored.body_id, stored.body_size = 5, 4
        comparison = compare(split.kept, split.running, split.common)
        self.assertIn("5.msg", make_plan(split, comparison, kept, False, self.targets.get).unsendable[0].reason)
        kept.large_body(5).write_bytes(os.urandom(4))
        session = FakeSession()
        self.send(make_plan(split, comparison, kept, False, self.targets.get), session, kept)
        source: Any = session.sent[0][1].body_source
        self.assertEqual(b"".join(source), kept.large_body(5).read_bytes())

    def test_a_large_message_without_a_body_has_no_file(self) -> None:
        kept = DataFolders(Path(), Path(), Path(self.mktemp()))
        add(self.pair.kept, [self.q])
        split = self.pair.read()
        plan = make_plan(split, compare(split.kept, split.running, split.common), kept, False, self.targets.get)
        record = plan.to_send[0].found.record
        record.body_id, record.body_size = 5, 0
        session = FakeSession()
        self.assertEqual(self.send(plan, session, kept), 1)
        source: Any = session.sent[0][1].body_source
        self.assertEqual(b"".join(source), b"")

    def test_a_small_id_cache(self) -> None:
        for _ in range(3):
            add(self.pair.kept, [self.q])
        plan = self.plan()
        self.assertEqual(id_cache_problem(plan, {"a": 3}), "")
        self.assertIn("address a keeps 2 duplicate ids, fewer than the 3 messages", id_cache_problem(plan, {"a": 2}))
        self.assertIn("keeps 0", id_cache_problem(plan, {"a": -1}))

    def test_a_broker_that_refuses(self) -> None:
        for _ in range(3):
            add(self.pair.kept, [self.q])
        error = self.assertRaises(CommandError, self.send, self.plan(), FakeSession(2))
        self.assertIn("full; 2 messages were sent before", str(error))
