"""The store of a broker whose folder is in use."""

from __future__ import annotations

import random
import unittest
from pathlib import Path
from typing import Any

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.node.parts import StartError
from mqbroker.node.stores import make_store
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.diskwriter import SimulatedDiskWriter
from tests.support.parts import make_parts
from tests.unit.node.test_life import StartCase


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


class DatabaseStoreTests(unittest.TestCase):
    def test_the_local_folder_outlives_a_loss_of_power(self) -> None:
        """Its node id tells this process from a stranger that has the same place in a cluster."""
        store = DatabaseStoreConfiguration("jdbc:sqlite:/the.db")
        settings = BrokerSettings(Configuration(database_store=store, journal_directory="/data/journal"), Path("/"))
        for seed in range(10):
            disk = SimulatedDisk(random.Random(seed))
            database: Any = object()
            make_store(settings, make_parts(FakeClock(), disk, database=database), SimulatedDiskWriter, lambda reason: None)
            disk.crash()
            self.assertTrue(disk.exists("/data/journal"), seed)
