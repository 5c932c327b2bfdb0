"""The store contract, held by every store."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import TestCase

from mqbroker.messaging.ports import AddressRecord, QueueRecord, Store
from mqbroker.storage.memorystore import MemoryStore
from tests.support.diskwriter import SimulatedDiskWriter
from tests.unit.storage.support import LARGE, Rig, make_message


class StoreContract:
    """Tests for one implementation: ``self.store``, and ``self.settle`` which lets its writes end."""

    store: Store
    settle: Callable[[], object]
    assertEqual: Any
    assertGreater: Any
    assertFalse: Any

    def commit_message(self, body: bytes = b"body") -> int:
        batch = self.store.begin()
        batch.add_message(make_message(self.store, body), [1])
        return self.store.commit(batch)

    def test_ids_ascend(self) -> None:
        ids = [self.store.next_id() for _ in range(100)]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertGreater(ids[0], 0)

    def test_tickets_ascend_and_are_reached(self) -> None:
        tickets = [self.commit_message() for _ in range(3)]
        self.assertEqual(tickets, sorted(set(tickets)))
        self.assertEqual(self.store.ticket(), tickets[-1])
        self.settle()
        self.assertEqual(self.store.synced, tickets[-1])
        self.assertFalse(self.store.failed)

    def test_work_counts_as_durable_when_the_last_condition_holds(self) -> None:
        before = self.commit_message()
        condition = self.store.demand("a second place")
        ticket = self.commit_message()
        called: list[str] = []
        self.store.when_synced(before, called.append, "handed over before")
        self.store.when_synced(ticket, called.append, "needs both")
        self.settle()
        self.assertEqual((called, self.store.synced), (["handed over before"], before))
        condition.hold(ticket)
        self.assertEqual((called[1:], self.store.synced), (["needs both"], ticket))

    def test_a_condition_that_is_withdrawn_holds_up_nobody(self) -> None:
        condition = self.store.demand("a second place")
        ticket = self.commit_message()
        called: list[int] = []
        self.store.when_synced(ticket, called.append, 1)
        self.settle()
        self.assertEqual(called, [])
        condition.withdraw()
        self.assertEqual((called, self.store.synced), ([1], ticket))

    def test_an_empty_batch_waits_for_what_was_before(self) -> None:
        ticket = self.commit_message()
        self.assertEqual(self.store.commit(self.store.begin()), ticket)

    def test_waiters_are_called_in_order(self) -> None:
        """Whatever their tickets: the order of the calls to when_synced counts."""
        first, second = self.commit_message(), self.commit_message()
        called: list[str] = []
        self.store.when_synced(second, called.append, "second")
        self.store.when_synced(first, called.append, "first")
        self.store.when_synced(0, called.append, "nothing to wait for")
        self.settle()
        self.assertEqual(called, ["second", "first", "nothing to wait for"])

    def test_a_reached_ticket_calls_at_once(self) -> None:
        ticket = self.commit_message()
        self.settle()
        called: list[int] = []
        self.store.when_synced(ticket, called.append, 1)
        self.assertEqual(called, [1])

    def test_every_kind_of_work_can_be_handed_over(self) -> None:
        store = self.store
        message = make_message(store)
        batch = store.begin()
        batch.put_address(AddressRecord(1, "a", frozenset({0, 1})))
        batch.put_queue(QueueRecord(2, "q", "a", 1))
        batch.put_setting("kind", "key", "{}")
        batch.add_message(message, [2])
        batch.delivery_count(2, message, 3)
        batch.schedule(2, message, 1000)
        batch.add_duplicate_id("a", b"id", store.next_id())
        store.commit(batch)
        batch = store.begin()
        batch.acknowledge(2, message)
        batch.delete_duplicate_id(4)
        batch.delete_setting("kind", "key")
        batch.delete_queue(2)
        batch.delete_address(1)
        ticket = store.commit(batch)
        self.settle()
        self.assertEqual(store.synced, ticket)

    def test_a_large_body_is_read_as_it_was_written(self) -> None:
        body = self.store.create_large_body(self.store.next_id())
        chunks = [bytes([number]) * 1000 for number in range(20)]
        for chunk in chunks[:10]:
            body.append(chunk)
        self.assertEqual(body.read(500, 1000), chunks[0][500:] + chunks[1][:500])
        self.settle()
        for chunk in chunks[10:]:
            body.append(chunk)
        body.complete()
        whole = b"".join(chunks)
        for _ in range(2):
            self.assertEqual(body.size, len(whole))
            self.assertEqual(body.read(0, len(whole) + 10), whole)
            self.assertEqual(body.read(9990, 20), whole[9990:10010])
            self.assertEqual(body.read(len(whole), 1), b"")
            self.settle()


class FileStoreContractTests(StoreContract, TestCase):
    def setUp(self) -> None:
        rig = Rig()
        rig.start()
        self.store = rig.store
        self.settle = rig.settle


class UnsyncedFileStoreContractTests(StoreContract, TestCase):
    def setUp(self) -> None:
        rig = Rig(journal_datasync=False, large_message_sync=False)
        rig.start()
        self.store = rig.store
        self.settle = rig.settle


class MemoryStoreContractTests(StoreContract, TestCase):
    def setUp(self) -> None:
        self.store = MemoryStore(os.urandom)
        self.settle = lambda: None


class MemoryStoreWithFilesContractTests(StoreContract, TestCase):
    def setUp(self) -> None:
        rig = Rig()
        writer = SimulatedDiskWriter()
        self.store = MemoryStore(os.urandom, (rig.disk, LARGE, writer))
        self.settle = writer.run
