"""The store in a database: transactions, breaks, ids."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.errors import StorageError
from mqbroker.storage.sql import sqlstore
from mqbroker.storage.sql.database import DatabaseAwayError
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import make_message


class SqlStoreTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.rig.start()

    def commit(self) -> int:
        batch = self.rig.store.begin()
        batch.add_message(make_message(self.rig.store), [1])
        return self.rig.store.commit(batch)

    def batches(self) -> object:
        return self.rig.ask("SELECT batch FROM mqbroker_session")[0][0]

    def test_what_gathers_while_a_transaction_runs_is_the_next_one(self) -> None:
        self.commit()
        self.rig.store.flush()
        tickets = [self.commit() for _ in range(10)]
        self.rig.store.flush()
        self.assertEqual(self.rig.writer.waiting, 1)
        self.rig.settle()
        self.assertEqual((self.rig.store.synced, self.batches()), (tickets[-1], 2))

    def test_durable_work_waits_while_the_database_is_away(self) -> None:
        rig = SqlRig(self.addCleanup, chance=1.0)
        rig.start()
        batch = rig.store.begin()
        batch.add_message(make_message(rig.store), [1])
        ticket = rig.store.commit(batch)
        told: list[str] = []
        rig.store.when_synced(0, told.append, "needs no durability")
        rig.store.when_synced(ticket, told.append, "durable")
        for _ in range(5):
            rig.clock.advance(sqlstore.PAUSE)
            rig.writer.run()
        self.assertEqual((told, rig.failures), (["needs no durability"], []))
        rig.breaking.calm = True
        rig.settle()
        self.assertEqual(told, ["needs no durability", "durable"])
        rig.stop()

    def test_a_commit_whose_answer_was_lost_is_not_written_again(self) -> None:
        rig = SqlRig(self.addCleanup, chance=1e-9)
        rig.start()
        batch = rig.store.begin()
        batch.add_message(make_message(rig.store), [1])
        ticket = rig.store.commit(batch)
        lost = iter([False, False, False, False, False, True])  # begin, fence, two kinds of rows, commit; then its answer
        rig.breaking.happens = lambda: next(lost, False)  # type: ignore[method-assign]
        rig.settle()
        self.assertEqual((rig.store.synced, rig.failures), (ticket, []))
        self.assertIsNone(next(lost, None))
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])
        rig.stop()

    def test_a_refusal_ends_the_store(self) -> None:
        connection = self.rig.database.connect()
        connection.run("DROP TABLE mqbroker_reference")
        connection.close()
        ticket = self.commit()
        self.rig.settle()
        self.assertTrue(self.rig.store.failed)
        self.assertEqual(len(self.rig.failures), 1)
        self.assertGreater(ticket, self.rig.store.synced)

    def test_a_second_process_of_the_instance_is_refused(self) -> None:
        other = SqlRig(self.addCleanup)
        other.database, other.disk = self.rig.database, self.rig.disk
        store = other.make()
        with self.assertRaisesRegex(StorageError, "another broker uses this folder"):
            store.open()
        self.commit()
        self.rig.settle()
        self.assertEqual(self.rig.failures, [])

    def test_a_start_without_the_database_fails_and_frees_the_folder(self) -> None:
        self.rig.stop()
        database = self.rig.database

        class Away:
            name, binary, number = "away", "BLOB", "INTEGER"

            def connect(self) -> object:
                raise DatabaseAwayError("nobody answers")

        self.rig.database = Away()  # type: ignore[assignment]
        with self.assertRaisesRegex(StorageError, "nobody answers"):
            self.rig.make().open()
        self.rig.database = database
        self.rig.start()

    def test_ids_of_two_starts_never_meet_and_blocks_are_drawn_ahead(self) -> None:
        block = sqlstore.ID_BLOCK
        sqlstore.ID_BLOCK = 16
        self.addCleanup(setattr, sqlstore, "ID_BLOCK", block)
        rig = SqlRig(self.addCleanup)
        rig.start()
        first = [rig.store.next_id() for _ in range(10)]
        rig.settle()
        first += [rig.store.next_id() for _ in range(40)]  # more than what was drawn ahead
        rig.settle()
        rig.restart()
        second = [rig.store.next_id() for _ in range(20)]
        self.assertEqual([*first, *second], sorted({*first, *second}))

    def test_the_node_id_stays(self) -> None:
        node_id = self.rig.store.node_id
        self.rig.restart()
        self.assertEqual(self.rig.store.node_id, node_id)
