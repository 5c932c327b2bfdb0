"""The databases that a configuration names."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import TestCase

from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.process.databases import make_database
from mqbroker.process.sqlite import SqliteDatabase


class DatabaseTests(TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name)

    def make(self, url: str, mounts: str = "", **others: str | int) -> object:
        return make_database(DatabaseStoreConfiguration(url, **others), self.base, mounts)  # type: ignore[arg-type]

    def test_sqlite_makes_its_folder(self) -> None:
        self.make("jdbc:sqlite:data/one.db?busy_timeout=5")
        self.assertTrue((self.base / "data").is_dir())

    def test_sqlite_waits_for_others_no_longer_than_a_statement_may_take(self) -> None:
        for limit, seconds in ((700, 0.7), (20_000, 5.0)):
            database = self.make("jdbc:sqlite:one.db", network_timeout=limit)
            assert isinstance(database, SqliteDatabase)
            self.assertEqual(database._busy_seconds, seconds)

    def test_postgresql(self) -> None:
        from mqbroker.process.postgresql import PostgresqlDatabase

        database = self.make("jdbc:postgresql://db.example:6000/mq?user=u&password=secret&sslmode=require", user="other")
        assert isinstance(database, PostgresqlDatabase)
        self.assertEqual(database.name, "postgresql://db.example:6000/mq")
        self.assertNotIn("secret", repr(database.name))
        self.assertEqual((database._user, database._password), ("other", "secret"))
        self.assertEqual(database._place["sslmode"], "require")
        plain = self.make("jdbc:postgresql:///mq")
        assert isinstance(plain, PostgresqlDatabase)
        self.assertEqual(plain.name, "postgresql://localhost:5432/mq")

    def test_postgresql_on_several_hosts(self) -> None:
        from mqbroker.process.postgresql import PostgresqlDatabase

        url = "jdbc:postgresql://h1:5432,h2:5433/mq?targetServerType=primary&currentSchema=own&connectTimeout=3&ApplicationName=b"
        database = self.make(url)
        assert isinstance(database, PostgresqlDatabase)
        self.assertEqual(database.name, "postgresql://h1:5432,h2:5433/mq")
        expected = {"host": "h1,h2", "port": "5432,5433", "dbname": "mq", "target_session_attrs": "read-write", "application_name": "b"}
        self.assertEqual(database._place, expected)
        self.assertEqual(database._connect_timeout, 3)
        self.assertTrue(database._options.startswith("-c search_path=own -c idle_in_transaction_session_timeout="))

    def test_sqlite_on_a_network_file_system(self) -> None:
        with self.assertRaisesRegex(ValueError, "lies on nfs4.*PostgreSQL"):
            self.make("jdbc:sqlite:data/one.db", f"server:/x {self.base} nfs4 rw 0 0\n")

    def test_sqlite_on_a_network_file_system_behind_a_link(self) -> None:
        (self.base / "mounted").mkdir()
        (self.base / "data").symlink_to("mounted")
        for kind in ("nfs4", "fuse.glusterfs"):
            with self.assertRaisesRegex(ValueError, f"lies on {kind}"):
                self.make("jdbc:sqlite:data/one.db", f"server:/x {self.base.resolve()}/mounted {kind} rw 0 0\n")
