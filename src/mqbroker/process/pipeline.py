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

WAITING_BYTES_MAX = 1 << 20
"""Bytes of the parameters of statements that wait; with more of them they go by themselves."""

_BYTEA, _INT8, _UNKNOWN = 17, 20, 0
"""Types by their number in the server; of an unknown one it decides by the place where it stands."""
_int8 = struct.Struct(">q").pack


class Statement(NamedTuple):
    """A statement with ``?`` for each parameter, and the parameters as the server gets them."""

    text: str
    types: tuple[int, ...]
    values: list[bytes | None]
    formats: list[int]


class Pipeline:
    """The pipeline of one connection, for one thread at a time.  Everything raises the errors of the driver.

    ``connection`` commits by itself, has UTF-8 for its texts, and nobody else sends anything through it.  ``?`` in a statement stands for
    a parameter: an int of 64 bits, text, bytes or None.  ``psycopg.DataError``: a parameter that the server cannot get; nothing was sent.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._server: PGconn = connection.pgconn
        self._reader = Transformer(connection)
        self._waiting: list[Statement] = []
        self._waiting_bytes = 0
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        """Of the statements that are prepared, by their text and the types of their parameters."""
        self._prepared = 0
        self._server.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._server.socket, select.POLLIN)

    def put(self, text: str, parameters: Sequence[object] = ()) -> None:
        """A statement that goes with the next one whose answer is wanted, which raises its errors."""
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            self._run()
        statement = _encoded(text, parameters)
        self._waiting_bytes += sum(len(value) for value in statement.values if value is not None)
        self._waiting.append(statement)

    def clear(self) -> None:
        """Drop the statements that were put and not sent."""
        self._waiting.clear()
        self._waiting_bytes = 0

    def answer(self, text: str, parameters: Sequence[object] = ()) -> PGresult:
        """Run what was put, and then this statement.  Returns its answer; where one fails, none of those behind it is run."""
        self._waiting.append(_encoded(text, parameters))
        return self._run()

    def rows(self, answer: PGresult) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        self._reader.set_pgresult(answer)
        return self._reader.load_rows(0, answer.ntuples, tuple)

    def _run(self) -> PGresult:
        statements, self._waiting, self._waiting_bytes = self._waiting, [], 0
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
        _, types, values, formats = statement
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
            # The server's last answer before it ended the connection tells more.
            raise (failure or error) from None


def _encoded(text: str, parameters: Sequence[object]) -> Statement:
    types: list[int] = []
    values: list[bytes | None] = []
    formats: list[int] = []
    for each in parameters:
        if isinstance(each, int):
            types.append(_INT8)
            values.append(_number(each))
            formats.append(Format.BINARY)
        elif isinstance(each, str):
            types.append(_UNKNOWN)
            values.append(_text(each))
            formats.append(Format.TEXT)
        elif each is None:
            types.append(_UNKNOWN)
            values.append(None)
            formats.append(Format.TEXT)
        elif isinstance(each, bytes | bytearray | memoryview):
            types.append(_BYTEA)
            values.append(bytes(each))
            formats.append(Format.BINARY)
        else:
            raise psycopg.DataError(f"a parameter of the type {type(each).__name__} cannot be sent")
    return Statement(text, tuple(types), values, formats)


def _number(value: int) -> bytes:
    try:
        return _int8(value)
    except struct.error:
        raise psycopg.DataError(f"the number {value} has more than 64 bits") from None


def _text(value: str) -> bytes:
    if "\0" in value:  # the driver would send what is before it
        raise psycopg.DataError("a text with NUL cannot be stored")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise psycopg.DataError(f"a text cannot be stored: {error}") from None


def _numbered(text: str) -> bytes:
    """A statement with ``$1``, ``$2`` and so on in the place of each ``?``."""
    first, *others = text.split("?")
    return "".join((first, *(f"${number}{part}" for number, part in enumerate(others, 1)))).encode()
