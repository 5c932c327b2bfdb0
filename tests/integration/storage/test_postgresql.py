"""The store contract on a real PostgreSQL, which is stopped and killed under it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar
from unittest import TestCase

from mqbroker.ha.shared_store.place import Found
from mqbroker.process.postgresql import PostgresqlDatabase
from mqbroker.storage.disk.nodelock import STATE_ACTIVE
from mqbroker.storage.errors import FencedError
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import Connection, Database, DatabaseAwayError, DatabaseError, transaction
from mqbroker.storage.sql.sqlstore import PAUSE
from tests.support.postgresql import PostgresqlServer, common_server
from tests.unit.ha.shared_store.places import EXPIRATION, NODE, RowPlaces, opened
from tests.unit.storage import test_contract
from tests.unit.storage.heirs import Family
from tests.unit.storage.model import Walk
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.sql.taken import switch
from tests.unit.storage.support import make_message


class _WithServer:
    server: ClassVar[PostgresqlServer]

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = common_server()


class PostgresqlStoreContractTests(_WithServer, test_contract.SqlStoreContractTests):
    def new_rig(self) -> SqlRig:
        return SqlRig(self.addCleanup, database=self.server.database_with_tables())


class PostgresqlTextTests(_WithServer, TestCase):
    def test_texts_come_back_from_a_database_with_another_encoding(self) -> None:
        connection = self.server.database(encoding="LATIN1").connect()
        self.addCleanup(connection.close)
        self.assertEqual(connection.rows("SELECT CAST(? AS TEXT), 'é' = ?", ("größe", "é")), [("größe", True)])

    def test_after_a_text_that_cannot_be_stored_the_connection_goes_on(self) -> None:
        connection = self.server.database().connect()
        self.addCleanup(connection.close)
        for wrong in ("a\0b", "\ud800", 1 << 63, 1.5):
            with self.assertRaises(DatabaseError), transaction(connection):
                connection.run_many("SELECT ?", [(1,), (wrong,)])
        with transaction(connection):
            self.assertEqual(connection.rows("SELECT ?", (2,)), [(2,)])


class PostgresqlLeaseTests(_WithServer, TestCase):
    """Brokers that share a database."""

    def setUp(self) -> None:
        self.world = RowPlaces(self.addCleanup, self.server.database())
        self.world.put(STATE_ACTIVE)

    def test_a_lease_ends_by_the_time_of_the_server(self) -> None:
        self.world.hold()
        backup = opened(self.world)
        self.assertIs(backup.take_as_backup(), Found.HELD)
        self.world.end_processes()
        self.assertIs(backup.take_as_backup(), Found.TAKEN)
        holder, rest = self.world.lease()
        self.assertTrue(holder)
        self.assertTrue(0 < rest <= EXPIRATION * 1000, rest)
        backup.release()
        self.assertEqual(self.world.lease()[0], "")

    def test_the_transaction_of_a_former_owner_that_stands_still_is_ended(self) -> None:
        owner = session.take(self.world.connection, NODE, "former")
        frozen = self.server.database_again(self.world.database, 600_000).connect()
        self.addCleanup(frozen.close)
        frozen.begin()
        owner.write(frozen, 1)
        self.world.database = self.server.database_again(self.world.database, 1000)
        backup = opened(self.world)
        self.assertIs(backup.take_as_backup(), Found.HELD)
        self.assertIs(backup.take_as_backup(), Found.TAKEN)
        with self.assertRaises(DatabaseAwayError):
            frozen.commit()
        backup.release()


class PostgresqlWalks(_WithServer, TestCase):
    """Random work with crashes of the broker, and with connections that break."""

    def new_rig(self) -> SqlRig:
        return SqlRig(self.addCleanup, database=self.server.database_with_tables())

    def test_walks(self) -> None:
        for seed in range(5):
            with self.subTest(seed=seed):
                rig = SqlRig(self.addCleanup, seed, late=True, chance=0.02 * (seed % 2), database=self.server.database_with_tables())
                Walk(rig, rig.kill, seed).run(60)

    def test_the_server_is_killed_and_starts_again(self) -> None:
        rig = self.new_rig()
        rig.start()
        tickets = []
        for stop in ("fast", "immediate"):
            for _ in range(3):
                batch = rig.store.begin()
                batch.add_message(make_message(rig.store), [1])
                tickets.append(rig.store.commit(batch))
            self.server.stop(stop)
            rig.store.flush()
            rig.writer.run()
            self.assertGreater(tickets[-1], rig.store.synced)
            self.server.start()
            rig.settle()
            self.assertEqual((rig.store.synced, rig.failures), (tickets[-1], []))
        self.assertEqual(rig.ask("SELECT COUNT(*) FROM mqbroker_message"), [(6,)])

    def test_a_statement_that_needs_more_than_the_time_limit_is_done_in_the_end(self) -> None:
        """Once taken for a database that is away, and tried again for ever with the same limit."""
        database = self.server.database_again(self.server.database_with_tables(), timeout=1000)
        rig = SqlRig(self.addCleanup, database=database)
        rig.start()
        connection = rig.database.connect()
        self.addCleanup(connection.close)
        connection.run("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.2); RETURN NULL; END'")
        connection.run("CREATE TRIGGER slow AFTER INSERT ON mqbroker_message FOR EACH STATEMENT EXECUTE FUNCTION slow()")
        batch = rig.store.begin()
        batch.add_message(make_message(rig.store), [1])
        ticket = rig.store.commit(batch)
        for _ in range(5):
            rig.clock.advance(PAUSE)
            rig.writer.run()
        self.assertEqual((rig.store.synced, rig.failures), (ticket, []))
        self.assertEqual(rig.store._connections.write(lambda own: own.rows("SHOW statement_timeout")), [("1s",)])

    def test_a_plan_from_the_time_of_empty_tables_does_not_read_full_ones(self) -> None:
        """Once an acknowledgement took the longer the more there was, until the database had counted its rows anew."""
        rig = self.new_rig()
        rig.start()
        connection = rig.database.connect()
        self.addCleanup(connection.close)
        self.alone(connection)  # making an index is a scan of its table, too
        for name in ("message", "reference"):
            connection.run(f"VACUUM ANALYZE mqbroker_{name}")
        self.acknowledge(rig)
        number = rig.store._session.number
        connection.run(
            "INSERT INTO mqbroker_reference (session, queue, place, folder, paged, durable, deliveries, due) "
            f"SELECT {number}, 7, n, 'a', 1, 1, 0, -1 FROM generate_series(1, 100000) n"
        )
        counted = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'mqbroker_reference'"
        before = connection.rows(counted)
        self.acknowledge(rig)
        rig.stop()
        self.alone(connection)
        self.assertEqual(connection.rows(counted), before)

    def alone(self, connection: Connection) -> None:
        """Until the store has no connection any more: each tells its figures when it ends."""
        until = time.monotonic() + 20
        others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while connection.rows(others):
            self.assertLess(time.monotonic(), until, "the store has kept a connection")

    def test_the_server_starts_again_while_a_backup_waits(self) -> None:
        rig = self.new_rig()
        rig.make().open()
        self.server.stop("fast")
        self.server.start()
        rig.store.load()

    @staticmethod
    def acknowledge(rig: SqlRig) -> None:
        """Often enough for plans that are kept."""
        for _ in range(10):
            message = make_message(rig.store)
            batch = rig.store.begin()
            batch.add_message(message, [1, 2])
            rig.store.commit(batch)
            for queue_id in (1, 2):
                batch = rig.store.begin()
                batch.acknowledge(queue_id, message)
                rig.store.commit(batch)
                rig.settle()

    def test_several_brokers_start_on_the_same_empty_database(self) -> None:
        for _ in range(3):
            database = self.server.database()
            connection = database.connect()
            self.addCleanup(connection.close)
            barrier = threading.Barrier(5)

            def open_store(number: int, database: Database = database, barrier: threading.Barrier = barrier) -> str:
                rig = SqlRig(self.addCleanup, number, database=database)
                store = rig.make()
                barrier.wait(30)
                store.open()
                return store.node_id

            with ThreadPoolExecutor(5) as pool:
                found = list(pool.map(open_store, range(5)))
            self.assertEqual(len(set(found)), 1)
            self.assertEqual(connection.rows("SELECT node_id FROM mqbroker_session"), [(found[0],)])
            self.assertEqual(connection.rows("SELECT COUNT(*) FROM mqbroker_version"), [(1,)])

    def test_a_broker_that_stands_still_in_a_transaction_holds_up_its_successor_for_a_while(self) -> None:
        database = self.server.database()
        former = SqlRig(self.addCleanup, database=database)
        former.start()
        stuck = database.connect()
        self.addCleanup(stuck.close)
        stuck.begin()
        former.store._session.write(stuck, 1)
        stuck.run("SET idle_in_transaction_session_timeout = 1000")  # not before: its statements may come slowly; now it stands still
        successor = SqlRig(self.addCleanup, database=database)
        successor.start()
        batch = former.store.begin()
        batch.add_message(make_message(former.store), [1])
        former.store.commit(batch)
        former.settle()
        self.assertTrue(former.store.failed)
        self.assertIn("another owner", former.failures[0])


class PostgresqlFamilyWalks(_WithServer, TestCase):
    """Several brokers on one database, which take over each other's data."""

    def test_walks(self) -> None:
        takeovers = 0
        for seed in range(2):
            with self.subTest(seed=seed):
                database, chance = self.server.database_with_tables(), 0.01 * (seed % 2)

                def make(broker_id: str, number: int, database: PostgresqlDatabase = database, chance: float = chance) -> SqlRig:
                    return SqlRig(self.addCleanup, number, late=True, chance=chance, database=database, broker_id=broker_id)

                takeovers += Family(make, seed).run(100)
        self.assertGreater(takeovers, 4)


class PostgresqlSwitchTests(_WithServer, TestCase):
    """A takeover and a transaction of the target meet."""

    def setUp(self) -> None:
        self.database = self.server.database(timeout=5000)
        self.target = SqlRig(self.addCleanup, 1, database=self.database, broker_id="b1")
        self.taker = SqlRig(self.addCleanup, 2, database=self.database, broker_id="b2")
        for rig in (self.target, self.taker):
            rig.start()
            rig.settle()
        self.writing = self.database.connect()
        self.addCleanup(self.writing.close)

    def add(self) -> None:
        """The target is in the middle of a transaction."""
        self.writing.begin()
        self.target.store._session.write(self.writing, 1000)
        number = self.target.store._session.number
        self.writing.run("INSERT INTO mqbroker_setting (session, kind, name, value) VALUES (?, 'kind', 'name', '1')", (number,))

    def switch(self) -> tuple[threading.Thread, list[object]]:
        taken: list[object] = []
        thread = threading.Thread(target=lambda: taken.append(switch(self.target, self.taker)))
        thread.start()
        self.addCleanup(thread.join, 30)
        return thread, taken

    def settings(self) -> list[tuple[object, ...]]:
        return self.taker.ask("SELECT value FROM mqbroker_setting")

    def waiting(self) -> None:
        """Until the switch waits for the row."""
        connection = self.database.connect()
        self.addCleanup(connection.close)
        until = time.monotonic() + 20
        while not connection.rows("SELECT 1 FROM pg_locks WHERE NOT granted"):
            self.assertLess(time.monotonic(), until, "the switch does not wait")

    def test_the_switch_waits_for_a_commit_and_nothing_counts_behind_it(self) -> None:
        self.add()
        thread, taken = self.switch()
        self.waiting()
        self.assertEqual(taken, [])
        self.writing.commit()
        thread.join(30)
        self.assertEqual((len(taken), self.settings()), (1, [("1",)]))
        with self.assertRaises(FencedError), transaction(self.writing):
            self.target.store._session.write(self.writing, 1001)

    def test_a_transaction_that_stands_still_is_ended_and_has_written_nothing(self) -> None:
        self.add()
        self.writing.run("SET idle_in_transaction_session_timeout = 300")  # not before: its statements may come slowly
        thread, taken = self.switch()
        thread.join(30)
        self.assertEqual((len(taken), self.settings()), (1, []))
        with self.assertRaises(DatabaseAwayError):
            self.writing.commit()

    def test_a_transaction_that_begins_behind_the_switch_is_refused(self) -> None:
        switching = self.database.connect()
        self.addCleanup(switching.close)
        switching.begin()
        session.switch(switching, "b1", "b2", self.taker.store.owner)
        failed: list[BaseException] = []

        def write() -> None:
            try:
                self.add()
            except FencedError as error:
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        self.waiting()
        switching.commit()
        thread.join(30)
        self.assertEqual(len(failed), 1)
        self.writing.rollback()
        self.assertEqual(self.settings(), [])
