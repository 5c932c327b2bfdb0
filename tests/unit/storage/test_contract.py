"""The store contract, held by every store."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar
from unittest import TestCase, mock

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.message.not_yet import NotYet
from mqbroker.messaging.ports import AddressRecord, QueueRecord, Store
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.messaging.turns.turn import Turn
from mqbroker.storage.errors import StorageError
from mqbroker.storage.memorystore import MemoryStore
from mqclient.wire.message import CoreMessage
from tests.support.clock import FakeClock
from tests.support.diskwriter import SimulatedDiskWriter
from tests.support.late_store import LateStore
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import LARGE, Rig, ids, make_message


class StoreContract:
    """Tests for one implementation.

    ``make`` makes a store that is not opened and tells ``failures`` when it is lost; ``store`` is one that was loaded, and ``settle`` lets
    its writes end.
    """

    make: Callable[[], Store]
    store: Store
    settle: Callable[[], object]
    failures: list[str]
    assertEqual: Any
    assertGreater: Any
    assertTrue: Any
    assertFalse: Any
    assertRaises: Any
    assertIn: Any

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

    def test_a_stall_holds_up_durable_work_alone_and_ends(self) -> None:
        busy, idle = OperationContext(self.store), OperationContext(self.store)
        condition = self.store.demand("a second place")
        called: list[str] = []
        busy.run(self.commit_message(), called.append, "durable")
        busy.run(0, called.append, "behind it")
        idle.run(0, called.append, "needs no durability")
        self.settle()
        self.assertEqual(called, ["needs no durability"])
        busy.run(self.commit_message(), called.append, "handed over meanwhile")
        self.settle()
        condition.hold(self.store.ticket())
        self.assertEqual(called[1:], ["durable", "behind it", "handed over meanwhile"])
        self.assertEqual(self.failures, [])

    def test_a_stop_has_an_end_while_a_condition_holds_for_nothing(self) -> None:
        condition = self.store.demand("a second place")
        told: list[str] = []
        self.store.when_synced(self.commit_message(), told.append, "durable")
        self.store.stop(lambda: told.append("stopped"))
        self.settle()
        condition.withdraw()
        self.assertEqual((told, self.failures), (["stopped"], []))

    def test_nobody_who_waits_is_called_after_the_store_was_left(self) -> None:
        called: list[int] = []
        self.store.demand("a second place")
        self.store.when_synced(self.commit_message(), called.append, 1)
        self.store.abort()
        self.settle()
        self.assertEqual((called, self.failures), ([], []))

    def test_a_fenced_store_tells_once_and_makes_nothing_durable(self) -> None:
        condition = self.store.demand("a second place")
        kept = self.commit_message()
        self.settle()
        called: list[int] = []
        self.store.when_synced(kept, called.append, 1)
        self.store.fence("epoch 2 has begun")
        self.store.fence("epoch 3 has begun")
        self.assertEqual(len(self.failures), 1)
        self.assertIn("epoch 2 has begun", self.failures[0])
        self.assertTrue(self.store.failed)
        refused = self.commit_message()
        durable = self.store.synced
        condition.hold(refused)
        self.assertEqual(self.store.synced, durable)
        self.store.when_synced(refused, called.append, 2)
        self.settle()
        self.assertEqual(called, [])
        self.assertGreater(refused, self.store.synced)

    def test_a_fenced_store_can_be_stopped(self) -> None:
        self.store.fence("epoch 2 has begun")
        stopped: list[bool] = []
        self.store.stop(lambda: stopped.append(True))
        self.settle()
        self.assertEqual(stopped, [True])

    def test_a_store_that_was_fenced_while_it_was_open_is_not_loaded(self) -> None:
        store = self.make()
        store.open()
        store.fence("epoch 2 has begun")
        with self.assertRaises(StorageError):
            store.load()
        self.assertEqual(len(self.failures), 1)

    def test_a_store_is_opened_loaded_and_stopped(self) -> None:
        store = self.make()
        store.open()
        self.assertTrue(store.node_id)
        self.assertEqual(store.load().messages, [])
        store.write_at_end_of(Turn(FakeClock()))
        stopped: list[bool] = []
        store.stop(lambda: stopped.append(True))
        self.settle()
        self.assertEqual((stopped, self.failures), ([True], []))

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
    changes: ClassVar[dict[str, Any]] = {}

    def setUp(self) -> None:
        rig = Rig(**self.changes)
        rig.start()
        self.rig, self.store, self.settle, self.failures = rig, rig.store, rig.settle, rig.failures
        self.other = Rig()
        self.other.failures = self.failures

    def make(self) -> Store:
        self.settle = self.other.settle
        return self.other.make()

    def test_a_fenced_store_leaves_its_files_to_the_next_one(self) -> None:
        queue_id = self.rig.queue()
        kept = self.rig.add(queue_id)
        self.settle()
        self.store.fence("epoch 2 has begun")
        found = dict(self.rig.disk.files())
        self.rig.add(queue_id)
        self.rig.acknowledge(queue_id, kept)
        self.rig.store.flush()
        self.settle()
        self.assertEqual(self.rig.disk.files(), found)
        self.store.abort()
        self.rig.settle()
        self.assertEqual(ids(self.rig.start()), [kept.message_id])


class UnsyncedFileStoreContractTests(FileStoreContractTests):
    changes: ClassVar[dict[str, Any]] = {"journal_datasync": False, "large_message_sync": False}


class LateStoreContractTests(FileStoreContractTests):
    """A store of the tests that answers later, and whose place another one may take."""

    def setUp(self) -> None:
        patch = mock.patch.object(Rig, "store_class", LateStore)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()
        self.store.write_at_end_of(Turn(self.rig.clock))
        self.rig.settle()

    def test_what_was_committed_is_told_later(self) -> None:
        ticket = self.commit_message()
        self.rig.writer.run()
        self.assertGreater(ticket, self.store.synced)
        self.settle()
        self.assertEqual(self.store.synced, ticket)

    def test_a_body_that_a_batch_has_named_is_read_later(self) -> None:
        body = self.store.create_large_body(self.store.next_id())
        body.append(b"x" * 1000)
        body.complete()
        self.assertEqual(body.read(0, 1000), b"x" * 1000)
        batch = self.store.begin()
        batch.add_message(Message.of(CoreMessage(address="a", message_id=self.store.next_id(), durable=True), body), [1])
        self.store.commit(batch)
        came: list[bytes] = []
        with self.assertRaises(NotYet) as caught:
            body.read(0, 1000)
        caught.exception.when_there(lambda: came.append(body.read(0, 1000)))
        self.assertEqual(came, [])
        self.settle()
        self.assertEqual(came, [b"x" * 1000])

    def test_a_store_of_an_older_epoch_is_fenced_by_its_next_commit(self) -> None:
        before = self.commit_message()
        self.settle()
        self.rig.store._epochs.begin()  # type: ignore[attr-defined]
        refused = self.commit_message()
        self.settle()
        self.assertEqual((self.store.synced, len(self.failures)), (before, 1))
        self.assertGreater(refused, before)


class MemoryStoreContractTests(StoreContract, TestCase):
    def setUp(self) -> None:
        self.failures = []
        self.settle = lambda: None
        self.store = self.make()
        self.store.open()
        self.store.load()

    def make(self) -> Store:
        return MemoryStore(os.urandom, on_failure=self.failures.append)


class MemoryStoreWithFilesContractTests(MemoryStoreContractTests):
    def make(self) -> Store:
        writer = SimulatedDiskWriter()
        self.settle = writer.run
        return MemoryStore(os.urandom, (Rig().disk, LARGE, writer), self.failures.append)


class SqlStoreContractTests(StoreContract, TestCase):
    def new_rig(self) -> SqlRig:
        return SqlRig(self.addCleanup)

    def setUp(self) -> None:
        rig = self.new_rig()
        rig.start()
        self.store, self.settle, self.failures = rig.store, rig.settle, rig.failures
        self.rig = rig

    def make(self) -> Store:
        rig = self.new_rig()
        rig.failures = self.failures
        self.settle = rig.settle
        return rig.make()

    def test_a_store_of_an_older_epoch_is_fenced_by_its_next_transaction(self) -> None:
        before = self.commit_message()
        self.settle()
        former, settle = self.store, self.settle
        rig = self.new_rig()
        rig.database = self.rig.database
        rig.start()
        refused = self.commit_message()
        settle()
        self.assertEqual((former.synced, len(self.failures)), (before, 1))
        self.assertIn("another owner", self.failures[0])
        self.assertGreater(refused, before)
        rig.stop()
