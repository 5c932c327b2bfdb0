"""PostgreSQL, by psycopg (the extra ``mqbroker[postgresql]``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from mqbroker.process.pipeline import Pipeline
from mqbroker.storage.sql.database import Connection, DatabaseAwayError, DatabaseError, Row

CONNECT_SECONDS = 10
"""How long to wait for a connection, at most."""

PATIENCE = 64
"""How many times the limit a statement of the store gets at most that the limit has cut off."""

_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # of a standby, until it takes over or the place leads elsewhere
    psycopg.errors.IdleInTransactionSessionTimeout,  # this process has stood still in the middle of a transaction
)


class PostgresqlDatabase:
    """See :class:`mqbroker.storage.sql.database.Database`.

    ``place`` has host, port, dbname and more, such as TLS and ``options``, as libpq names them, with commas between several hosts and their
    ports; ``connect_timeout`` in it shortens the wait for a connection.  ``timeout`` is how long a statement may take, and how long the
    network may lose everything, ms.  A transaction in which nothing happens for ``idle`` ms (None = as long) is ended by the server: a
    broker that stands still in the middle of one holds up nobody for ever.  A statement that was cut off gets twice the time when it is
    tried again, until a transaction has been committed, and at most ``patience`` times the limit: it may need that.
    """

    binary = "BYTEA"
    number = "BIGINT"
    now = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
    end_writers = (
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = CAST(? AS regclass) AND mode = 'RowExclusiveLock' AND granted "
        "AND pid <> pg_backend_pid()"
    )

    def __init__(
        self,
        place: Mapping[str, str],
        user: str | None,
        password: str | None,
        timeout: int,
        idle: int | None = None,
        patience: int = PATIENCE,
    ) -> None:
        hosts = zip(place["host"].split(","), place["port"].split(","), strict=True)
        self.name = f"postgresql://{','.join(f'{host}:{port}' for host, port in hosts)}/{place['dbname']}"
        self._place = dict(place)
        options = self._place.pop("options", "")
        # libpq makes 2 of 1
        given = int(self._place.pop("connect_timeout", CONNECT_SECONDS))
        self._connect_timeout = max(2, min(given, CONNECT_SECONDS, -(-timeout // 1000)))
        self._user = user
        self._password = password
        self._timeout = timeout
        self._granted = timeout
        self._most = patience * timeout
        # A plan that was made while a table was empty would read all of it, and is kept when the table has grown.
        self._options = f"{options} -c idle_in_transaction_session_timeout={idle or timeout} -c enable_seqscan=off".strip()

    def connect(self) -> Connection:
        with _errors(self.name):
            connection = psycopg.connect(
                **self._place,  # type: ignore[arg-type]
                user=self._user,
                password=self._password,
                options=f"{self._options} -c statement_timeout={self._granted}",
                connect_timeout=self._connect_timeout,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=self._timeout,
                autocommit=True,
                client_encoding="UTF8",
            )
            calm = None if self._granted == self._timeout else self._calm
            return PostgresqlConnection(connection, self.name, self._cut_off, calm)

    def _cut_off(self) -> None:
        self._granted = min(2 * self._granted, self._most)

    def _calm(self, connection: PostgresqlConnection) -> None:
        self._granted = self._timeout
        connection.run(f"SET statement_timeout = {self._timeout}")


class PostgresqlConnection:
    """See :class:`mqbroker.storage.sql.database.Connection`.

    ``cut_off`` is called when a statement has taken too long, ``after_commit`` once, after the next commit.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        name: str,
        cut_off: Callable[[], object] = lambda: None,
        after_commit: Callable[[PostgresqlConnection], object] | None = None,
    ) -> None:
        self._after_commit = after_commit
        self._connection = connection
        self._name = name
        self._cut_off = cut_off
        self._pipeline = Pipeline(connection)

    def begin(self) -> None:
        self._pipeline.put("BEGIN")

    def begin_reading(self) -> None:
        self._pipeline.put("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Somebody may read the output of a command page by page.
        self._pipeline.put("SET LOCAL idle_in_transaction_session_timeout = 0")

    def commit(self) -> None:
        self.run("COMMIT")
        if self._after_commit is not None:
            after_commit, self._after_commit = self._after_commit, None
            after_commit(self)

    def rollback(self) -> None:
        self._pipeline.clear()
        status = self._connection.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            try:
                self._pipeline.answer("ROLLBACK")
            except psycopg.Error:
                return

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        with self._errors():
            return self._pipeline.rows(self._pipeline.answer(statement, parameters))

    def run(self, statement: str, parameters: Sequence[object] = ()) -> int:
        with self._errors():
            return self._pipeline.answer(statement, parameters).command_tuples or 0

    def run_many(self, statement: str, parameters: Iterable[Sequence[object]]) -> None:
        with self._errors():
            for each in parameters:
                self._pipeline.put(statement, each)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with _errors(self._name):
            try:
                yield
            except psycopg.errors.QueryCanceled:
                self._cut_off()
                raise


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
