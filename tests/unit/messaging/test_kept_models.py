"""Queues that keep only some of their messages, against tiny models of them: sends, transactions, returns, restarts and crashes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.queue import Queue
from mqbroker.messaging.transaction import Transaction
from mqclient.wire.properties import STRING, TypedValue
from tests.unit.paging.support import ALWAYS, PagingBroker, Taker, body_of

KEYS = ("", "a", "b")
SETTINGS = {"#": {"max_delivery_attempts": -1}}

keys = st.sampled_from(KEYS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), keys, st.booleans()),
        st.tuples(st.just("send"), keys, st.just(True)),
        st.tuples(st.just("transacted"), keys, st.booleans()),
        st.tuples(st.sampled_from(("commit", "undo", "roll back", "leave", "restart", "crash"))),
        st.tuples(st.sampled_from(("take", "acknowledge")), st.integers(1, 3)),
    ),
    min_size=12,
    max_size=50,
)


@dataclass
class Item:
    body: bytes
    key: str
    durable: bool
    order: int = 0


class Model:
    """What a last-value queue does, said as simply as possible."""

    def __init__(self) -> None:
        self.waiting: list[Item] = []
        self.delivering: list[Item] = []
        self.room = 0
        self._order = 0

    def has_newer(self, item: Item) -> bool:
        return bool(item.key) and any(each.key == item.key and each.order > item.order for each in self.waiting + self.delivering)

    def comes(self, item: Item) -> None:
        self._order += 1
        item.order = self._order
        self.waiting.append(item)
        self.waiting = [each for each in self.waiting if not self.has_newer(each)]

    def deliver(self) -> None:
        while self.room and self.waiting:
            self.delivering.append(self.waiting.pop(0))
            self.room -= 1

    def comes_back(self) -> None:
        self.waiting = sorted([each for each in self.waiting + self.delivering if not self.has_newer(each)], key=lambda each: each.order)
        self.delivering = []

    def restart(self) -> None:
        self.waiting = [each for each in self.waiting if each.durable]
        self.delivering = [each for each in self.delivering if each.durable]
        self.room = 0
        self.comes_back()


class Walk:
    """Does the same to a broker and to a model."""

    def __init__(self, **attributes: object) -> None:
        self.broker = PagingBroker(SETTINGS)
        self.broker.make_queue("q", **attributes)
        self.model = Model()
        self.taker: Taker | None = None
        self.transaction = Transaction()
        self.pending: list[Item] = []
        self.sent = 0

    @property
    def queue(self) -> Queue:
        queue: Queue = self.broker.core.queues["q"]
        return queue

    def new(self, key: str, durable: bool) -> Item:
        self.sent += 1
        return Item(b"%d" % self.sent, key, durable)

    def put(self, item: Item, transaction: Transaction | None = None) -> None:
        properties: dict[str, TypedValue] = {"sym": (STRING, item.key)} if item.key else {}
        self.broker.send(item.body, durable=item.durable, properties=properties, transaction=transaction)

    def step(self, kind: str, *values: object) -> None:
        getattr(self, f"do_{kind.replace(' ', '_')}")(*values)
        self.broker.settle()
        self.model.deliver()

    def do_send(self, key: str, durable: bool) -> None:
        item = self.new(key, durable)
        self.put(item)
        self.model.comes(item)

    def do_transacted(self, key: str, durable: bool) -> None:
        item = self.new(key, durable)
        self.put(item, self.transaction)
        self.pending.append(item)

    def do_commit(self) -> None:
        transaction, self.transaction = self.transaction, Transaction()
        self.broker.messaging.settlement.commit(transaction, self.broker.context)
        for item in self.pending:
            self.model.comes(item)
        self.pending = []

    def do_undo(self) -> None:
        transaction, self.transaction = self.transaction, Transaction()
        self.broker.messaging.settlement.rollback(transaction)
        self.pending = []

    def do_take(self, room: int) -> None:
        if self.taker is None:
            self.taker = Taker(self.broker, self.queue, 0)
        self.model.room += room
        self.model.deliver()
        self.taker.give_room(room)

    def do_acknowledge(self, count: int) -> None:
        if self.taker is not None:
            self.taker.acknowledge(count)
            del self.model.delivering[:count]

    def do_roll_back(self) -> None:
        if self.taker is not None:
            self.taker.roll_back()
            self.model.comes_back()

    def do_leave(self) -> None:
        if self.taker is not None:
            self.taker.leave()
            self.taker = None
            self.model.room = 0
            self.model.comes_back()

    def do_restart(self) -> None:
        self.forget()
        self.broker.restart()
        self.model.restart()

    def do_crash(self) -> None:
        self.broker.settle()
        self.forget()
        self.broker.crash()
        self.model.restart()

    def forget(self) -> None:
        """The clients go with the broker."""
        self.taker = None
        self.transaction, self.pending = Transaction(), []

    def found(self) -> tuple[list[bytes], list[bytes], int]:
        queue = self.queue
        delivering = [] if self.taker is None else self.taker.bodies
        return [body_of(each.message) for each in queue.references], delivering, queue.delivering

    def expected(self) -> tuple[list[bytes], list[bytes], int]:
        model = self.model
        return [each.body for each in model.waiting], [each.body for each in model.delivering], len(model.delivering)

    def end(self) -> None:
        """Consume everything."""
        self.step("undo")
        self.step("leave")
        Taker(self.broker, self.queue).drain()


class LastValueTests(SynchronousTestCase):
    def check(self, walk: Walk) -> None:
        self.assertEqual(walk.found(), walk.expected())
        queue = walk.queue
        held = len(walk.model.waiting) + len(walk.model.delivering) + len(walk.pending)
        self.assertEqual((queue.address.memory.messages, queue.message_count), (held, len(walk.model.waiting)))

    @settings(max_examples=60, deadline=None)
    @given(steps)
    def test_everything_ends_as_the_model_says(self, script: list[tuple[object, ...]]) -> None:
        walk = Walk(last_value_key="sym")
        for kind, *values in script:
            walk.step(str(kind), *values)
            self.check(walk)
        walk.end()
        queue = walk.queue
        self.assertEqual((queue.total_count, queue.persistent_size, queue.address.memory.size), (0, 0, 0))
        walk.broker.restart()
        self.assertEqual((walk.queue.total_count, walk.broker.rig.recovered), (0, {}))

    @settings(max_examples=40, deadline=None)
    @given(st.lists(keys, min_size=1, max_size=20), st.integers(0, 20), st.integers(1, 1000))
    def test_a_crash_at_any_time(self, sent: list[str], settled: int, seed: int) -> None:
        """Each key has one message, which is not older than the one that was there when everything was on the disk."""
        walk = Walk(last_value_key="sym")
        walk.broker.rig.rng.seed(seed)
        certain: dict[str, int] = {}
        for number, key in enumerate(sent):
            properties: dict[str, TypedValue] = {"sym": (STRING, key)} if key else {}
            walk.broker.send(b"%d" % number, properties=properties, settle=number < settled)
            if number < settled:
                certain[key] = number
            else:
                walk.broker.core.turn.end()
        walk.broker.crash()
        found: dict[str, int] = {}
        for reference in walk.queue.references:
            key = str(reference.message.property("sym") or "")
            if key:
                self.assertNotIn(key, found)
            found[key] = int(body_of(reference.message))
        for key, number in certain.items():
            self.assertGreaterEqual(found[key], number)

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(keys, st.integers(0, 2)), min_size=1, max_size=60), st.booleans())
    def test_pages(self, sent: list[tuple[str, int]], again: bool) -> None:
        """Messages in pages count when they are read; who has acknowledged everything has seen the newest of each key last."""
        broker = PagingBroker({"#": {**ALWAYS, "max_size_bytes": 3000, "max_delivery_attempts": -1}})
        queue = broker.make_queue("q", last_value_key="sym")
        newest: dict[str, bytes] = {}
        plain: list[bytes] = []
        for number, (key, rounds) in enumerate(sent):
            properties: dict[str, TypedValue] = {"sym": (STRING, key)} if key else {}
            body = b"%d" % number
            broker.send(body, properties=properties)
            if key:
                newest[key] = body
            else:
                plain.append(body)
            if rounds == 2:
                Taker(broker, queue, 2).leave()
        if again:
            broker.restart()
            queue = broker.core.queues["q"]
        received = Taker(broker, queue).drain()
        for body in newest.values():
            self.assertEqual(received.count(body), 1)
        for key, body in newest.items():
            last = [each for each in received if sent[int(each)][0] == key][-1]
            self.assertEqual(last, body)
        self.assertEqual(sorted(each for each in received if not sent[int(each)][0]), sorted(plain))
        memory = queue.address.memory
        self.assertEqual((queue.total_count, memory.size, memory.messages, broker.pages()), (0, 0, 0, 0))
