"""The store contract as a law: random work, stops and crashes at any point, for every store that keeps something."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import TestCase, mock

from mqbroker.storage.sql.database import Database
from tests.support.late_store import LateStore
from tests.unit.storage.heirs import Family
from tests.unit.storage.model import Walk
from tests.unit.storage.sql.support import SqlRig
from tests.unit.storage.support import Rig


class FileStoreWalks(TestCase):
    changes: ClassVar[dict[str, Any]] = {}

    def test_walks(self) -> None:
        for seed in range(60):
            with self.subTest(seed=seed):
                rig = Rig(seed, **self.changes)
                Walk(rig, rig.crash, seed).run(60)


class PackedFileStoreWalks(FileStoreWalks):
    changes: ClassVar[dict[str, Any]] = {"compress_pages": True}


class LateStoreWalks(FileStoreWalks):
    def setUp(self) -> None:
        patch = mock.patch.object(Rig, "store_class", LateStore)
        patch.start()
        self.addCleanup(patch.stop)


class SqlStoreWalks(TestCase):
    late = False
    chance = 0.0

    def test_walks(self) -> None:
        for seed in range(25):
            with self.subTest(seed=seed):
                rig = SqlRig(self.addCleanup, seed, late=self.late, chance=self.chance)
                Walk(rig, rig.kill, seed).run(60)


class LateSqlStoreWalks(SqlStoreWalks):
    late = True


class BreakingSqlStoreWalks(SqlStoreWalks):
    """Connections break before and after a commit, and no batch is lost or written twice."""

    late = True
    chance = 0.02


class FamilyWalks(TestCase):
    """Several brokers on one database: the data of one become another's, at any point of their work."""

    chance = 0.0

    def test_walks(self) -> None:
        takeovers = 0
        for seed in range(12):
            with self.subTest(seed=seed):
                database = SqlRig(self.addCleanup).database

                def make(broker_id: str, number: int, database: Database = database, seed: int = seed) -> SqlRig:
                    late = bool(seed % 2 or self.chance)
                    return SqlRig(self.addCleanup, number, late=late, chance=self.chance, database=database, broker_id=broker_id)

                takeovers += Family(make, seed).run(150)
        self.assertGreater(takeovers, 30)


class BreakingFamilyWalks(FamilyWalks):
    chance = 0.01
