"""The store of a broker: one whose folder is in use, and one whose database is away."""

from __future__ import annotations

import random
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.messaging.ports import QueueRecord
from mqbroker.node.life import BrokerLife
from mqbroker.node.parts import StartError
from mqbroker.node.stores import make_store
from mqbroker.process.sqlite import SqliteDatabase
from mqbroker.storage.sql.connections import LOOK_PAUSE
from mqbroker.storage.sql.schema import table
from mqbroker.storage.sql.sqlstore import PAUSE
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.support.parts import make_parts
from tests.unit.node.test_life import LifeCase, StartCase
from tests.unit.storage.sql.support import BreakingDatabase


class StoreTests(StartCase):
    def test_a_folder_that_another_broker_holds_is_left_alone(self) -> None:
        first, second = self.life(), self.life()
        first.start()
        found = self.files()
        error = self.assertRaises(StartError, second.start)
        self.assertIn("lock", str(error))
        self.assertEqual((second.state, self.files()), ("failed", found))
        self.assertFalse(self.pages[1].is_open)
        self.stopped(first)
        second.start()
        self.assertEqual(second.state, "active")
        self.stopped(second)


class DatabaseTests(LifeCase):
    """A broker on a database, which is away as long as it is not calm."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-stores-")
        self.addCleanup(folder.cleanup)
        self.database = BreakingDatabase(SqliteDatabase(str(Path(folder.name) / "mq.db")), random.Random(1), 1.0)
        self.database.calm = True
        self.broker = self.life(database=self.database)

    def gauges(self, life: BrokerLife) -> dict[str, float]:
        return {each.name: each.read() for each in life.active.server.gauges if each.name.startswith("store.")}

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / PAUSE)):
            self.settle()
            self.clock.advance(PAUSE)
        self.settle()

    def test_the_database_is_away_for_a_while(self) -> None:
        life = self.broker
        life.start()
        self.settle()
        answers = {"store.connected": 1, "store.away": 0, "store.backlog": 0, "store.epoch": 1}
        self.assertEqual((self.gauges(life), life.ready()), (answers, None))
        self.database.calm = False
        batch = life.active.store.begin()
        batch.put_queue(QueueRecord(life.active.store.next_id(), "q", "a", 1))
        life.active.store.commit(batch)
        self.pass_time(3)
        found = self.gauges(life)
        self.assertEqual((found["store.connected"], found["store.backlog"], life.live()), (0, 1, None))
        self.assertGreater(found["store.away"], 2)
        self.assertRegex(str(life.ready()), "the database .*mq.db has not answered for [23] s; 1 batches of work wait for it")
        self.database.calm = True
        self.pass_time(1)
        life.ready()
        self.settle()
        self.assertEqual((self.gauges(life), life.ready()), (answers, None))
        self.stopped(life)

    def test_it_is_missed_without_any_work(self) -> None:
        life = self.broker
        life.start()
        self.settle()
        for calm, ready in ((False, False), (True, True)):
            self.database.calm = calm
            self.clock.advance(LOOK_PAUSE)
            life.ready()  # the look, whose outcome the next one knows
            self.settle()
            self.assertEqual(life.ready() is None, ready)
        self.stopped(life)

    def test_files_have_no_such_metrics(self) -> None:
        life = self.life()
        life.start()
        self.assertEqual((self.gauges(life), life.ready()), ({}, None))
        self.stopped(life)


class DatabaseStoreTests(unittest.TestCase):
    def test_brokers_with_tables_of_their_own_have_data_of_their_own(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        database = SqliteDatabase(str(Path(folder.name) / "mq.db"))
        for name in ("MESSAGES", "ORDERS"):
            store = DatabaseStoreConfiguration("jdbc:sqlite:mq.db", message_table=name)
            settings = BrokerSettings(Configuration(database_store=store), Path("/"))
            parts = make_parts(FakeClock(), SimulatedDisk(random.Random(len(name))), database=database)
            made = make_store(settings, parts, SimulatedDiskWriter, lambda reason: None)
            self.addCleanup(made.close)
            made.open()
            made.load()
        connection = database.connect()
        self.addCleanup(connection.close)
        self.assertEqual(connection.rows(table("SELECT broker FROM {session} ORDER BY broker")), [("",), ("table ORDERS",)])

    def test_the_local_folder_outlives_a_loss_of_power(self) -> None:
        """Its node id tells this process from a stranger that has the same place in a cluster."""
        store = DatabaseStoreConfiguration("jdbc:sqlite:/the.db")
        settings = BrokerSettings(Configuration(database_store=store, journal_directory="/data/journal"), Path("/"))
        for seed in range(10):
            disk = SimulatedDisk(random.Random(seed))
            database: Any = SimpleNamespace(name="the database")
            make_store(settings, make_parts(FakeClock(), disk, database=database), SimulatedDiskWriter, lambda reason: None)
            disk.crash()
            self.assertTrue(disk.exists("/data/journal"), seed)
