"""PostgreSQL's errors, in the words of the store; the rest needs a server (tests/integration/storage/test_postgresql.py)."""

from __future__ import annotations

from unittest import TestCase, mock

import psycopg
from psycopg.pq import TransactionStatus

from mqbroker.process.postgresql import PATIENCE, PostgresqlConnection, PostgresqlDatabase
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError
from tests.unit.process.pipelines import DatabaseSide, DriverConnection


class PostgresqlTests(TestCase):
    def connection(self, **errors: tuple[str, str] | Exception) -> PostgresqlConnection:
        self.server = DatabaseSide(self.addCleanup)
        self.server.errors.update(errors)
        self.driver = DriverConnection(self.server)
        return PostgresqlConnection(self.driver, "db")  # type: ignore[arg-type]

    def test_a_lost_connection_is_a_database_that_is_away(self) -> None:
        connection = self.connection(QUERY=psycopg.OperationalError("server closed\nthe connection"))
        with self.assertRaisesRegex(DatabaseAwayError, "db: server closed; the connection"):
            connection.rows("QUERY")
        connection.rollback()

    def test_a_server_that_writes_nothing_now_is_away(self) -> None:
        """A standby that takes over soon, and a transaction that has stood still for too long, as this process may have."""
        for state in ("25006", "25P03"):
            with self.assertRaises(DatabaseAwayError):
                self.connection(CHANGE=(state, "not now")).run("CHANGE")

    def test_a_transaction_begins_with_its_first_statement_and_ends_with_the_last(self) -> None:
        connection = self.connection()
        connection.begin()
        connection.run("FENCE")
        connection.run_many("ADD", [(), ()])
        connection.commit()
        self.assertEqual(
            [each for each in self.server.said if "prepare" not in each],
            ["pipeline", "BEGIN", "FENCE", "sync", "ADD", "ADD", "COMMIT", "sync"],
        )

    def test_a_transaction_that_is_rolled_back(self) -> None:
        connection = self.connection()
        connection.begin()
        connection.rollback()
        self.assertEqual(self.server.said, ["pipeline"])
        self.driver.transaction_status = TransactionStatus.INERROR
        connection.run_many("ADD", [()])
        connection.rollback()
        self.assertEqual(self.server.said[1:], ["prepare ROLLBACK ()", "ROLLBACK", "sync"])
        self.server.errors["ROLLBACK"] = psycopg.OperationalError("lost")
        connection.rollback()

    def test_a_network_that_loses_everything_is_noticed_in_time(self) -> None:
        driver = DriverConnection(DatabaseSide(self.addCleanup))
        with mock.patch.object(psycopg, "connect", return_value=driver) as connect:
            PostgresqlDatabase({"host": "db", "port": "1", "dbname": "mq"}, "u", "secret", 20_000).connect()
        self.assertEqual(connect.call_args.kwargs["tcp_user_timeout"], 20_000)

    def test_a_statement_that_was_cut_off_gets_more_time_until_a_commit(self) -> None:
        database = PostgresqlDatabase({"host": "db", "port": "1", "dbname": "mq"}, None, None, 100)

        def limit(error: tuple[str, str] | Exception | None = None, commit: bool = False) -> tuple[str, list[str]]:
            server = DatabaseSide(self.addCleanup)
            if error is not None:
                server.errors["DELETE FROM t"] = error
            with mock.patch.object(psycopg, "connect", return_value=DriverConnection(server)) as connect:
                connection = database.connect()
                try:
                    connection.commit() if commit else connection.run("DELETE FROM t")
                except DatabaseAwayError:
                    self.assertIsNotNone(error)
            said = [each for each in server.said if each not in ("pipeline", "sync") and "prepare" not in each]
            return connect.call_args.kwargs["options"].rpartition("=")[2], said

        self.assertEqual(limit(commit=True), ("100", ["COMMIT"]))
        self.assertEqual(limit(("57014", "statement timeout"))[0], "100")
        self.assertEqual(limit(psycopg.OperationalError("lost"))[0], "200")
        for _ in range(10):
            limit(("57014", "statement timeout"))
        self.assertEqual(limit(commit=True), (str(100 * PATIENCE), ["COMMIT", "SET statement_timeout = 100"]))
        self.assertEqual(limit(commit=True), ("100", ["COMMIT"]))

    def test_a_refusal_is_final(self) -> None:
        statement = "DELETE FROM t WHERE x = $1 AND y = $2"
        connection = self.connection(**{statement: ("42P01", "no such table")})
        with self.assertRaisesRegex(DatabaseError, "no such table"):
            connection.run("DELETE FROM t WHERE x = ? AND y = ?", (1, 2))
        connection.run_many("DELETE FROM t WHERE x = ? AND y = ?", [(1, 2)])
        with self.assertRaisesRegex(DatabaseError, "no such table"):
            connection.commit()

    def test_nobody_listens(self) -> None:
        database = PostgresqlDatabase({"host": "127.0.0.1", "port": "1", "dbname": "mq"}, "u", "secret", 500)
        with self.assertRaises(DatabaseAwayError) as caught:
            database.connect()
        self.assertNotIn("secret", str(caught.exception))
