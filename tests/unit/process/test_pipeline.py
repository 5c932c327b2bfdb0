"""What goes to the server together; rows that come back need one (tests/integration/storage/test_postgresql.py)."""

from __future__ import annotations

from unittest import TestCase, mock

import psycopg

from mqbroker.process import pipeline
from mqbroker.process.pipeline import Pipeline
from tests.unit.process.pipelines import DatabaseSide, DriverConnection


class PipelineTests(TestCase):
    def setUp(self) -> None:
        self.server = DatabaseSide(self.addCleanup)
        self.pipeline = Pipeline(DriverConnection(self.server))  # type: ignore[arg-type]
        self.server.said.clear()

    def test_what_was_put_goes_with_what_is_asked(self) -> None:
        self.pipeline.put("BEGIN")
        self.pipeline.put("INSERT INTO t VALUES (?, ?)", (1, "a"))
        self.pipeline.put("INSERT INTO t VALUES (?, ?)", (2, "b"))
        self.assertEqual(self.server.said, [])
        self.pipeline.answer("COMMIT")
        insert = "INSERT INTO t VALUES ($1, $2)"
        self.assertEqual(
            self.server.said,
            ["prepare BEGIN ()", "BEGIN", f"prepare {insert} (20, 0)", insert, insert, "prepare COMMIT ()", "COMMIT", "sync"],
        )
        self.server.said.clear()
        self.pipeline.answer("COMMIT")
        self.assertEqual(self.server.said, ["COMMIT", "sync"])

    def test_parameters(self) -> None:
        self.pipeline.answer("SELECT ?, ?, ?, ?", (-2, "é", memoryview(b"\0"), None))
        self.assertEqual(self.server.sent, [(b"SELECT $1, $2, $3, $4", [b"\xff" * 7 + b"\xfe", "é".encode(), b"\0", None], [1, 0, 1, 0])])

    def test_a_parameter_that_cannot_be_sent_is_refused_before_anything_goes(self) -> None:
        self.pipeline.put("FIRST")
        for wrong in ("a\0b", "\ud800", 1 << 63, 1.5):
            with self.subTest(wrong=wrong), self.assertRaises(psycopg.DataError):
                self.pipeline.answer("SECOND ?", (wrong,))
        self.assertEqual(self.server.said, [])

    def test_the_first_error_counts(self) -> None:
        """The ones behind it are of what the server has left out, and would look like a lost connection."""
        self.server.errors["SECOND"] = ("23505", "it is there already")
        self.pipeline.put("FIRST")
        self.pipeline.put("SECOND")
        with self.assertRaisesRegex(psycopg.errors.UniqueViolation, "it is there already"):
            self.pipeline.answer("THIRD")
        self.server.errors.clear()
        self.server.said.clear()
        self.pipeline.answer("THIRD")
        self.assertEqual(self.server.said, ["prepare THIRD ()", "THIRD", "sync"])

    def test_what_the_server_has_said_before_it_went_counts(self) -> None:
        self.server.errors["FIRST"] = ("25P03", "idle for too long")
        self.server.last_words = psycopg.OperationalError("closed")
        with self.assertRaises(psycopg.errors.IdleInTransactionSessionTimeout):
            self.pipeline.answer("FIRST")

    def test_a_connection_that_is_lost(self) -> None:
        self.server.errors["FIRST"] = psycopg.OperationalError("closed")
        with self.assertRaisesRegex(psycopg.OperationalError, "closed"):
            self.pipeline.answer("FIRST")
        self.server.errors.clear()
        self.server.end()
        with self.assertRaisesRegex(psycopg.OperationalError, "lost"):
            self.pipeline.answer("FIRST")

    def test_what_cannot_be_sent_at_once_goes_in_parts(self) -> None:
        """Meanwhile answers are taken: the server may wait for that before it reads on."""
        self.server.parts = 2
        with mock.patch.object(self.server, "is_busy", side_effect=[True, True, *[False] * 9]):
            self.pipeline.answer("FIRST")
        self.assertLess(self.server.parts, 0)

    def test_what_was_cleared_never_goes(self) -> None:
        self.pipeline.put("FIRST")
        self.pipeline.clear()
        self.pipeline.answer("SECOND")
        self.assertNotIn("FIRST", self.server.said)

    def test_very_much_goes_in_pieces(self) -> None:
        with mock.patch.object(pipeline, "WAITING_MAX", 2):
            for _ in range(5):
                self.pipeline.put("FIRST")
        self.assertEqual(self.server.said.count("FIRST"), 4)
        self.assertEqual(self.server.said.count("sync"), 2)

    def test_large_parameters_go_in_pieces(self) -> None:
        with mock.patch.object(pipeline, "WAITING_BYTES_MAX", 10):
            for _ in range(5):
                self.pipeline.put("FIRST ?", (b"12345",))
        self.assertEqual(self.server.said.count("sync"), 2)

    def test_a_bounded_number_of_statements_is_prepared(self) -> None:
        with mock.patch.object(pipeline, "PREPARED_MAX", 1):
            for statement in ("FIRST", "SECOND", "FIRST", "SECOND"):
                self.pipeline.answer(statement)
        self.assertEqual([each for each in self.server.said if "prepare" in each], ["prepare FIRST ()", "not prepared", "not prepared"])
