"""A PostgreSQL server of the tests: Debian's package, as an ordinary user, on a port of loopback that the system chooses."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from unittest import SkipTest

from mqbroker.process.postgresql import PostgresqlDatabase
from mqbroker.storage.sql import schema

START_SECONDS = 60
TIMEOUT_MS = 5000
MISSING = "PostgreSQL is not installed (Debian: apt-get install postgresql)"


def programs() -> Path | None:
    """The folder with the server's programs; None where they are not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


def refuse_without() -> None:
    """Raises SkipTest where PostgreSQL is not installed, and with ``CI=true`` AssertionError."""
    if programs() is not None:
        return
    if os.environ.get("CI", "").lower() == "true":
        raise AssertionError(f"{MISSING}, and CI=true demands it")
    raise SkipTest(MISSING)


class PostgresqlServer:
    """A server with its data in a new folder.  Raises CalledProcessError when it does not start.

    ``syncs``: commits wait for the disk, as where speed is measured.  Without that only a crash of the machine would lose any.
    """

    def __init__(self, syncs: bool = False) -> None:
        self._syncs = "on" if syncs else "off"
        self._with_tables: PostgresqlDatabase | None = None
        folder = programs()
        assert folder is not None, "PostgreSQL is not installed"
        self._programs = folder
        self._folder = Path(tempfile.mkdtemp(prefix="mqbroker-postgresql-"))
        self._user = _ordinary_user()
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        # Nobody else gets the port, also while the server is stopped, which may listen on it.
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(("127.0.0.1", 0))
        self.port: int = self._holder.getsockname()[1]
        data = self._folder / "data"
        self._run("initdb", "-D", str(data), "-U", "tests", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
        self.start()

    def start(self) -> None:
        network = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder} -c max_connections=50"
        settings = f"{network} -c fsync={self._syncs} -c full_page_writes={self._syncs}"
        self._run(
            "pg_ctl",
            "-D",
            str(self._folder / "data"),
            "-l",
            str(self._folder / "log"),
            "-w",
            "-t",
            str(START_SECONDS),
            "-o",
            settings,
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        """``immediate`` as a crash."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", mode, "-w", "stop")

    def close(self) -> None:
        self.stop("immediate")
        self._holder.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def database(self, timeout: int = TIMEOUT_MS, encoding: str = "UTF8", model: PostgresqlDatabase | None = None) -> PostgresqlDatabase:
        """A new database: an empty one, or as ``model``, to which nobody is connected."""
        name = f"mq{uuid.uuid4().hex}"
        connection = PostgresqlDatabase(self.place("postgres"), "tests", None, START_SECONDS * 1000).connect()
        connection.run(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE {'template0' if model is None else _name_of(model)}")
        connection.close()
        return PostgresqlDatabase(self.place(name), "tests", None, timeout)

    def database_with_tables(self) -> PostgresqlDatabase:
        """A new database with the tables of brokers, and nothing in them: the tables are made once for the server."""
        if self._with_tables is None:
            self._with_tables = self.database()
            connection = self._with_tables.connect()
            schema.prepare(self._with_tables, connection)
            connection.close()
        return self.database(model=self._with_tables)

    def database_again(self, database: PostgresqlDatabase, timeout: int) -> PostgresqlDatabase:
        """The same one with another time limit."""
        return PostgresqlDatabase(self.place(_name_of(database)), "tests", None, timeout)

    def place(self, name: str) -> dict[str, str]:
        return {"host": "127.0.0.1", "port": str(self.port), "dbname": name}

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=2 * START_SECONDS, user=self._user, cwd=self._folder)


@functools.cache
def common_server() -> PostgresqlServer:
    """The server of all tests of this process, which leave it at work; it ends with the process.

    Raises SkipTest where PostgreSQL is not installed, and with ``CI=true`` AssertionError.
    """
    refuse_without()
    server = PostgresqlServer()
    atexit.register(server.close)
    return server


def _name_of(database: PostgresqlDatabase) -> str:
    return database.name.rpartition("/")[2]


def _ordinary_user() -> str | None:
    """PostgreSQL does not run as root; None: this process is an ordinary user already."""
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL needs an ordinary user, and there is neither postgres nor nobody")
