"""The instance that a command is about: its folder, its options as properties, its broker.xml, and whether a broker runs on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqbroker.cli.status import BadUsage, CommandError

if TYPE_CHECKING:
    from mqbroker.config.model.configuration import Configuration
    from mqbroker.storage.disk.nodelock import NodeLock

DEFAULT_NAME = "imqbroker"
VARHOME = "IMQ_VARHOME"
LIBHOME = "IMQ_LIBHOME"
DEFAULT_VARHOME = "/var/imq"
INSTALLATION = "props/broker/install.properties"


def version_option() -> click.Option:
    """``-v``, for a group of commands."""

    def show(context: click.Context, option: click.Parameter, wanted: bool) -> None:
        if wanted:
            from mqbroker import __version__

            click.echo(f"mqbroker {__version__}")
            context.exit()

    return click.Option(
        ["-version", "-v"], is_flag=True, is_eager=True, expose_value=False, callback=show, help="Print the version and end."
    )


def definitions_of(words: Sequence[str]) -> dict[str, str]:
    """The properties of ``-D``.  Raises BadUsage."""
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name:
            raise BadUsage(f"-D{word}: expected -Dname=value")
        found[name] = value
    return found


def installation_of(libhome: Path | None) -> str | None:
    """The file with the properties of the installation."""
    folder = libhome or (Path(os.environ[LIBHOME]) if LIBHOME in os.environ else None)
    return None if folder is None else str((folder / INSTALLATION).absolute())


def passfile_properties(passfile: Path | None) -> dict[str, str]:
    """The properties that stand for ``-passfile``."""
    if passfile is None:
        return {}
    path = passfile.absolute()
    return {"imq.passfile.enabled": "true", "imq.passfile.dirpath": str(path.parent), "imq.passfile.name": path.name}


def instance_folder(varhome: Path | None, name: str) -> Path:
    """The folder of the instance with this name.  Raises BadUsage for a name that none can have."""
    if not name.replace("_", "").isalnum():
        raise BadUsage(f"-name {name}: expected letters, digits and _")
    return (varhome or Path(os.environ.get(VARHOME, DEFAULT_VARHOME))).absolute() / "instances" / name


def read_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def read_broker_xml(folder: Path, definitions: Mapping[str, str]) -> Configuration | None:
    """The configuration in the broker.xml of an instance; None for one without files.  Raises CommandError if it cannot be read."""
    from mqbroker.config.instance.instance import read_instance
    from mqbroker.config.problems import ConfigurationError

    if not (folder / "etc" / "bootstrap.xml").exists():
        return None
    try:
        return read_instance(str(folder), read_bytes, os.environ, definitions).load(read_bytes).configuration
    except (ConfigurationError, OSError) as error:
        raise CommandError(str(error)) from error


@contextmanager
def stopped(folder: Path, definitions: Mapping[str, str], action: str, broken_may_be: bool = False) -> Iterator[NodeLock | None]:
    """No broker runs on the instance meanwhile.  Gives the lock of its folder, None where no broker has ever run.

    Raises CommandError where a broker runs.  ``broken_may_be``: where the broker.xml cannot be read, the lock is where it is as a rule.
    """
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.disk.nodelock import NodeLock
    from mqbroker.storage.errors import StorageError

    directory = _lock_directory(folder, definitions, broken_may_be)
    if directory is None or not directory.is_dir():
        yield None
        return
    lock = NodeLock(LocalFileSystem(), str(directory))
    try:
        lock.acquire()
    except (StorageError, OSError) as error:
        raise CommandError(f"{action}: a broker runs on this instance, stop it first: {error}") from error
    try:
        yield lock
    finally:
        lock.release()


def _lock_directory(folder: Path, definitions: Mapping[str, str], broken_may_be: bool) -> Path | None:
    """The folder of the instance's locks; None for one without files.  Properties do not change it, so wrong ones do no harm here."""
    try:
        configuration = read_broker_xml(folder, definitions)
    except CommandError:
        if broken_may_be:
            return folder / "data" / "journal"
        raise
    return None if configuration is None else Path(configuration.node_manager_lock_directory or configuration.journal_directory)
