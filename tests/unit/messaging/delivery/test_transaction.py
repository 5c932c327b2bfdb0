"""Transactions: all of their work or none."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.delivery.transaction import Transaction
from mqclient.errors import (
    AddressFullError,
)
from tests.unit.messaging.support import Bench, Collector


class TransactionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.bench = Bench()
        self.queue = self.bench.queue("q")

    def test_sends_and_acknowledgements_become_visible_together(self) -> None:
        consumer = Collector(self.bench, self.queue)
        self.bench.send(b"in")
        transaction = Transaction()
        transaction.acknowledged.extend(consumer.references)
        self.bench.send(b"out", transaction=transaction)
        self.assertEqual(consumer.bodies, [b"in"])
        self.bench.store.held = True
        before = len(self.bench.store.log)
        self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.bench.turn()
        self.assertEqual([entry[0] for entry in self.bench.store.log[before]], ["message", "ack"])
        self.assertEqual(consumer.bodies, [b"in"])
        self.bench.store.sync()
        self.bench.turn()
        self.assertEqual(consumer.bodies, [b"in", b"out"])

    def test_rollback_undoes_sends_and_gives_back(self) -> None:
        consumer = Collector(self.bench, self.queue, room=1)
        self.bench.send(b"in")
        transaction = Transaction()
        transaction.acknowledged.extend(consumer.references)
        self.bench.send(b"out", transaction=transaction)
        self.bench.messaging.settlement.rollback(transaction)
        consumer.references = []
        consumer.give_room(9)
        self.assertEqual(consumer.bodies, [b"in"])
        self.assertEqual(consumer.references[0].delivery_count, 2)
        self.assertEqual(self.bench.core.global_memory.messages, 1)

    def test_a_commit_of_a_failed_transaction_raises_its_cause(self) -> None:
        transaction = Transaction()
        self.bench.send(b"out", transaction=transaction)
        transaction.mark_rollback_only(AddressFullError("full"))
        with self.assertRaises(AddressFullError):
            self.bench.messaging.settlement.commit(transaction, self.bench.context)
        self.assertEqual(self.queue.message_count, 0)
