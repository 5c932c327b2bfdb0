"""Which duplicate ids are remembered, and which belong together."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.duplicates import DuplicateIdCache, batch_of
from mqbroker.messaging.transaction import Transaction
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
