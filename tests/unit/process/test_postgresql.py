"""PostgreSQL's errors, in the words of the store; the rest needs a server (tests/integration/storage/test_postgresql.py)."""

from __future__ import annotations

from unittest import TestCase, mock

import psycopg

from mqbroker.process.postgresql import PATIENCE, PostgresqlConnection, PostgresqlDatabase
from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError


class Refusing:
    """A connection of the driver that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.statements: list[str] = []

    def execute(self, statement: str, parameters: object) -> object:
        self.statements.append(statement)
        raise self.error

    def rollback(self) -> None:
        raise self.error


class PostgresqlTests(TestCase):
    def test_a_lost_connection_is_a_database_that_is_away(self) -> None:
        connection = PostgresqlConnection(Refusing(psycopg.OperationalError("server closed\nthe connection")), "db")  # type: ignore[arg-type]
        with self.assertRaisesRegex(DatabaseAwayError, "db: server closed; the connection"):
            connection.rows("SELECT 1")
        connection.rollback()

    def test_a_server_that_writes_nothing_now_is_away(self) -> None:
        """A standby that takes over soon, and a transaction that has stood still for too long, as this process may have."""
        for error in (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.IdleInTransactionSessionTimeout):
            with self.assertRaises(DatabaseAwayError):
                PostgresqlConnection(Refusing(error("not now")), "db").run("UPDATE t SET x = 1")  # type: ignore[arg-type]

    def test_a_network_that_loses_everything_is_noticed_in_time(self) -> None:
        with mock.patch.object(psycopg, "connect") as connect:
            PostgresqlDatabase({"host": "db", "port": "1", "dbname": "mq"}, "u", "secret", 20_000).connect()
        self.assertEqual(connect.call_args.kwargs["tcp_user_timeout"], 20_000)

    def test_a_statement_that_was_cut_off_gets_more_time_until_a_commit(self) -> None:
        database = PostgresqlDatabase({"host": "db", "port": "1", "dbname": "mq"}, None, None, 100)

        def limit(error: Exception | None = None, commit: bool = False) -> tuple[str, list[str]]:
            with mock.patch.object(psycopg, "connect") as connect:
                connect.return_value.execute.side_effect = error
                connection = database.connect()
                try:
                    connection.commit() if commit else connection.run("DELETE FROM t")
                except DatabaseAwayError:
                    self.assertIsNotNone(error)
                said = [call.args[0] for call in connect.return_value.execute.call_args_list]
            return connect.call_args.kwargs["options"].rpartition("=")[2], said

        self.assertEqual(limit(commit=True), ("100", ["COMMIT"]))
        self.assertEqual(limit(psycopg.errors.QueryCanceled("statement timeout"))[0], "100")
        self.assertEqual(limit(psycopg.OperationalError("lost"))[0], "200")
        for _ in range(10):
            limit(psycopg.errors.QueryCanceled("statement timeout"))
        self.assertEqual(limit(commit=True), (str(100 * PATIENCE), ["COMMIT", "SET statement_timeout = 100"]))
        self.assertEqual(limit(commit=True), ("100", ["COMMIT"]))

    def test_a_refusal_is_final(self) -> None:
        driver = Refusing(psycopg.errors.UndefinedTable("no such table"))
        with self.assertRaisesRegex(DatabaseError, "no such table"):
            PostgresqlConnection(driver, "db").run("DELETE FROM t WHERE x = ? AND y = ?", (1, 2))  # type: ignore[arg-type]
        self.assertEqual(driver.statements, ["DELETE FROM t WHERE x = %s AND y = %s"])

    def test_nobody_listens(self) -> None:
        database = PostgresqlDatabase({"host": "127.0.0.1", "port": "1", "dbname": "mq"}, "u", "secret", 500)
        with self.assertRaises(DatabaseAwayError) as caught:
            database.connect()
        self.assertNotIn("secret", str(caught.exception))
