"""Which duplicate ids are remembered, and which belong together."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.core import BRIDGE_CACHE
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.routing import duplicates
from mqbroker.messaging.routing.duplicates import DuplicateIdCache, IdsBySender, batch_of
from mqclient.errors import DuplicateIdRejectedError
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.properties import STRING
from tests.unit.messaging.support import Bench


def text(value: str) -> bytes:
    return value.encode("utf-16-le")


class BatchTests(SynchronousTestCase):
    def test_the_batch_of_an_id(self) -> None:
        for value, batch in (
            ("batch!q/1!0/7", "batch!q/1!"),
            ("batch!q!", "batch!q!"),
            ("batch!!x", "batch!!"),
            ("batch!q", None),
            ("batch", None),
            ("q/1/0/7", None),
            ("", None),
            ("batch!\u2100\u0021x", "batch!\u2100!"),  # what looks like the mark begins in the middle of a character
            ("batch!\u2100\u0000x", None),
        ):
            self.assertEqual(batch_of(text(value)), None if batch is None else text(batch), value)
        self.assertIsNone(batch_of(b"batch!q!1"))

    def test_an_id_may_push_out_all_but_those_of_its_batch(self) -> None:
        bench = Bench()
        cache = DuplicateIdCache("q", 2, bench.store, False)
        batch = bench.store.begin()
        first, second, third = (text(f"batch!a!{number}") for number in range(3))
        self.assertFalse(cache.loses_its_batch(first))
        cache.add(first, batch)
        self.assertFalse(cache.loses_its_batch(second))
        cache.add(second, batch)
        self.assertTrue(cache.loses_its_batch(third))
        for other in ("batch!b!0", "plain", "batch!a", "batch!aa!0"):
            self.assertFalse(cache.loses_its_batch(text(other)), other)
        cache.add(text("plain"), batch)
        cache.add(text("plainer"), batch)
        self.assertFalse(cache.loses_its_batch(third))


class ForgottenTests(SynchronousTestCase):
    """The ids of an address are forgotten, by management or with its last queue, while a transaction has messages for it."""

    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")

    def send(self, transaction: Transaction | None = None) -> None:
        self.bench.send(b"x", properties={KEY_DUPLICATE_ID: (STRING, "once")}, transaction=transaction)

    def test_what_it_commits_afterwards_is_known(self) -> None:
        transaction = Transaction()
        self.send(transaction)
        self.bench.core.forget_duplicate_ids("q")
        self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.send()
        self.assertEqual(self.queue.message_count, 1)

    def test_what_came_meanwhile_is_known_to_it(self) -> None:
        transaction = Transaction()
        self.send(transaction)
        self.bench.core.forget_duplicate_ids("q")
        self.send()
        with self.assertRaises(DuplicateIdRejectedError):
            self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.assertEqual((self.queue.message_count, self.queue.arriving), (1, 0))


def bridged(sender: int, number: int) -> bytes:
    """A bridge duplicate id: the node id of the sender, then the id that the message has there."""
    return bytes([0, 0, 0, sender]) + bytes(12) + number.to_bytes(8, "big")


class ManyTests(SynchronousTestCase):
    @given(
        st.integers(1, 6),
        st.lists(st.lists(st.sampled_from((b"", b"a", b"b", b"c", b"d", b"ee", b"ff", b"gg")), max_size=9)),
        st.booleans(),
    )
    def test_many_at_once_are_remembered_as_one_by_one(self, size: int, commits: list[list[bytes]], by_sender: bool) -> None:
        bench = Bench()
        one, many = (DuplicateIdCache("q", size, bench.store, True, by_sender=by_sender) for _ in range(2))
        batch = bench.store.begin()
        for ids in commits:
            for each in ids:
                one.add(each, batch)
            many.add_all(ids, batch)
            self.assertEqual(many.ids(), one.ids())


class SenderTests(SynchronousTestCase):
    """Several brokers send to one address."""

    def setUp(self) -> None:
        self.bench = Bench()
        self.cache = self.bench.core.duplicate_ids(f"{BRIDGE_CACHE}q")
        assert self.cache is not None
        self.cache.size = 20

    def add(self, sender: int, numbers: range) -> None:
        assert self.cache is not None
        batch = self.bench.store.begin()
        self.cache.add_run([bridged(sender, number) for number in numbers], batch, self.bench.store.next_id())
        self.bench.store.commit(batch)

    def test_who_is_cut_off_is_remembered_whatever_others_send_meanwhile(self) -> None:
        """It may not have heard that its last messages have arrived, and sends them again when it is back."""
        assert self.cache is not None
        self.add(1, range(100))
        self.add(2, range(5))
        self.add(1, range(100, 200))
        self.add(3, range(3))
        self.add(1, range(200, 300))
        self.assertEqual(len(self.cache), 20)
        self.assertTrue(all(bridged(2, number) in self.cache for number in range(5)))
        self.assertTrue(all(bridged(3, number) in self.cache for number in range(3)))
        self.assertEqual([number for number in range(300) if bridged(1, number) in self.cache], list(range(288, 300)))

    def test_who_has_long_been_silent_keeps_no_room(self) -> None:
        """Brokers without a disk have a new node id after each start, and their last ones never come back."""
        assert self.cache is not None
        for sender in range(10):
            self.add(sender, range(20))
        with patch.object(duplicates, "SILENT_ROUNDS", 15):
            for number in range(100):
                self.add(77, range(number, number + 1))
            self.assertEqual(sum(bridged(77, number) in self.cache for number in range(100)), 1)
            for number in range(100, 400):
                self.add(77, range(number, number + 1))
        self.assertEqual(self.cache.ids(), [bridged(77, number) for number in range(380, 400)])

    def test_one_sender_has_all_the_room(self) -> None:
        assert self.cache is not None
        self.add(1, range(100))
        self.assertEqual(self.cache.ids(), [bridged(1, number) for number in range(80, 100)])

    def test_nobody_has_more_than_a_fair_share_when_all_send(self) -> None:
        assert self.cache is not None
        for number in range(100):
            for sender in (1, 2, 3, 4):
                self.add(sender, range(number, number + 1))
        counts = [sum(bridged(sender, number) in self.cache for number in range(100)) for sender in (1, 2, 3, 4)]
        self.assertEqual(counts, [5, 5, 5, 5])

    @given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), max_size=9), st.integers(1, 9))
    def test_a_run_leaves_what_its_messages_leave_one_by_one(self, runs: list[list[int]], size: int) -> None:
        store = self.bench.store
        one, other = (DuplicateIdCache(f"{BRIDGE_CACHE}{name}", size, store, True, by_sender=True) for name in "ab")
        number = 0
        for senders in runs:
            ids = [bridged(sender, number + place) for place, sender in enumerate(senders)]
            number += len(ids)
            batch = store.begin()
            one.add_run(ids, batch, store.next_id())
            for each in ids:
                other.add(each, batch)
            store.commit(batch)
            self.assertEqual(one.ids(), other.ids())

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from(["set", "pop", "oldest"])), max_size=60))
    def test_it_holds_what_was_put_in_and_not_taken_out(self, steps: list[tuple[int, int, str]]) -> None:
        ids, expected = IdsBySender(), {}
        for sender, number, action in steps:
            key = bridged(sender, number)
            if action == "set":
                ids[key] = expected[key] = number
            elif action == "pop":
                self.assertEqual(ids.pop(key, 9), expected.pop(key, 9))
            elif ids:
                found, value = ids.popitem(last=False)
                self.assertEqual(expected.pop(found), value)
            self.assertEqual((len(ids), set(ids)), (len(expected), set(expected)))
            self.assertEqual((key in ids, ids.get(key, 9)), (key in expected, expected.get(key, 9)))
        self.assertRaises(KeyError, IdsBySender().popitem)
