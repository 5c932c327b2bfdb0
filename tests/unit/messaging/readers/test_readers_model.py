"""Any mixture of sends, transactions, branches, schedules, ranges, settlements, restarts and crashes: each message lies in exactly one
range, and a range reads the same every time until it is settled."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mqbroker.messaging.delivery.transaction import Transaction
from mqclient.wire.message import KEY_SCHEDULED_DELIVERY
from mqclient.wire.properties import LONG
from tests.unit.messaging.paging_support import ALWAYS
from tests.unit.messaging.readers.stored import StoredBroker, xid
from tests.unit.mqclient.wire.strategies import examples

SETTINGS: list[dict[str, dict[str, Any]]] = [
    {},
    {"#": ALWAYS},
    {"#": {**ALWAYS, "max_size_messages": 8, "max_size_bytes": -1}},
]
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(("send", "send", "transacted", "prepared", "scheduled")), st.integers(1, 12)),
    st.tuples(st.sampled_from(("commit", "roll back", "decide")), st.integers(0, 3)),
    st.tuples(st.sampled_from(("reserve", "reserve", "reserve all", "survey", "read")), st.integers(1, 9)),
    st.tuples(st.sampled_from(("settle", "settle part", "settle and crash")), st.integers(0, 5)),
    st.tuples(st.sampled_from(("restart", "crash", "open")), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 8)),
)


class Model:
    """The broker with what its one reader has been given."""

    def __init__(self, settings: dict[str, dict[str, Any]]) -> None:
        self.broker = StoredBroker(settings)
        self.broker.make_queue("q")
        self.reader = self.broker.open()
        self.number = 0
        self.expected: set[bytes] = set()
        """Bodies that have to come."""
        self.open: list[tuple[Transaction, list[bytes]]] = []
        self.prepared: list[tuple[int, list[bytes]]] = []
        self.ranges: list[tuple[int, int, list[tuple[int, bytes]]]] = []
        """Those that are not settled: after, until, rows."""
        self.reserved = 0
        self.settled = 0
        self.given: list[bytes] = []

    def bodies(self, count: int) -> list[bytes]:
        bodies = [b"%d" % (self.number + each) for each in range(count)]
        self.number += count
        return bodies

    # --- what happens

    def send(self, count: int) -> None:
        for body in self.bodies(count):
            self.broker.send(body, settle=False)
            self.expected.add(body)
        self.broker.settle()

    def transacted(self, count: int) -> None:
        transaction = Transaction()
        bodies = self.bodies(count)
        for body in bodies:
            self.broker.send(body, transaction=transaction)
        self.open.append((transaction, bodies))

    def prepare(self, count: int) -> None:
        branch = self.broker.branches.start(xid(self.number), "owner")
        self.prepared.append((self.number, bodies := self.bodies(count)))
        for body in bodies:
            self.broker.send(body, transaction=branch.transaction)
        self.broker.branches.prepare(branch.xid)
        self.broker.settle()

    def scheduled(self, count: int) -> None:
        for body in self.bodies(min(count, 3)):
            due = self.broker.rig.clock.wall_ms() + 1000 * count
            self.broker.send(body, properties={KEY_SCHEDULED_DELIVERY: (LONG, due)})
            self.expected.add(body)

    def commit(self, which: int, commit: bool = True) -> None:
        if self.open:
            transaction, bodies = self.open.pop(which % len(self.open))
            if commit:
                self.broker.messaging.settlement.commit(transaction, self.broker.context)
                self.expected.update(bodies)
            else:
                self.broker.messaging.settlement.rollback(transaction)
            self.broker.settle()

    def decide(self, which: int) -> None:
        if self.prepared:
            number, bodies = self.prepared.pop(which % len(self.prepared))
            if which % 4 == 3:
                self.broker.branches.rollback(xid(number))
            else:
                self.broker.branches.commit(xid(number), False, self.broker.context)
                self.expected.update(bodies)
            self.broker.settle()

    def reserve(self, messages: int) -> bool:
        found = self.broker.reserve(self.reader, self.reserved, messages=messages, parts=3)
        rows = self.broker.rows(self.reserved, found.until)
        assert len(rows) == found.messages
        parts = list(zip((found.after, *found.ends), found.ends, strict=False))
        assert [row for after, until in parts for row in self.broker.rows(after, until, max_bytes=120)] == rows
        if found.until == self.reserved:
            assert not rows
            return False
        self.ranges.append((self.reserved, found.until, rows))
        self.given += [body for _, body in rows]
        self.reserved = found.until
        return True

    def check(self) -> None:
        for after, until, rows in self.ranges:
            assert self.broker.rows(after, until) == rows, (after, until)

    def settle(self, count: int, part: bool = False, crash: bool = False) -> None:
        if not self.ranges:
            return
        _, until, rows = self.ranges[min(count, len(self.ranges) - 1)]
        if part and rows:
            until = rows[len(rows) // 2][0]
        self.broker.settle_reader(self.reader, until, wait=not crash)
        if crash:
            self.broker.crash()
            self.begin_again()
            assert self.reader.settled in (self.settled, until)
            until = self.reader.settled
        self.settled = until
        left = [each for each in self.ranges if each[1] > until]
        self.ranges = [(max(after, until), end, [row for row in rows if row[0] > until]) for after, end, rows in left]

    def begin_again(self) -> None:
        self.open.clear()
        self.reader = self.broker.open()
        assert self.reader.reserved == self.reserved

    def act(self, action: str, number: int) -> None:
        broker = self.broker
        match action:
            case "send":
                self.send(number)
            case "transacted":
                self.transacted(number)
            case "prepared":
                self.prepare(number)
            case "scheduled":
                self.scheduled(number)
            case "commit" | "roll back":
                self.commit(number, action == "commit")
            case "decide":
                self.decide(number)
            case "reserve":
                self.reserve(number)
            case "reserve all":
                self.reserve(-1)
            case "survey":
                found = broker.reserve(None, 0)
                assert broker.rows(0, found.until) == broker.rows(0, found.until, max_bytes=50)
            case "settle" | "settle part" | "settle and crash":
                self.settle(number, part=action == "settle part", crash=action == "settle and crash")
            case "restart" | "crash":
                getattr(broker, action)()
                self.begin_again()
            case "open":
                self.reader = broker.open()
            case "wait":
                broker.advance(number)
        self.check()

    def end(self) -> None:
        """Everything that was decided comes; nothing comes twice."""
        while self.prepared:
            self.decide(0)
        self.broker.advance(60)
        while self.reserve(7) or self.reserve(7):
            # What is scheduled in pages is found on the way, and comes with the next range.
            self.check()
        assert sorted(self.given) == sorted(self.expected)
        self.settle(len(self.ranges))
        queue = self.broker.q
        assert (queue.message_count, queue.durable_message_count, queue.arriving) == (0, 0, sum(len(bodies) for _, bodies in self.open))
        self.broker.restart()
        assert self.broker.q.message_count == 0
        assert self.broker.rig.failures == []


class ModelTests(TestCase):
    @examples(120)
    @given(settings=st.sampled_from(SETTINGS), actions=st.lists(ACTIONS, min_size=5, max_size=25))
    def test_each_message_lies_in_one_range(self, settings: dict[str, dict[str, Any]], actions: list[tuple[str, int]]) -> None:
        model = Model(settings)
        for action, number in actions:
            model.act(action, number)
        model.end()
