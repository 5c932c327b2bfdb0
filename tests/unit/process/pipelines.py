"""A PostgreSQL server without one: what the driver is told, and answers that were decided before."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus


class Answer:
    """A result of the driver; ``state`` is the code of an error."""

    def __init__(self, status: ExecStatus, state: str = "", text: str = "") -> None:
        self.status = status
        self.command_tuples = 1
        self._state = state
        self._text = text

    def error_field(self, field: DiagnosticField) -> bytes | None:
        return self._state.encode()

    def get_error_message(self, encoding: str) -> str:
        return self._text


class DatabaseSide:
    """The part of the driver's ``PGconn`` that pipelines use.

    ``errors`` are by statement: its code and text, or what the driver raises as the answer is waited for.
    """

    def __init__(self, clean_up: Callable[..., object]) -> None:
        self.socket, self._end = os.pipe()
        os.write(self._end, b"x")  # an answer can always be read
        clean_up(os.close, self.socket)
        clean_up(os.close, self._end)
        self.status = ConnStatus.OK
        self.said: list[str] = []
        self.sent: list[tuple[bytes, Sequence[bytes | None], Sequence[int]]] = []
        self.errors: dict[str, tuple[str, str] | Exception] = {}
        self.parts = 0
        """So many times not everything can be sent at once."""
        self.last_words: Exception | None = None
        """In the place of the end of the answers."""
        self._texts: dict[bytes, str] = {}
        self._answers: list[Answer | Exception | None] = []
        self._skips = False

    def enter_pipeline_mode(self) -> None:
        self.said.append("pipeline")

    def send_prepare(self, name: bytes, text: bytes, types: Sequence[int]) -> None:
        self._texts[name] = text.decode()
        self.said.append(f"prepare {text.decode()} {types}")
        self._answer("")

    def send_query_prepared(self, name: bytes, values: Sequence[bytes | None], formats: Sequence[int], result: int) -> None:
        self._query(self._texts[name], values, formats)

    def send_query_params(
        self, text: bytes, values: Sequence[bytes | None], types: Sequence[int], formats: Sequence[int], result: int
    ) -> None:
        self.said.append("not prepared")
        self._query(text.decode(), values, formats)

    def _query(self, text: str, values: Sequence[bytes | None], formats: Sequence[int]) -> None:
        self.said.append(text)
        self.sent.append((text.encode(), values, formats))
        self._answer(text)

    def _answer(self, text: str) -> None:
        error = self.errors.get(text)
        if self._skips:
            self._answers += [Answer(ExecStatus.PIPELINE_ABORTED), None]
        elif error is None:
            self._answers += [Answer(ExecStatus.COMMAND_OK), None]
        elif isinstance(error, Exception):
            self._answers.append(error)
        else:
            self._skips = True
            self._answers += [Answer(ExecStatus.FATAL_ERROR, *error), None]

    def pipeline_sync(self) -> None:
        self._skips = False
        self.said.append("sync")
        self._answers.append(self.last_words or Answer(ExecStatus.PIPELINE_SYNC))

    def flush(self) -> int:
        self.parts -= 1
        return int(self.parts >= 0)

    def consume_input(self) -> None:
        found = self._answers[0] if self._answers else None
        if isinstance(found, Exception):
            self._answers.clear()
            raise found

    def is_busy(self) -> bool:
        return not self._answers or isinstance(self._answers[0], Exception)

    def get_result(self) -> Answer | None:
        found = self._answers.pop(0)
        assert not isinstance(found, Exception)
        return found

    def end(self) -> None:
        """The connection is lost, and the driver has noticed that."""
        self.status = ConnStatus.BAD
        self._answers = [None]
        self.pipeline_sync = lambda: None  # type: ignore[method-assign]


class DriverConnection:
    """The part of the driver's ``Connection`` that the store uses."""

    adapters = psycopg.adapters
    connection = None

    def __init__(self, server: DatabaseSide) -> None:
        self.pgconn = server
        self.info: Any = self
        self.transaction_status = TransactionStatus.IDLE
        self.closed = False

    def close(self) -> None:
        self.closed = True
