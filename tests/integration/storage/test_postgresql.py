"""The store contract on a real PostgreSQL, which is stopped and killed under it."""

from __future__ import annotations

from typing import ClassVar
from unittest import TestCase

from mqbroker.ha.shared_store.place import Found
from mqbroker.storage.disk.nodelock import STATE_ACTIVE
from mqbroker.storage.sql import session
from mqbroker.storage.sql.database import DatabaseAwayError
from tests.support.postgresql import PostgresqlServer, refuse_without
from tests.unit.ha.shared_store.places import EXPIRATION, NODE, RowPlaces, opened
from tests.unit.storage import test_contract
from tests.unit.storage.model import Walk
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import make_message


class _WithServer:
    server: ClassVar[PostgresqlServer]

    @classmethod
    def setUpClass(cls) -> None:
        refuse_without()
        cls.server = PostgresqlServer()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()


class PostgresqlStoreContractTests(_WithServer, test_contract.SqlStoreContractTests):
    def new_rig(self) -> SqlRig:
        return SqlRig(self.addCleanup, database=self.server.database())


class PostgresqlLeaseTests(_WithServer, TestCase):
    """Brokers that share a database."""

    def setUp(self) -> None:
        self.world = RowPlaces(self.addCleanup, self.server.database(timeout=300))
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
        backup = opened(self.world)
        self.assertIs(backup.take_as_backup(), Found.HELD)
        self.assertIs(backup.take_as_backup(), Found.TAKEN)
        with self.assertRaises(DatabaseAwayError):
            frozen.commit()
        backup.release()


class PostgresqlWalks(_WithServer, TestCase):
    """Random work with crashes of the broker, and with connections that break."""

    def new_rig(self) -> SqlRig:
        return SqlRig(self.addCleanup, database=self.server.database())

    def test_walks(self) -> None:
        for seed in range(8):
            with self.subTest(seed=seed):
                rig = SqlRig(self.addCleanup, seed, late=True, chance=0.02 * (seed % 2), database=self.server.database())
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

    def test_a_broker_that_stands_still_in_a_transaction_holds_up_its_successor_for_a_while(self) -> None:
        database = self.server.database(timeout=500)
        former = SqlRig(self.addCleanup, database=database)
        former.start()
        stuck = database.connect()
        stuck.begin()
        former.store._session.write(stuck, 1)  # and then nothing more happens
        successor = SqlRig(self.addCleanup, database=database)
        successor.database = self.server.database_again(database, timeout=5000)
        successor.start()
        batch = former.store.begin()
        batch.add_message(make_message(former.store), [1])
        former.store.commit(batch)
        former.settle()
        self.assertTrue(former.store.failed)
        self.assertIn("another owner", former.failures[0])
