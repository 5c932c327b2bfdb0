"""Rows that go in large numbers: what a mark hides at once, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from unittest import TestCase, mock

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.ports import BranchRecord, BranchState
from mqbroker.process.sqlite import SqliteConnection
from mqbroker.storage.errors import OwnerChangedError
from mqbroker.storage.sql import removals
from mqbroker.storage.sql.database import Connection, Row, transaction
from mqbroker.storage.sql.work import BODY_PIECES, body_removals
from mqclient.wire.message import CoreMessage
from mqclient.wire.primitives import Xid
from tests.unit.storage.sql.paged import PagedTestCase, body_of
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import make_message


def large_message(rig: SqlRig) -> Message:
    body = rig.store.create_large_body(rig.store.next_id())
    body.append(b"x" * 600)
    body.complete()
    return Message.of(CoreMessage(address="a", message_id=rig.store.next_id(), durable=True), body)


class RemovalTests(PagedTestCase, TestCase):
    def setUp(self) -> None:
        for name, value in (("PIECE_ROWS", 4), ("PIECE_BYTES", 600)):
            patch = mock.patch.object(removals, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        super().setUp()

    def purge(self) -> int:
        batch = self.rig.store.begin()
        messages = batch.acknowledge_unread(self.reader)
        self.rig.store.commit(batch)
        return messages

    def count(self, table: str = "reference") -> int:
        [(number,)] = self.rig.ask(f"SELECT COUNT(*) FROM mqbroker_{table}")
        assert isinstance(number, int)
        return number

    def step(self) -> None:
        """One transaction."""
        self.rig.clock.run_due()
        self.rig.writer.run_one()

    def crash(self) -> None:
        self.rig.kill()
        self.begin()

    def left(self) -> list[bytes]:
        return [body_of(entry.message) for entry in self.reader.read() or ()]

    def test_a_purge_goes_in_pieces_and_other_work_between_them(self) -> None:
        self.page(10)
        self.assertEqual(self.purge(), 10)
        self.assertEqual(self.left(), [])
        self.step()
        self.assertEqual((self.count(), self.count("message")), (6, 6))
        batch = self.rig.store.begin()
        batch.add_message(make_message(self.rig.store), [77])
        ticket = self.rig.store.commit(batch)
        self.step()
        self.assertLess(self.rig.store.synced, ticket)
        self.step()
        self.assertEqual((self.rig.store.synced, self.count()), (ticket, 1))
        self.rig.settle()
        self.assertEqual((self.count("message"), self.count("removal")), (1, 0))
        self.assertEqual(self.rig.writer.waiting, 0)

    def test_what_was_purged_does_not_come_back_after_a_crash_in_between(self) -> None:
        self.page(10)
        self.purge()
        self.step()
        self.page_later()
        self.assertEqual(self.count(), 7)
        self.crash()
        self.assertEqual(self.folder.remaining(self.queue_id), 1)
        self.assertEqual(self.left(), [self.bodies[-1]])
        self.rig.settle()
        self.assertEqual((self.count(), self.count("message"), self.count("removal")), (1, 1, 0))

    def test_what_was_purged_twice_counts_once(self) -> None:
        """Once a start before the end of both counted the rest of the first purge twice, and did not read a message after them."""
        self.page(20)
        self.purge()
        self.step()
        self.crash()
        self.page_later()
        with mock.patch.object(removals, "PIECE_ROWS", 0):
            self.assertEqual(self.purge(), 1)
            self.step()
        self.page_later()
        self.assertEqual(self.count("removal"), 2)
        self.crash()
        self.assertEqual(self.folder.remaining(self.queue_id), 1)
        self.assertEqual(self.left(), [self.bodies[-1]])

    def page_later(self) -> None:
        """One more message for the pages; only the next transaction happens, with a piece of nothing."""
        with mock.patch.object(removals, "PIECE_ROWS", 0):
            message = make_message(self.rig.store, body=b"later")
            batch = self.rig.store.begin()
            batch.add_paged(self.folder, message, (self.queue_id,), (self.queue_id,), 1000)
            self.rig.store.commit(batch)
            self.bodies.append(b"later")
            self.step()
            self.step()

    def test_messages_taken_early_are_kept_by_a_purge_and_after_a_crash(self) -> None:
        self.page(7)
        looked = [entry.message for entry in self.reader.look().read() or ()]
        for number in (0, 3, 4, 6):
            self.reader.take(looked[number])
        self.assertEqual(self.purge(), 3)
        self.step()
        self.crash()
        self.assertEqual(self.left(), [self.bodies[number] for number in (0, 3, 4, 6)])
        self.rig.settle()
        self.assertEqual((self.count(), self.count("removal")), (4, 0))

    def test_a_queue_that_ends_leaves_what_others_have(self) -> None:
        store = self.rig.store
        other = self.rig.queue("other")
        for number in range(9):
            batch = store.begin()
            both = (self.queue_id, other)
            batch.add_paged(self.folder, make_message(store, body=b"%d" % number), both, both, 1000)
            store.commit(batch)
        self.page(2)
        self.folder.forget(self.queue_id)
        batch = store.begin()
        batch.delete_queue(self.queue_id)
        store.commit(batch)
        self.step()
        self.crash()
        self.assertEqual(list(self.folder.queue_ids()), [other])
        self.reader = self.folder.reader(other)
        self.assertEqual(self.left(), [b"%d" % number for number in range(9)])
        self.rig.settle()
        self.assertEqual((self.count(), self.count("message"), self.count("removal")), (9, 9, 0))

    def test_what_does_not_survive_goes_after_the_start(self) -> None:
        store = self.rig.store
        other = self.rig.queue("other")
        for _ in range(5):
            batch = store.begin()
            batch.add_paged(self.folder, make_message(store), (self.queue_id, other), (), 1000)
            store.commit(batch)
        self.page(1)
        self.restart()
        self.assertEqual((self.folder.messages, self.left()), (1, [self.bodies[-1]]))
        self.page(1, durable=False)
        self.assertEqual(self.left(), [self.bodies[-1]])
        self.assertEqual((self.count(), self.count("message"), self.count("removal")), (2, 2, 0))

    def test_a_start_that_has_lost_the_data_meanwhile_marks_nothing(self) -> None:
        """The former owner stood still before, and the next one had removed everything by then: the mark stayed until a later start."""
        self.page(1, durable=False)
        self.rig.stop()
        late = SqlRig(self.addCleanup, 2, database=self.rig.database)
        late.make().open()

        def stand_still(connection: Connection) -> AbstractContextManager[None]:
            patch.stop()
            self.rig.start()
            self.rig.settle()
            self.assertEqual((self.count(), self.count("removal")), (0, 0))
            return transaction(connection)

        patch = mock.patch.object(removals, "transaction", stand_still)
        patch.start()
        with self.assertRaises(OwnerChangedError):
            late.store.load()
        self.assertEqual(self.count("removal"), 0)

    def test_large_bodies_go_a_few_at_a_time(self) -> None:
        store = self.rig.store
        for _ in range(3):
            batch = store.begin()
            batch.add_paged(self.folder, large_message(self.rig), (self.queue_id,), (self.queue_id,), 1000)
            store.commit(batch)
        self.rig.settle()
        self.purge()
        left = []
        for _ in range(3):
            self.step()
            left.append(self.count("body"))
        self.assertEqual(left, [2, 1, 0])

    def test_a_mark_of_a_large_body_is_several_statements(self) -> None:
        self.assertEqual(body_removals(1, 2, 0), [])
        whole = 256 * 1024 * BODY_PIECES
        self.assertEqual(body_removals(1, 2, whole + 1), [(1, 2, 0, BODY_PIECES), (1, 2, BODY_PIECES, 2 * BODY_PIECES)])


class PlanTests(PagedTestCase, TestCase):
    """No statement of a running broker looks at all rows of a session: it would take the longer the more another queue holds."""

    def test_no_statement_scans(self) -> None:
        for statement, detail in self.plans(self.work, more_than=20):
            with self.subTest(statement=statement):
                self.assertFalse(self.scans(detail), detail)

    def test_a_start_looks_at_no_messages_but_those_that_come_into_memory(self) -> None:
        self.page(3, durable=False)
        self.page(3)
        for statement, detail in self.plans(self.rig.restart, more_than=15):
            if detail.split()[1:2] in (["mqbroker_message"], ["m"]):
                with self.subTest(statement=statement):
                    self.assertTrue(not self.scans(detail) or "mqbroker_message_branch" in detail, detail)

    def plans(self, work: Callable[[], object], more_than: int) -> Iterator[tuple[str, str]]:
        """The statements that ``work`` causes, each with the parts of its plan."""
        seen: set[str] = set()
        run, run_many, rows = SqliteConnection.run, SqliteConnection.run_many, SqliteConnection.rows

        def seen_run(own: SqliteConnection, statement: str, parameters: Sequence[object] = ()) -> int:
            seen.add(statement)
            return run(own, statement, parameters)

        def seen_run_many(own: SqliteConnection, statement: str, parameters: Iterable[Sequence[object]]) -> None:
            seen.add(statement)
            run_many(own, statement, parameters)

        def seen_rows(own: SqliteConnection, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
            seen.add(statement)
            return rows(own, statement, parameters)

        with mock.patch.multiple(SqliteConnection, run=seen_run, run_many=seen_run_many, rows=seen_rows):
            work()
        self.assertGreater(len(seen), more_than)
        connection = self.rig.database.connect()
        self.addCleanup(connection.close)
        for statement in seen:
            for *_, detail in connection.rows(f"EXPLAIN QUERY PLAN {statement}", [None] * statement.count("?")):
                yield statement, detail

    @staticmethod
    def scans(detail: str) -> bool:
        """Are all rows of a session looked at?"""
        if not detail.startswith(("SCAN", "SEARCH")) or detail.split()[1] in ("mqbroker_ids", "mqbroker_removal"):
            return False
        return detail.startswith("SCAN") or detail.endswith("(session=?)")

    def work(self) -> None:
        rig, queue_id = self.rig, self.queue_id
        self.page(6)
        for entry in self.reader.read() or ():
            batch = rig.store.begin()
            batch.delivery_count(queue_id, entry.message, 2)
            batch.acknowledge(queue_id, entry.message)
            rig.store.commit(batch)
        self.page(2)
        for pass_them in (lambda batch: batch.acknowledge_until(self.reader, 1 << 60), lambda batch: batch.acknowledge_unread(self.reader)):
            self.page(2)
            batch = rig.store.begin()
            pass_them(batch)
            rig.store.commit(batch)
        for commit in (False, True):
            branch_id = rig.store.next_id()
            batch = rig.store.begin()
            batch.put_branch(BranchRecord(branch_id, Xid(1, b"a", b"b"), BranchState.PREPARED, 0))
            message = large_message(rig)
            batch.add_prepared(branch_id, message, [queue_id])
            rig.store.commit(batch)
            batch = rig.store.begin()
            batch.end_branch(branch_id, commit)
            rig.store.commit(batch)
            rig.settle()
        batch = rig.store.begin()
        batch.acknowledge(queue_id, message)
        rig.store.commit(batch)
        self.folder.forget(queue_id)
        batch = rig.store.begin()
        batch.delete_queue(queue_id)
        rig.store.commit(batch)
        rig.settle()


class SharedBodyTests(TestCase):
    """The body of a branch that is rolled back stays while another message has it."""

    def test_a_shared_body(self) -> None:
        rig = SqlRig(self.addCleanup)
        rig.start()
        store = rig.store
        message = large_message(rig)
        batch = store.begin()
        batch.put_branch(BranchRecord(5, Xid(1, b"a", b"b"), BranchState.PREPARED, 0))
        batch.add_prepared(5, message, [1])
        batch.add_message(Message.of(CoreMessage(address="a", message_id=store.next_id(), durable=True), message.large), [1])
        store.commit(batch)
        rig.settle()
        batch = store.begin()
        batch.end_branch(5, False)
        store.commit(batch)
        rig.settle()
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_body"), [(1,)])
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])
