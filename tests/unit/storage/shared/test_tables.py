"""All tables of a database as a whole."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.shared import tables
from mqbroker.storage.shared.brokers import BrokerTable, Myself, State
from mqbroker.storage.sql import schema, session
from mqbroker.storage.sql.database import Connection, Database, DatabaseError
from tests.unit.storage.sql.support import SqlRig

ME = Myself("b1", "c", "localhost:7671", "1", "process", "folder")


class TableTests(SynchronousTestCase):
    """Also run on PostgreSQL, see :mod:`tests.integration.storage.test_postgresql_brokers`."""

    def new_database(self) -> Database:
        return SqlRig(self.addCleanup).database

    def setUp(self) -> None:
        self.database = self.new_database()
        self.connection: Connection = self.database.connect()
        self.addCleanup(self.connection.close)

    def make(self, state: State = State.SHUTDOWN_COMPLETE) -> None:
        schema.prepare(self.database, self.connection)
        members = BrokerTable(self.database)
        for number in (1, 2):
            broker = f"b{number}"
            me = Myself(broker, "c", f"localhost:767{number}", "1", "process", "folder")
            members.join(self.connection, me, None)
            members.stamp(self.connection, me, state, f"node{number}")
            own = session.take(self.connection, f"node{number}", "process", broker)
            insert = "INSERT INTO {message} (session, place, folder, headers, buffer, durable, branch) VALUES (?, 1, 'q', 0, ?, 1, 0)"
            self.connection.run(schema.table(insert), (own.number, b"\x00bytes"))

    def sizes(self) -> dict[str, int]:
        return {name.removeprefix(schema.PREFIX): count for name, count in tables.sizes(self.connection)}

    def test_tables_are_made_and_removed(self) -> None:
        self.assertFalse(tables.exist(self.connection))
        self.make()
        self.assertTrue(tables.exist(self.connection))
        tables.delete(self.connection)
        self.assertFalse(tables.exist(self.connection))
        tables.delete(self.connection)

    def test_what_is_there_is_told(self) -> None:
        self.make(State.OPERATING)
        self.assertEqual((self.sizes()["message"], self.sizes()["session"], self.sizes()["version"]), (2, 2, 1))
        self.assertEqual(tables.members(self.connection)[0], ("b1", "c", "localhost:7671", "OPERATING", ""))
        running = tables.running(self.connection)
        self.assertEqual((list(running), all(stamp > 0 for stamp in running.values())), (["b1", "b2"], True))

    def test_what_others_have_is_named(self) -> None:
        self.make()

        def others(broker: str, cluster: str | None) -> list[str]:
            return tables.others(self.database, self.connection, broker, cluster)

        self.assertEqual(others("b1", "c"), [])
        self.assertEqual(others("x", "d"), ["the broker b1 of the cluster c", "the broker b2 of the cluster c"])
        self.assertEqual(others("b1", None), ["the broker b2 of the cluster c"])
        for number, broker in enumerate(("", "b3", "table T")):
            session.take(self.connection, f"another{number}", "process", broker)
        self.connection.run(schema.table("INSERT INTO {cluster} (cluster, generation, last, floor, holder) VALUES ('d', 'g', 1, 0, '')"))
        self.connection.run(schema.table(f"UPDATE {{lease}} SET holder = 'h', expires = {self.database.now} + 9000 WHERE name = 'primary'"))
        expected = [
            "a broker without an id",
            "the broker b3",
            "a broker that is told apart by its table T",
            "the change record of the cluster d",
            "a broker of a pair that runs (lease primary)",
        ]
        self.assertEqual(others("b1", "c"), expected)

    def test_a_backup_fills_new_tables(self) -> None:
        self.make()
        kept = {name: [columns, *rows] for name, columns, rows in tables.contents(self.connection)}
        tables.delete(self.connection)
        schema.prepare(self.database, self.connection)
        self.assertEqual(self.sizes()["message"], 0)
        count = tables.fill(self.connection, lambda name: iter(kept[name]))
        self.assertEqual(count, sum(self.sizes().values()))
        self.assertEqual({name: [columns, *rows] for name, columns, rows in tables.contents(self.connection)}, kept)

    def test_a_long_table_is_read_in_pieces(self) -> None:
        self.make()
        kept = {name: rows for name, _, rows in tables.contents(self.connection)}
        pieces: dict[str, list[int]] = {}
        with mock.patch.object(tables, "READ_ROWS", 1):
            found: dict[str, list[tuple[object, ...]]] = {}
            for name, _, rows in tables.contents(self.connection):
                pieces.setdefault(name, []).append(len(rows))
                found.setdefault(name, []).extend(rows)
        self.assertEqual(found, {name: sorted(rows) for name, rows in kept.items()})
        self.assertEqual((pieces["message"], pieces["session"], pieces["version"], pieces["body"]), ([1, 1, 0], [1, 1, 0], [1], [0]))

    def test_a_backup_that_is_not_whole_is_found_out(self) -> None:
        self.make()
        whole = {name: [columns, *rows] for name, columns, rows in tables.contents(self.connection)}
        tables.check(lambda name: iter(whole[name]))
        for name, rows in (("message", []), ("message", [["something"]]), ("session", [*whole["session"][:-1], whole["session"][-1][:-1]])):
            with self.assertRaisesRegex(ValueError, f"the table {name} of the backup"):
                tables.check(lambda each, rows=rows, name=name: iter(rows if each == name else whole[each]))  # type: ignore[misc]

    def test_a_table_that_the_backup_does_not_have_is_empty(self) -> None:
        self.make()
        tables.fill(self.connection, lambda name: iter(()))
        self.assertEqual(set(self.sizes().values()), {0})

    def test_other_columns_are_refused_and_nothing_changes(self) -> None:
        self.make()
        with self.assertRaisesRegex(ValueError, "has other columns than"):
            tables.fill(self.connection, lambda name: iter([["something"], [1]]))
        self.assertEqual(self.sizes()["message"], 2)

    def test_a_broker_is_removed_with_what_it_has_and_nothing_else(self) -> None:
        """Complaint 44 (openmq 164)."""
        self.make()
        self.assertEqual(tables.remove_broker(self.database, self.connection, "b1"), 1)
        self.assertEqual(BrokerTable(self.database).owners(self.connection), {"node2": "b2"})
        self.assertEqual([row[0] for row in tables.members(self.connection)], ["b2"])
        self.assertEqual(self.sizes()["message"], 1)

    def test_a_broker_whose_messages_another_one_has_takes_none_with_it(self) -> None:
        self.make(State.OPERATING)
        members = BrokerTable(self.database)
        row = members.row(self.connection, "b1")
        assert row is not None
        members.lock(self.connection, row, "b2")
        with self.assertRaisesRegex(DatabaseError, "FAILOVER_PENDING"):
            tables.remove_broker(self.database, self.connection, "b1")
        members.switch(self.connection, Myself("b2", "c", "", "1", "process", ""), "b1", "process", lambda *_: None)
        self.assertEqual(tables.remove_broker(self.database, self.connection, "b1"), 0)
        self.assertEqual((self.sizes()["message"], BrokerTable(self.database).owners(self.connection)), (2, {"node1": "b2", "node2": "b2"}))

    def test_a_broker_that_runs_or_is_not_there_is_not_removed(self) -> None:
        self.make(State.OPERATING)
        with self.assertRaisesRegex(DatabaseError, "b1 is OPERATING"):
            tables.remove_broker(self.database, self.connection, "b1")
        with self.assertRaisesRegex(DatabaseError, "there is no broker b3"):
            tables.remove_broker(self.database, self.connection, "b3")
        self.assertEqual(self.sizes()["message"], 2)

    def test_a_backup_is_as_everything_was_at_one_moment(self) -> None:
        self.make()
        other = self.database.connect()
        self.addCleanup(other.close)
        kept: dict[str, int] = {}
        for name, _, rows in tables.contents(self.connection):
            kept[name] = len(rows)
            session.drop(other, "b1")
        self.assertEqual((kept["session"], kept["message"]), (2, 2))
        self.assertEqual(self.sizes()["message"], 1)
