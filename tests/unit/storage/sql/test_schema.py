"""The tables."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.storage.sql import schema
from mqbroker.storage.sql.database import DatabaseError, transaction
from tests.unit.storage.sql.support import SqlRig


class SchemaTests(TestCase):
    def setUp(self) -> None:
        self.rig = SqlRig(self.addCleanup)
        self.connection = self.rig.database.connect()
        self.addCleanup(self.connection.close)

    def test_tables_are_made_once(self) -> None:
        for _ in range(2):
            schema.prepare(self.rig.database, self.connection)
        self.assertEqual(self.rig.ask("SELECT version FROM mqbroker_version"), [(schema.VERSION,)])
        self.assertEqual(self.rig.ask("SELECT next_id FROM mqbroker_ids"), [(1,)])

    def test_nobody_has_a_lease_of_a_new_database(self) -> None:
        schema.prepare(self.rig.database, self.connection)
        self.assertEqual(self.rig.ask("SELECT state FROM mqbroker_pair"), [("0",)])
        found = self.rig.ask("SELECT name, holder, expires FROM mqbroker_lease ORDER BY name")
        self.assertEqual(found, [("backup", "", 0), ("primary", "", 0)])

    def test_another_version_is_refused(self) -> None:
        schema.prepare(self.rig.database, self.connection)
        with transaction(self.connection):
            self.connection.run("UPDATE mqbroker_version SET version = 99")
        with self.assertRaisesRegex(DatabaseError, "version 99"):
            schema.prepare(self.rig.database, self.connection)

    def test_tables_of_another_product_are_left_alone(self) -> None:
        self.connection.run("CREATE TABLE MESSAGES (id INTEGER)")
        self.connection.run("INSERT INTO MESSAGES VALUES (7)")
        schema.prepare(self.rig.database, self.connection)
        self.assertEqual(self.rig.ask("SELECT id FROM MESSAGES"), [(7,)])

    def test_names_are_put_into_statements(self) -> None:
        self.assertEqual(schema.table("SELECT 1 FROM {message}, {reference}"), "SELECT 1 FROM mqbroker_message, mqbroker_reference")
