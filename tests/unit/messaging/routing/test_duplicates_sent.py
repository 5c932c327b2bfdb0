"""Duplicate ids of messages that are sent, alone and in transactions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.messaging.delivery.transaction import Transaction
from mqbroker.messaging.queues.queue import Queue
from mqclient.errors import (
    DuplicateIdRejectedError,
)
from mqclient.wire.message import (
    KEY_DUPLICATE_ID,
)
from mqclient.wire.properties import BYTES, STRING
from tests.unit.messaging.support import Bench


class DuplicateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench({"tiny": {"id_cache_size": 2}})
        self.queue = self.bench.queue("q")

    def _send(self, value: bytes | str, address: str = "q", transaction: Transaction | None = None) -> int:
        kind = STRING if isinstance(value, str) else BYTES
        return self.bench.send(address=address, transaction=transaction, properties={KEY_DUPLICATE_ID: (kind, value)})

    def test_a_known_id_is_dropped_and_the_sender_waits_for_the_first(self) -> None:
        self.bench.store.held = True
        first = self._send("a")
        second = self._send("a")
        self.assertGreaterEqual(second, first)
        self.bench.store.sync()
        self.bench.turn()
        self.assertEqual(self.queue.message_count, 1)

    def test_a_text_is_compared_by_its_utf16_bytes(self) -> None:
        self._send("a")
        self._send(b"a\x00")
        self._send(b"a")
        self.assertEqual(self.queue.message_count, 2)

    def test_the_oldest_id_is_forgotten_when_the_cache_is_full(self) -> None:
        queue = self.bench.queue("tiny")
        for value in ("1", "2", "3", "1"):
            self._send(value, "tiny")
        self.assertEqual(queue.message_count, 4)
        self.assertEqual(len(self.bench.store.entries("forget duplicate")), 2)

    def test_in_a_transaction_the_commit_fails(self) -> None:
        self._send("a")
        transaction = Transaction()
        self._send("a", transaction=transaction)
        with self.assertRaises(DuplicateIdRejectedError):
            self.bench.messaging.settlement.commit(transaction, self.bench.context)

    def test_a_commit_is_refused_whose_id_was_taken_since_its_message_was_sent(self) -> None:
        late = Transaction()
        self._send("a", transaction=late)
        self._send("a")
        with self.assertRaises(DuplicateIdRejectedError):
            self.bench.messaging.settlement.commit(late, self.bench.context)
        self.bench.turn()
        self.assertEqual(self.queue.message_count, 1)

    def test_ids_of_a_transaction_count_from_its_commit(self) -> None:
        transaction = Transaction()
        self._send("a", transaction=transaction)
        self._send("a", transaction=transaction)
        self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.bench.turn()
        self.assertEqual(self.queue.message_count, 2)
        self._send("a")
        self.assertEqual(self.queue.message_count, 2)

    def test_ids_of_one_length_that_are_committed_together_are_one_record_which_goes_with_the_last(self) -> None:
        self.bench.queue("tiny")
        for values in (("1", "2"), ("33",)):
            transaction = Transaction()
            for value in values:
                self._send(value, "tiny", transaction)
            self.bench.messaging.settlement.commit(transaction, self.bench.context)
        cache = self.bench.core.known_duplicate_ids("tiny")
        assert cache is not None
        self.assertEqual(cache.ids(), ["2".encode("utf-16-le"), "33".encode("utf-16-le")])
        self.assertEqual(self.bench.store.entries("forget duplicate"), [])
        record = cache.record_id("2".encode("utf-16-le"))
        self._send("4", "tiny")
        self.assertEqual(self.bench.store.entries("forget duplicate"), [("forget duplicate", record)])


class LastQueueTests(SynchronousTestCase):
    """The last queue of an address goes, and its messages still go to others."""

    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")

    def send(self) -> None:
        self.bench.send(b"x", properties={KEY_DUPLICATE_ID: (STRING, "once")})

    def check(self, other: Queue) -> None:
        """Repeat a message before and after the end of the queue, and after the end of its address."""
        self.send()
        self.bench.messaging.administration.delete_queue(self.queue, keep_address=True)
        self.send()
        self.assertEqual(other.message_count, 1)
        self.bench.messaging.administration.delete_address("q")
        self.send()
        self.bench.messaging.administration.create_address("q", (1,))
        self.send()
        self.assertEqual(other.message_count, 1)

    def test_a_divert_gets_a_repeated_message_once(self) -> None:
        other = self.bench.queue("other")
        self.bench.messaging.deploy_diverts([DivertConfiguration("d", "q", ("other",))])
        self.check(other)

    def test_so_does_the_queue_of_a_wildcard_address(self) -> None:
        self.check(self.bench.queue("other", "#"))

    def test_the_ids_go_when_the_address_goes_and_nobody_else_gets_its_messages(self) -> None:
        self.send()
        self.bench.messaging.administration.delete_queue(self.queue)
        self.assertIsNone(self.bench.core.known_duplicate_ids("q"))
        self.bench.queue("q")
        self.send()
        self.assertEqual(self.bench.core.queues["q"].message_count, 1)
