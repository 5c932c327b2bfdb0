"""The databases of groups of brokers that meet failures: a file of SQLite, or a server of PostgreSQL that fails, too."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from mqbroker.process.sqlite import SqliteDatabase
from tests.integration.ha.failures.network import CONNECTIONS, has_socket, socket_of
from tests.integration.ha.failures.setups import SQLITE
from tests.interop.processes import ProcessFailed
from tests.support.postgresql import PostgresqlServer

ACTIVITY = "SELECT pid, client_port, state, wait_event_type, now() - xact_start, pg_blocking_pids(pid), query FROM pg_stat_activity"
IN_THE_MIDDLE = "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE ?"
CAUGHT_SECONDS = 30.0
LOOK_SECONDS = 0.01


class SqliteFile:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.url = f"jdbc:sqlite:{folder / 'mq.db'}"
        self.database = SqliteDatabase(str(folder / "mq.db"))

    def told(self) -> str:
        """Nothing runs that could say what it does."""
        return ""

    def close(self) -> None:
        """Nothing runs."""


class FailingPostgresql:
    """A server with one database."""

    def __init__(self) -> None:
        self._server = PostgresqlServer()
        self.database = self._server.database()
        self.url = f"jdbc:{self.database.name}?user=tests"

    def stop(self, mode: str) -> None:
        self._server.stop(mode)

    def start(self) -> None:
        self._server.start()

    def told(self) -> str:
        """What the sessions of the server do, and who waits for whom."""
        connection = self.database.connect()
        try:
            return "\n".join(str(row) for row in connection.rows(ACTIVITY))
        finally:
            connection.close()

    def close(self) -> None:
        self._server.close()

    @contextlib.contextmanager
    def catch(self, processes: Mapping[int, int]) -> Iterator[int]:
        """The number of a broker whose transaction waits in its middle, until the end of the block; ``processes`` are their ids by number.

        Raises ProcessFailed when none comes that far.
        """
        held, watch = self.database.connect(), self.database.connect()
        try:
            held.begin()
            held.run("LOCK TABLE mqbroker_message IN SHARE MODE")
            deadline = time.monotonic() + CAUGHT_SECONDS
            while (caught := self._caught(watch.rows(IN_THE_MIDDLE, ("%mqbroker_message%",)), processes)) is None:
                if time.monotonic() > deadline:
                    raise ProcessFailed(f"within {CAUGHT_SECONDS:g} s no broker has written messages")
                time.sleep(LOOK_SECONDS)
            yield caught
        finally:
            held.close()
            watch.close()

    def _caught(self, rows: list[tuple[object, ...]], processes: Mapping[int, int]) -> int | None:
        lines = CONNECTIONS.read_text().splitlines()[1:]
        for row in rows:
            inode = socket_of(int(str(row[0])), self._server.port, lines)
            for number, process in processes.items():
                if inode is not None and has_socket(process, inode):
                    return number
        return None


def make_database(kind: str, folder: Path) -> SqliteFile | FailingPostgresql:
    """One of the kind of a :class:`Setup`."""
    return SqliteFile(folder) if kind == SQLITE else FailingPostgresql()
