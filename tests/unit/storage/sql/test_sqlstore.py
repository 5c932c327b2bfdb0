"""The store in a database: transactions, breaks, ids."""

from __future__ import annotations

from unittest import TestCase, mock

from twisted.logger import capturedLogs, formatEvent

from mqbroker.messaging.message.message import Message
from mqbroker.node import life
from mqbroker.storage.errors import StorageError
from mqbroker.storage.sql import sqlstore
from mqbroker.storage.sql.database import Connection, DatabaseAwayError
from mqclient.wire.message import CoreMessage
from tests.unit.storage.sql.support import BreakingConnection, SqlRig
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

    def test_the_log_tells_of_an_outage_once_a_minute_and_of_its_end(self) -> None:
        rig = SqlRig(self.addCleanup, chance=1.0)
        rig.start()
        batch = rig.store.begin()
        batch.add_message(make_message(rig.store), [1])
        rig.store.commit(batch)
        with capturedLogs() as events:
            self.pass_time(rig, 150)
            away = [str(formatEvent(event)) for event in events]
            rig.breaking.calm = True
            rig.settle()
            back = [str(formatEvent(event)) for event in events[len(away) :]]
        self.assertEqual((len(away), [line.endswith("; it is asked again") for line in away]), (3, [True] * 3))
        self.assertEqual(back, [f"the database {rig.database.name} answers again, after 150 s"])
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

    def test_a_commit_that_is_still_under_way_when_it_is_looked_up_is_not_written_again(self) -> None:
        """The connection may break before the database has done the commit: the row of the session shows it once that is over."""
        rig = SqlRig(self.addCleanup, chance=1e-9)
        rig.start()
        batch = rig.store.begin()
        batch.add_message(make_message(rig.store), [1])
        ticket = rig.store.commit(batch)
        begin, commit = BreakingConnection.begin, BreakingConnection.commit
        late: list[BreakingConnection] = []

        def commit_late(connection: BreakingConnection) -> None:
            if late:
                return commit(connection)
            late.append(connection)
            raise DatabaseAwayError("the connection is lost")

        def begin_behind_it(connection: BreakingConnection) -> None:
            if len(late) == 1 and late[0] is not connection:
                late.append(connection)
                commit(late[0])
            begin(connection)

        with (
            mock.patch.object(BreakingConnection, "commit", commit_late),
            mock.patch.object(BreakingConnection, "begin", begin_behind_it),
            mock.patch.object(BreakingConnection, "rollback", lambda connection: None),
            mock.patch.object(BreakingConnection, "close", lambda connection: None),
        ):
            rig.settle()
        self.assertEqual((rig.store.synced, rig.failures, len(late)), (ticket, [], 2))
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])
        rig.stop()

    def test_names_may_be_any_text_that_the_protocol_can_carry(self) -> None:
        """PostgreSQL refuses NUL, and no database takes half of a surrogate pair: neither may end the store."""
        name = "a\0\ud800\\b\u00fc"
        rig = self.rig
        store = rig.store
        queue_id = rig.queue("q", name)
        batch = store.begin()
        batch.put_setting(name, name, name)
        batch.add_duplicate_id(name, b"1", store.next_id())
        message = Message.of(CoreMessage(address=name, message_id=store.next_id(), durable=True))
        batch.add_message(message, [queue_id])
        assert store.pager is not None
        paged = Message.of(CoreMessage(address=name, message_id=store.next_id(), durable=True))
        batch.add_paged(store.pager.folder(name), paged, [queue_id], [queue_id], 1000)
        store.commit(batch)
        rig.settle()
        self.assertEqual(rig.failures, [])
        for table, column in (("message", "folder"), ("reference", "folder"), ("setting", "name"), ("duplicate", "cache")):
            for (kept,) in rig.ask(f"SELECT {column} FROM mqbroker_{table}"):
                self.assertNotIn("\0", str(kept))
        recovered = rig.restart()
        self.assertEqual(recovered.settings, {(name, name): name})
        self.assertEqual([each.cache for each in recovered.duplicate_ids], [name])
        pager = rig.store.pager
        assert pager is not None
        read = pager.folder(name).reader(queue_id).read()
        assert read is not None
        self.assertEqual([entry.message.address for entry in read], [name, name])
        pager.folder(name).forget(queue_id)
        rig.settle()
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(0,)])

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
        with self.assertRaisesRegex(StorageError, "a start needs the database, which does not answer: nobody answers"):
            self.rig.make().open()
        self.rig.database = database
        self.rig.start()

    def test_no_connection_of_the_start_is_left(self) -> None:
        """It would be idle as long as the broker runs, or until the database has ended it."""
        rig = SqlRig(self.addCleanup)
        store = rig.make()
        connect, made = rig.database.connect, []

        def counting() -> Connection:
            made.append(mock.Mock(wraps=connect()))
            return made[-1]

        with mock.patch.object(rig.database, "connect", counting), mock.patch.object(sqlstore, "ID_BLOCK", 16):
            store.open()
            store.load()
            for _ in range(40):
                store.next_id()
        self.assertGreaterEqual(len(made), 3)
        self.assertEqual([each.close.call_count for each in made], [1] * len(made))

    def test_a_stop_waits_for_a_database_that_comes_back(self) -> None:
        rig = SqlRig(self.addCleanup, chance=1.0)
        rig.start()
        batch = rig.store.begin()
        batch.add_message(make_message(rig.store), [1])
        rig.store.commit(batch)
        ends: list[bool] = []
        rig.store.stop(lambda: ends.append(True))
        self.pass_time(rig, sqlstore.STOP_SECONDS - 1)
        self.assertEqual(ends, [])
        rig.breaking.calm = True
        rig.settle()
        self.assertEqual((ends, rig.failures, rig.clock.pending), ([True], [], 0))
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(1,)])

    def test_a_stop_ends_while_the_database_is_away_and_says_what_was_not_written(self) -> None:
        rig = SqlRig(self.addCleanup, chance=1.0)
        rig.start()
        told: list[int] = []
        for _ in range(2):
            batch = rig.store.begin()
            batch.add_message(make_message(rig.store), [1])
            ticket = rig.store.commit(batch)
            rig.store.when_synced(ticket, told.append, ticket)
        ends: list[bool] = []
        rig.store.stop(lambda: ends.append(True))
        self.pass_time(rig, sqlstore.STOP_SECONDS + 1)
        self.assertEqual((ends, told, rig.store.failed, len(rig.failures)), ([True], [], True, 1))
        self.assertIn("2 batches of work were accepted and not written", rig.failures[0])
        self.assertLess(sqlstore.STOP_SECONDS, life.STOP_SECONDS)
        rig.start()

    @staticmethod
    def pass_time(rig: SqlRig, seconds: float) -> None:
        for _ in range(int(seconds / sqlstore.PAUSE)):
            rig.clock.advance(sqlstore.PAUSE)
            rig.writer.run()

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

    def test_ids_that_are_used_up_while_the_database_is_away_come_with_it(self) -> None:
        with mock.patch.object(sqlstore, "ID_BLOCK", 16):
            rig = SqlRig(self.addCleanup, chance=1.0)
            rig.start()
            with self.assertRaises(DatabaseAwayError):
                for _ in range(40):
                    rig.store.next_id()
            rig.breaking.calm = True
            rig.store.next_id()

    def test_the_node_id_stays(self) -> None:
        node_id = self.rig.store.node_id
        self.rig.restart()
        self.assertEqual(self.rig.store.node_id, node_id)
