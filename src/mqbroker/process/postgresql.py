"""PostgreSQL, by psycopg (the extra ``mqbroker[postgresql]``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from mqbroker.storage.sql.database import Connection, DatabaseAwayError, DatabaseError, Row

CONNECT_SECONDS = 10
"""How long to wait for a connection, at most."""

_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # of a standby, until it takes over or the place leads elsewhere
    psycopg.errors.IdleInTransactionSessionTimeout,  # this process has stood still in the middle of a transaction
)


class PostgresqlDatabase:
    """See :class:`mqbroker.storage.sql.database.Database`.

    ``place`` has host, port, dbname and TLS as libpq names them; ``timeout`` is how long a statement may take, and how long the network may
    lose everything, ms.  A transaction in which
    nothing happens for ``idle`` ms (None = as long) is ended by the server: a broker that stands still in the middle of one holds up nobody
    for ever.
    """

    binary = "BYTEA"
    number = "BIGINT"
    now = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    end_writers = (
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = CAST(? AS regclass) AND mode = 'RowExclusiveLock' AND granted "
        "AND pid <> pg_backend_pid()"
    )

    def __init__(self, place: Mapping[str, str], user: str | None, password: str | None, timeout: int, idle: int | None = None) -> None:
        self.name = f"postgresql://{place['host']}:{place['port']}/{place['dbname']}"
        self._place = dict(place)
        self._user = user
        self._password = password
        self._timeout = timeout
        self._options = f"-c statement_timeout={timeout} -c idle_in_transaction_session_timeout={idle or timeout}"

    def connect(self) -> Connection:
        with _errors(self.name):
            connection = psycopg.connect(
                **self._place,  # type: ignore[arg-type]
                user=self._user,
                password=self._password,
                options=self._options,
                connect_timeout=max(2, min(CONNECT_SECONDS, -(-self._timeout // 1000))),  # libpq makes 2 of 1
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=self._timeout,
                autocommit=True,
            )
        return PostgresqlConnection(connection, self.name)


class PostgresqlConnection:
    """See :class:`mqbroker.storage.sql.database.Connection`."""

    def __init__(self, connection: psycopg.Connection[Any], name: str) -> None:
        self._connection = connection
        self._name = name
        self._known: dict[str, str] = {}

    def begin(self) -> None:
        self.run("BEGIN")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        try:
            self._connection.rollback()
        except psycopg.Error:
            return

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        with _errors(self._name):
            return self._connection.execute(self._translated(statement), tuple(parameters)).fetchall()

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with _errors(self._name):
            return self._connection.execute(self._translated(statement), tuple(parameters)).rowcount

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        with _errors(self._name), self._connection.cursor() as cursor:
            cursor.executemany(self._translated(statement), [tuple(each) for each in parameters])

    def close(self) -> None:
        self._connection.close()

    def _translated(self, statement: str) -> str:
        found = self._known.get(statement)
        if found is None:
            if len(self._known) > 1000:  # statements with places in them differ each time
                self._known.clear()
            found = self._known[statement] = statement.replace("?", "%s")
        return found


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except _AWAY as error:
        raise DatabaseAwayError(f"{name}: {_sentence(error)}") from error
    except psycopg.Error as error:
        raise DatabaseError(f"{name}: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    return str(error).strip().replace("\n", "; ")
