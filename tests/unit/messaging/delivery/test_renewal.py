"""Caches whose size changes while they are in use."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.delivery.transaction import Transaction
from mqclient.errors import DuplicateIdRejectedError
from mqclient.wire.message import KEY_DUPLICATE_ID
from mqclient.wire.properties import STRING, TypedValue
from tests.unit.messaging.support import Bench


class DuplicateCacheTests(SynchronousTestCase):
    def test_an_id_that_became_known_while_the_transaction_was_open_makes_its_commit_fail(self) -> None:
        bench = Bench()
        queue = bench.queue("q")
        transaction = Transaction()
        properties: dict[str, TypedValue] = {KEY_DUPLICATE_ID: (STRING, "one")}
        bench.send(b"x", transaction=transaction, properties=properties)
        bench.send(b"x", properties=properties)
        with self.assertRaises(DuplicateIdRejectedError):
            bench.messaging.settlement.commit(transaction, bench.context)
        self.assertEqual(queue.message_count, 1)

    def test_ids_of_a_qualified_name_go_with_its_queue(self) -> None:
        bench = Bench()
        properties: dict[str, TypedValue] = {KEY_DUPLICATE_ID: (STRING, "one")}
        for _ in range(2):
            queue = bench.queue("x", "q")
            message = bench.message(b"x", properties=properties)
            bench.messaging.sending.send(message, "q", "x", 1, bench.context)
            self.assertEqual(queue.message_count, 1)
            bench.messaging.administration.delete_queue(queue)
