"""The common part of all commands of ``mqbroker imq dbmgr``: the properties of an instance, and the databases that they name.

The commands work while the brokers are stopped, as those of ``imqdbmgr`` do.
"""

from __future__ import annotations

import os
import posixpath
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

from mqbroker.cli.imq.instances import (
    DEFAULT_NAME,
    definitions_of,
    installation_of,
    instance_folder,
    passfile_properties,
    read_broker_xml,
    read_bytes,
)
from mqbroker.cli.options import FOLDER, PATH, gathered, together, without_effect
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.config.imq.databases import Databases
    from mqbroker.config.model.database import DatabaseStoreConfiguration
    from mqbroker.storage.sql.database import Connection, Database

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = together(
    without_effect("-s", "-verbose", values=("-javahome", "-jrehome")),
    click.option("-p", "password", help="Password of the database, in the place of the property's."),
    click.option("-u", "user", help="User of the database, in the place of the property's."),
    click.option("-passfile", "passfile", type=PATH, help="File with passwords: imq.passfile.name."),
    click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="A property, above those of all files."),
    click.option("-libhome", "libhome", type=FOLDER, help="Folder of the installation."),
    click.option("-varhome", "varhome", type=FOLDER, help="Folder of instances."),
    click.option("-name", "-b", "name", default=DEFAULT_NAME, show_default=True, help="Name of the instance whose properties count."),
)


@dataclass(slots=True)
class DatabaseTarget:
    """The instance whose properties name the databases; it need not exist where ``definitions`` say everything."""

    name: str
    varhome: Path | None
    libhome: Path | None
    definitions: tuple[str, ...]
    passfile: Path | None
    user: str | None
    password: str | None

    @property
    def folder(self) -> Path:
        """The folder of the instance."""
        return instance_folder(self.varhome, self.name)

    @property
    def defined(self) -> dict[str, str]:
        """The properties of ``-D``."""
        return definitions_of(self.definitions)

    @property
    def holder(self) -> str:
        """The name under which this command holds a lock."""
        return f"{self.name}:{socket.gethostname()}:imqdbmgr"

    def databases(self, **properties: str) -> Databases:
        """The databases that the properties name; ``properties`` come before all others.  Raises CommandError with all errors."""
        from mqbroker.config.imq.databases import find_databases
        from mqbroker.config.imq.instance import ImqStart, read_imq_properties
        from mqbroker.config.imq.passwords import Passwords
        from mqbroker.config.problems import Findings

        options = dict(properties) | passfile_properties(self.passfile)
        folder = str(self.folder)
        start = ImqStart(self.defined, options, installation_of(self.libhome), environment=os.environ)
        findings = Findings()
        checked = read_imq_properties(folder, start, read_bytes, findings)
        passwords = Passwords(checked, posixpath.join(folder, "etc"), read_bytes, findings, self._key)
        found = None
        if not findings.errors:
            found = find_databases(checked, folder, passwords, findings, self._written_store, self.user, self.password)
        if found is None or findings.errors:
            raise CommandError("\n".join(map(str, findings.errors)))
        return found

    def _key(self) -> str:
        """The key of masked passwords."""
        from mqbroker.config.masking import codec_key

        configuration = read_broker_xml(self.folder, self.defined)
        return codec_key(None if configuration is None else configuration.password_codec, os.environ.get)

    def _written_store(self) -> DatabaseStoreConfiguration | None:
        configuration = read_broker_xml(self.folder, self.defined)
        return None if configuration is None else configuration.database_store

    def connected(self, configuration: DatabaseStoreConfiguration) -> AbstractContextManager[tuple[Database, Connection]]:
        """As :func:`connected`, with a file of SQLite relative to the instance."""
        return connected(configuration, self.folder)


@contextmanager
def connected(configuration: DatabaseStoreConfiguration, folder: Path) -> Iterator[tuple[Database, Connection]]:
    """The database and a connection to it; errors of both end the command with their text.

    A file of SQLite may be relative to ``folder``.
    """
    from mqbroker.process.databases import make_database
    from mqbroker.process.mounts import read_mounts
    from mqbroker.storage.sql.database import DatabaseAwayError, DatabaseError

    try:
        database = make_database(configuration, folder, read_mounts())
        connection = database.connect()
        try:
            yield database, connection
        finally:
            connection.close()
    except (DatabaseAwayError, DatabaseError, ValueError) as error:
        raise CommandError(str(error)) from error


def database_options(command: Callable[Concatenate[DatabaseTarget, P], R]) -> Callable[..., R]:
    """``-name``, ``-varhome`` and the others; the command gets them as its first argument."""
    return _OPTIONS(gathered(command, DatabaseTarget, (field.name for field in fields(DatabaseTarget))))
