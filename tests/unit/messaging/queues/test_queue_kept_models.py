"""Queues that keep only some of their messages, against tiny models of them: sends, transactions, returns, restarts and crashes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.queues.queue import Queue
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.primitives import Xid
from mqclient.wire.properties import LONG, STRING, TypedValue
from tests.unit.messaging.paging_support import ALWAYS, PagingBroker, Taker, body_of, numbered

KEYS = ("", "a", "b")
SETTINGS = {"#": {"max_delivery_attempts": -1}}

keys = st.sampled_from(KEYS)
step = st.one_of(
    st.tuples(st.just("send"), keys, st.booleans()),
    st.tuples(st.just("send"), keys, st.just(True)),
    st.tuples(st.just("transacted"), keys, st.booleans()),
    st.tuples(st.sampled_from(("commit", "undo", "roll back", "leave", "restart", "crash"))),
    st.tuples(st.sampled_from(("take", "acknowledge")), st.integers(1, 3)),
)
steps = st.lists(step, min_size=12, max_size=50)
resizes = st.tuples(st.just("resize"), st.integers(-1, 4))


@dataclass
class Item:
    body: bytes
    key: str
    durable: bool
    order: int = 0


class Model:
    """What a last-value or ring queue does, said as simply as possible."""

    def __init__(self, ring: int) -> None:
        self.ring = ring
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
        if self.ring >= 0:
            del self.waiting[: max(0, len(self.waiting) - self.ring)]

    def comes_back(self) -> None:
        for item in reversed(self.delivering):
            if (self.ring < 0 or len(self.waiting) < self.ring) and not self.has_newer(item):
                self.waiting.append(item)
                self.waiting.sort(key=lambda each: each.order)
        self.delivering = []

    def restart(self) -> None:
        self.waiting = [each for each in self.waiting if each.durable]
        self.delivering = [each for each in self.delivering if each.durable]
        self.room = 0
        self.waiting = sorted(self.waiting + self.delivering, key=lambda each: each.order)
        self.delivering = []
        self.waiting = [each for each in self.waiting if not self.has_newer(each)]


class Walk:
    """Does the same to a broker and to a model."""

    def __init__(self, ring: int = -1, **attributes: object) -> None:
        self.broker = PagingBroker(SETTINGS)
        self.broker.make_queue("q", ring_size=ring, **attributes)
        self.model = Model(ring)
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

    def do_resize(self, ring: int) -> None:
        self.broker.messaging.administration.update_queue(self.queue, ring_size=ring)
        self.model.ring = ring

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


class ModelCase(SynchronousTestCase):
    def check(self, walk: Walk, script: list[tuple[object, ...]]) -> None:
        for kind, *values in script:
            walk.step(str(kind), *values)
            self.assertEqual(walk.found(), walk.expected())
            queue, model = walk.queue, walk.model
            held = len(model.waiting) + len(model.delivering)
            self.assertEqual((queue.address.memory.messages, queue.total_count), (held + len(walk.pending), held))
        walk.end()
        queue = walk.queue
        self.assertEqual((queue.total_count, queue.persistent_size, queue.address.memory.size), (0, 0, 0))
        walk.broker.restart()
        self.assertEqual((walk.queue.total_count, walk.broker.rig.recovered), (0, {}))


class RingTests(ModelCase):
    @settings(max_examples=25, deadline=None)
    @given(steps, st.integers(0, 3))
    def test_everything_ends_as_the_model_says(self, script: list[tuple[object, ...]], ring: int) -> None:
        self.check(Walk(ring), [(kind, "", *rest[1:]) if kind in ("send", "transacted") else (kind, *rest) for kind, *rest in script])

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.one_of(step, resizes), min_size=12, max_size=50))
    def test_rings_of_last_values_that_change_their_sizes(self, script: list[tuple[object, ...]]) -> None:
        self.check(Walk(2, last_value_key="sym"), script)


class Borrower:
    """What a model knows of one consumer of a non-destructive queue."""

    def __init__(self) -> None:
        self.room = 0
        self.passed = 0
        self.again: list[Item] = []
        self.lent: list[Item] = []


class LendingWalk(Walk):
    """Does the same to a non-destructive queue and to a model of it, with two consumers."""

    def __init__(self, ring: int, **attributes: object) -> None:
        super().__init__(ring, non_destructive=True, **attributes)
        self.keyed = "last_value_key" in attributes
        self.takers: dict[int, Taker] = {}
        self.borrowers: dict[int, Borrower] = {}

    def step(self, kind: str, *values: object) -> None:
        getattr(self, f"do_{kind.replace(' ', '_')}")(*values)
        self.broker.settle()
        model = self.model
        for borrower in self.borrowers.values():
            self.lend(borrower)
        if model.ring >= 0:
            del model.waiting[: max(0, len(model.waiting) - model.ring)]

    def new(self, key: str, durable: bool) -> Item:
        item = super().new(key, durable)
        return item if self.keyed else Item(item.body, "", durable)

    def lend(self, borrower: Borrower) -> None:
        there = self.model.waiting
        borrower.again.sort(key=lambda each: each.order)
        while borrower.room and borrower.again:
            item = borrower.again.pop(0)
            if item in there:
                borrower.lent.append(item)
                borrower.room -= 1
        for item in there:
            if borrower.room and item.order > borrower.passed:
                borrower.lent.append(item)
                borrower.passed = item.order
                borrower.room -= 1

    def do_open(self, number: int, room: int) -> None:
        if number not in self.takers:
            self.takers[number] = Taker(self.broker, self.queue, 0)
            self.borrowers[number] = Borrower()
        self.borrowers[number].room += room
        self.takers[number].give_room(room)
        self.lend(self.borrowers[number])

    def do_settle(self, number: int, count: int) -> None:
        if number in self.takers:
            self.takers[number].acknowledge(count)
            del self.borrowers[number].lent[:count]

    def do_return(self, number: int) -> None:
        if number in self.takers:
            borrower = self.borrowers[number]
            borrower.again += borrower.lent
            borrower.lent = []
            self.takers[number].roll_back()

    def do_close(self, number: int) -> None:
        if number in self.takers:
            self.takers.pop(number).leave()
            del self.borrowers[number]

    def forget(self) -> None:
        super().forget()
        self.takers, self.borrowers = {}, {}


numbers = st.integers(0, 1)
lending = st.lists(
    st.one_of(
        st.tuples(st.just("send"), keys, st.booleans()),
        st.tuples(st.just("send"), keys, st.just(True)),
        st.tuples(st.just("transacted"), keys, st.just(True)),
        st.tuples(st.just("open"), numbers, st.integers(1, 4)),
        st.tuples(st.just("settle"), numbers, st.integers(1, 3)),
        st.tuples(st.sampled_from(("return", "close")), numbers),
        st.tuples(st.sampled_from(("commit", "undo", "restart", "crash"))),
    ),
    min_size=12,
    max_size=50,
)


class LendingTests(SynchronousTestCase):
    def check(self, walk: LendingWalk, script: list[tuple[object, ...]]) -> None:
        for kind, *values in script:
            walk.step(str(kind), *values)
            model, queue = walk.model, walk.queue
            self.assertEqual([body_of(each.message) for each in queue.references], [each.body for each in model.waiting])
            lent = {number: [each.body for each in borrower.lent] for number, borrower in walk.borrowers.items()}
            self.assertEqual({number: taker.bodies for number, taker in walk.takers.items()}, lent)
            out = {body for bodies in lent.values() for body in bodies}
            self.assertEqual((queue.delivering, queue.total_count), (sum(map(len, lent.values())), len(model.waiting)))
            held = len(out | {each.body for each in model.waiting}) + len(walk.pending)
            self.assertEqual(queue.address.memory.messages, held)
        for number in (0, 1):
            walk.step("close", number)
        walk.step("undo")
        queue = walk.queue
        walk.broker.messaging.removal.purge(queue)
        self.assertEqual((queue.total_count, queue.persistent_size, queue.address.memory.size, queue.delivering), (0, 0, 0, 0))
        walk.broker.restart()
        self.assertEqual((walk.queue.total_count, walk.broker.rig.recovered), (0, {}))

    @settings(max_examples=25, deadline=None)
    @given(lending, st.integers(-1, 4))
    def test_everything_ends_as_the_model_says(self, script: list[tuple[object, ...]], ring: int) -> None:
        self.check(LendingWalk(ring), script)

    @settings(max_examples=25, deadline=None)
    @given(lending)
    def test_last_values(self, script: list[tuple[object, ...]]) -> None:
        self.check(LendingWalk(-1, last_value_key="sym"), script)

    @settings(max_examples=20, deadline=None)
    @given(st.integers(1, 60), st.integers(1, 5))
    def test_pages(self, count: int, room: int) -> None:
        """Everything in pages is lent, although nothing leaves."""
        broker = PagingBroker({"#": {**ALWAYS, "max_read_page_messages": 5}})
        queue = broker.make_queue("q", non_destructive=True)
        sent = numbered(count)
        for body in sent:
            broker.send(body)
        taker = Taker(broker, queue, room)
        seen: list[bytes] = []
        while taker.references:
            seen += taker.acknowledge()
            taker.give_room(room)
        self.assertEqual((seen, queue.total_count, queue.delivering), (sent, count, 0))
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual(Taker(broker, queue).bodies, sent)
        broker.messaging.removal.purge(queue)
        for consumer in list(queue.consumers()):
            assert isinstance(consumer, Taker)
            consumer.leave()
        memory = queue.address.memory
        self.assertEqual((queue.total_count, memory.size, memory.messages, broker.pages()), (0, 0, 0, 0))

    def test_pages_wait_for_what_other_addresses_hold(self) -> None:
        broker = PagingBroker({"q": ALWAYS}, global_max_messages=50)
        queue, other = broker.make_queue("q", non_destructive=True), broker.make_queue("other")
        sent = numbered(100)
        for body in sent:
            broker.send(body)
        for body in numbered(50):
            broker.send(body, "other")
        taker = Taker(broker, queue)
        taker.acknowledge()
        self.assertTrue(0 < queue.references.count < 100, queue.references.count)
        broker.core.global_memory.max_messages = 200
        Taker(broker, other, 1).acknowledge()
        for _ in range(9):
            broker.settle()
        self.assertEqual((queue.references.count, queue.paged), (100, 0))


class LastValueTests(ModelCase):
    @settings(max_examples=25, deadline=None)
    @given(steps)
    def test_everything_ends_as_the_model_says(self, script: list[tuple[object, ...]]) -> None:
        self.check(Walk(last_value_key="sym"), script)

    def test_scheduled_values_over_restarts(self) -> None:
        """What was scheduled is the newest from its time on, also when the broker was away then or has crashed afterwards."""
        broker = PagingBroker(SETTINGS)
        broker.make_queue("q", last_value_key="sym")
        for again in (broker.restart, broker.crash):
            due = broker.rig.clock.wall_ms() + 5000
            value: dict[str, TypedValue] = {"sym": (STRING, "a")}
            broker.send(b"later", properties={**value, KEY_SCHEDULED_DELIVERY: (LONG, due)})
            broker.send(b"now", properties=value)
            queue = broker.core.queues["q"]
            self.assertEqual(([body_of(each.message) for each in queue.references], queue.scheduled.count), ([b"now"], 1))
            again()
            broker.rig.clock.advance(6)
            broker.settle()
            again()
            queue = broker.core.queues["q"]
            self.assertEqual(([body_of(each.message) for each in queue.references], queue.total_count), ([b"later"], 1))
        Taker(broker, queue).drain()
        broker.restart()
        self.assertEqual(broker.rig.recovered, {})

    def test_prepared_branches_over_a_restart(self) -> None:
        """A branch holds what it has acknowledged, also when a newer value has come since; it comes back to be dropped."""
        broker = PagingBroker(SETTINGS)
        queue = broker.make_queue("q", last_value_key="sym")
        value: dict[str, TypedValue] = {"sym": (STRING, "a")}
        broker.send(b"old", properties=value)
        taker = Taker(broker, queue)
        transaction = Transaction()
        transaction.acknowledged.extend(taker.references)
        xid = Xid(7, b"b", b"t")
        broker.messaging.settlement.prepare(transaction, xid, 0)
        taker.references.clear()
        taker.leave()
        broker.send(b"new", properties=value)
        broker.restart()
        queue = broker.core.queues["q"]
        self.assertEqual(([body_of(each.message) for each in queue.references], queue.delivering), ([b"new"], 1))
        broker.messaging.branches.rollback(xid)
        broker.settle()
        self.assertEqual(([body_of(each.message) for each in queue.references], queue.delivering), ([b"new"], 0))
        self.assertEqual(queue.messages_replaced, 1)
        Taker(broker, queue).drain()
        broker.restart()
        memory = broker.core.queues["q"].address.memory
        self.assertEqual((broker.rig.recovered, memory.size, memory.messages), ({}, 0, 0))

    @settings(max_examples=25, deadline=None)
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

    @settings(max_examples=20, deadline=None)
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
