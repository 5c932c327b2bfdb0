"""Several statements on their way to PostgreSQL at once: they go out together, and their answers are waited for together.

Each wait lets the other threads have the interpreter, and other processes the processor, until both have a moment again.  With the
cursors of the driver that is twice for each statement, and for each row of an ``executemany``.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

PREPARED_MAX = 500
"""Statements that the server keeps prepared for a connection; what comes beyond is planned each time."""

WAITING_MAX = 1000
"""Statements that wait for one whose answer is wanted; more of them go by themselves."""

_BYTEA, _INT8, _UNKNOWN = 17, 20, 0
"""Types by their number in the server; of an unknown one it decides by the place where it stands."""
_int8 = struct.Struct(">q").pack


class Statement(NamedTuple):
    """``?`` stands for a parameter: an int of 64 bits, text, bytes or None."""

    text: str
    parameters: Sequence[object] = ()


class Pipeline:
    """The pipeline of one connection, for one thread at a time.  Everything raises the errors of the driver.

    ``connection`` commits by itself, and nobody else sends anything through it.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._server: PGconn = connection.pgconn
        self._reader = Transformer(connection)
        self._waiting: list[Statement] = []
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        """Of the statements that are prepared, by their text and the types of their parameters."""
        self._prepared = 0
        self._server.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._server.socket, select.POLLIN)

    def put(self, text: str, parameters: Sequence[object] = ()) -> None:
        """A statement that goes with the next one whose answer is wanted, which raises its errors."""
        if len(self._waiting) >= WAITING_MAX:
            self._run()
        self._waiting.append(Statement(text, parameters))

    def clear(self) -> None:
        """What has been put, and has not gone, never goes."""
        self._waiting.clear()

    def answer(self, text: str, parameters: Sequence[object] = ()) -> PGresult:
        """Run what was put, and then this statement.  Returns its answer; where one fails, none of those behind it is run."""
        self._waiting.append(Statement(text, parameters))
        return self._run()

    def rows(self, answer: PGresult) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        self._reader.set_pgresult(answer)
        return self._reader.load_rows(0, answer.ntuples, tuple)

    def _run(self) -> PGresult:
        statements, self._waiting = self._waiting, []
        new: list[tuple[str, tuple[int, ...]]] = []
        try:
            asked = sum(self._send(statement, new) for statement in statements)
            answers = self._exchange(asked)
        except BaseException:
            for key in new:  # which of them are prepared is not known
                self._names.pop(key, None)
            raise
        return answers[-1]

    def _send(self, statement: Statement, new: list[tuple[str, tuple[int, ...]]]) -> int:
        """Give a statement to the driver; returns how many answers it has."""
        types, values, formats = _encoded(statement.parameters)
        key = statement.text, types
        name = self._names.get(key)
        if name is not None:
            self._server.send_query_prepared(name, values, formats, Format.BINARY)
            return 1
        text = _numbered(statement.text)
        if len(self._names) >= PREPARED_MAX:
            self._server.send_query_params(text, values, types, formats, Format.BINARY)
            return 1
        self._prepared += 1
        name = self._names[key] = b"mqbroker_%d" % self._prepared
        new.append(key)
        self._server.send_prepare(name, text, types)
        self._server.send_query_prepared(name, values, formats, Format.BINARY)
        return 2

    def _exchange(self, asked: int) -> list[PGresult]:
        """Send what the driver has; returns the answers when all have come.  The first error counts."""
        server = self._server
        server.pipeline_sync()
        answers: list[PGresult] = []
        sending = True
        failure: psycopg.Error | None = None
        try:
            while True:
                if sending:
                    sending = bool(server.flush())
                    self._poll.modify(server.socket, select.POLLIN | (select.POLLOUT if sending else 0))
                self._poll.poll()
                server.consume_input()
                while not server.is_busy():
                    found = server.get_result()
                    if found is None:
                        if server.status == ConnStatus.BAD:
                            raise psycopg.OperationalError("the connection is lost")
                    elif found.status == ExecStatus.PIPELINE_SYNC:
                        if failure is not None:
                            raise failure
                        assert len(answers) == asked
                        return answers
                    elif found.status == ExecStatus.FATAL_ERROR and failure is None:
                        failure = psycopg.errors.error_from_result(found)
                    else:
                        answers.append(found)
        except psycopg.OperationalError as error:
            # What the server has said before it ended the connection tells more.
            raise (failure or error) from None


def _encoded(parameters: Sequence[object]) -> tuple[tuple[int, ...], list[bytes | None], list[int]]:
    types: list[int] = []
    values: list[bytes | None] = []
    formats: list[int] = []
    for each in parameters:
        if isinstance(each, int):
            types.append(_INT8)
            values.append(_int8(each))
            formats.append(Format.BINARY)
        elif isinstance(each, str):
            types.append(_UNKNOWN)
            values.append(each.encode())
            formats.append(Format.TEXT)
        elif each is None:
            types.append(_UNKNOWN)
            values.append(None)
            formats.append(Format.TEXT)
        else:
            types.append(_BYTEA)
            values.append(bytes(each))  # type: ignore[call-overload]
            formats.append(Format.BINARY)
    return tuple(types), values, formats


def _numbered(text: str) -> bytes:
    """A statement with ``$1``, ``$2`` and so on in the place of each ``?``."""
    first, *others = text.split("?")
    return "".join((first, *(f"${number}{part}" for number, part in enumerate(others, 1)))).encode()
