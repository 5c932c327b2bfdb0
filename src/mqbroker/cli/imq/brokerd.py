"""``mqbroker imq brokerd``: makes an instance of Open Message Queue if there is none, and runs it, with the options of ``imqbrokerd``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.options import without_effect
from mqbroker.cli.start.create import write_instance
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.config.imq.files import PROPERTIES_FILE

if TYPE_CHECKING:
    from mqbroker.cli.imq.dbmgr import DatabaseTarget

DEFAULT_NAME = "imqbroker"
RESETS = ("store", "messages", "durables", "props")
_VARHOME = "IMQ_VARHOME"
_LIBHOME = "IMQ_LIBHOME"
_DEFAULT_VARHOME = "/var/imq"
_INSTALLATION = "props/broker/install.properties"
_JAVA_FLAGS = ("-bgnd", "-silent", "-s", "-tty", "-save", "-shared", "-upgrade-store-nobackup", "-license")
_JAVA_VALUES = (
    "-vmargs",
    "-javahome",
    "-jrehome",
    "-imqhome",
    "-threads",
    "-metrics",
    "-loglevel",
    "-ldappassword",
)


@click.command(
    epilog="Example: mqbroker imq brokerd -varhome /var/imq -name b1 -port 7676 -Dimq.cluster.url=file:/etc/imq/cluster.properties"
)
@click.option("-name", "name", default=DEFAULT_NAME, show_default=True, help="Name of the instance.")
@click.option(
    "-varhome",
    "varhome",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Folder of instances. Default: ${_VARHOME}, or {_DEFAULT_VARHOME}.",
)
@click.option(
    "-libhome", "libhome", type=click.Path(path_type=Path, file_okay=False), help=f"Folder with {_INSTALLATION}. Default: ${_LIBHOME}."
)
@click.option("-port", "port", type=click.IntRange(1, 65535), help="Port of clients and links: imq.portmapper.port.")
@click.option("-cluster", "cluster", help="More members, host:port with commas between: imq.cluster.brokerlist.manual.")
@click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="A property; also stands for ${NAME} in broker.xml.")
@click.option("-backup", "backup", type=click.Path(path_type=Path), help="Write the change record to a new file; the broker is the master.")
@click.option("-restore", "restore", type=click.Path(path_type=Path), help="Take over the change record in a file.")
@click.option(
    "-reset",
    "resets",
    multiple=True,
    type=click.Choice(RESETS),
    help="Forget the store, its messages or durable subscriptions, or the properties.",
)
@click.option("-remove", "remove", type=click.Choice(["instance"]), help="Remove the instance instead of running it.")
@click.option("-force", "-f", "force", is_flag=True, help="With -remove: do not ask.")
@click.option("-password", "password", help="Password of the key store: imq.keystore.password.")
@click.option("-passfile", "passfile", type=click.Path(path_type=Path), help="File with passwords: imq.passfile.name.")
@click.option("-dbuser", "dbuser", help="User of the database of the messages, in the place of the property's.")
@click.option("-dbpassword", "dbpassword", help="Password of that user, in the place of the property's.")
@click.option("-version", "-v", "version", is_flag=True, help="Print the version and end.")
@without_effect(*_JAVA_FLAGS, values=_JAVA_VALUES)
def brokerd(name: str, varhome: Path | None, **options: Any) -> None:
    """Run an instance in the foreground; a folder is made for a new one.

    The instance is an ordinary instance folder below VARHOME/instances, so that `mqbroker run`, `stop`, `check` and `data` work on it, too.
    Options of `imqbrokerd` about Java are accepted without effect.
    """
    if options["version"]:
        from mqbroker import __version__

        click.echo(f"mqbroker {__version__}")
        return
    folder = instance_folder(varhome, name)
    if options["remove"]:
        _remove(folder, options["force"], definitions_of(options["definitions"]))
        return
    if not (folder / "etc" / "bootstrap.xml").exists():
        _create(folder)
    for what in options["resets"]:
        if what == "store":
            _reset_store(name, varhome, options)
        elif what == "props":
            _reset_properties(folder)
    _check_record_files(options["backup"], options["restore"])
    arguments = ["--instance", str(folder), *daemon_arguments(options), *_database_arguments(name, varhome, options)]
    sys.stdout.flush()
    # The process becomes the broker: the starting program keeps the process id, and no memory of the command line is left.
    os.execv(sys.executable, [sys.executable, "-m", "mqbroker.cli.daemon", *arguments])


def daemon_arguments(options: dict[str, Any]) -> list[str]:
    """What the process of the broker is told, beside its folder."""
    arguments: list[str] = []
    definitions_of(options["definitions"])  # raises
    for definition in options["definitions"]:
        arguments += ["--define", definition]
    passfile = options["passfile"]
    properties = {
        "imq.portmapper.port": options["port"],
        "imq.cluster.brokerlist.manual": options["cluster"],
        "imq.keystore.password": options["password"],
    }
    if passfile is not None:
        path = passfile.absolute()
        properties |= {"imq.passfile.enabled": "true", "imq.passfile.dirpath": path.parent, "imq.passfile.name": path.name}
    for key, value in properties.items():
        if value is not None:
            arguments += ["--imq-option", f"{key}={value}"]
    installation = installation_of(options["libhome"])
    if installation is not None:
        arguments += ["--imq-installation", installation]
    for what in options["resets"]:
        if what in ("messages", "durables"):
            arguments += ["--imq-reset", what]
    for key in ("backup", "restore"):
        if options[key] is not None:
            arguments += [f"--imq-{key}", str(options[key].absolute())]
    return arguments


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
    folder = libhome or (Path(os.environ[_LIBHOME]) if _LIBHOME in os.environ else None)
    return None if folder is None else str((folder / _INSTALLATION).absolute())


def instance_folder(varhome: Path | None, name: str) -> Path:
    """Where the instance of this name is.  Raises BadUsage for a name that none can have."""
    if not name.replace("_", "").isalnum():
        raise BadUsage(f"-name {name}: expected letters, digits and _")
    return (varhome or Path(os.environ.get(_VARHOME, _DEFAULT_VARHOME))).absolute() / "instances" / name


def _create(folder: Path) -> None:
    from mqbroker.cli.imq.instance_files import imq_instance_files

    write_instance(folder, "data", imq_instance_files(folder, sys.executable, lambda: os.urandom(32)))
    click.echo(f"Created instance {folder}")
    click.echo("Its users are admin and guest, whose passwords are their names: change them with `mqbroker user reset`")


def _database_arguments(name: str, varhome: Path | None, options: dict[str, Any]) -> list[str]:
    """User and password of the database, as the properties of its vendor."""
    given = [(key, options[f"db{key}"]) for key in ("user", "password") if options[f"db{key}"] is not None]
    if not given:
        return []
    databases = _target(name, varhome, options).databases()
    if databases.store is None:
        click.echo("-dbuser and -dbpassword have no effect: the messages are not in a database", err=True)
        return []
    return [word for key, value in given for word in ("--imq-option", f"{databases.prefix}.{key}={value}")]


def _target(name: str, varhome: Path | None, options: dict[str, Any]) -> DatabaseTarget:
    from mqbroker.cli.imq.dbmgr import DatabaseTarget

    known = options["definitions"], options["passfile"], options["dbuser"], options["dbpassword"]
    return DatabaseTarget(name, varhome, options["libhome"], *known)


def _reset_database(name: str, varhome: Path | None, options: dict[str, Any]) -> bool:
    """Forget the messages of an instance that keeps them in a database; false for a member of an enhanced cluster, whose data stay."""
    target = _target(name, varhome, options)
    databases = target.databases()
    if databases.store is None or databases.enhanced:
        return not databases.enhanced
    from mqbroker.storage.sql.schema import prepare
    from mqbroker.storage.sql.session import drop

    with target.connected(databases.store) as (database, connection):
        prepare(database, connection)
        drop(connection, databases.broker_id or "")
    return True


def _reset_store(name: str, varhome: Path | None, options: dict[str, Any]) -> None:
    folder = instance_folder(varhome, name)
    with _stopped(folder, definitions_of(options["definitions"]), "-reset store"):
        if not _reset_database(name, varhome, options):
            click.echo("-reset store is ignored in an enhanced cluster: its brokers share their data", err=True)
            return
        try:
            if (folder / "data").exists():
                shutil.rmtree(folder / "data")
            (folder / "data").mkdir()
        except OSError as error:
            raise CommandError(f"-reset store: {error}") from error


def _reset_properties(folder: Path) -> None:
    try:
        (folder / PROPERTIES_FILE).write_text("", encoding="utf-8")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CommandError(f"-reset props: {error}") from error


def _remove(folder: Path, force: bool, definitions: dict[str, str]) -> None:
    if not folder.exists():
        raise CommandError(f"There is no instance {folder.name} in {folder.parent}")
    if not force and not click.confirm(f"Do you want to remove instance {folder.name} with all its messages?", default=False):
        click.echo("The instance was not removed.")
        return
    with _stopped(folder, definitions, "-remove instance", broken_may_be=True):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise CommandError(f"cannot remove the instance: {error}") from error
    click.echo(f"Removed instance {folder.name}.")


@contextmanager
def _stopped(folder: Path, definitions: dict[str, str], action: str, broken_may_be: bool = False) -> Iterator[None]:
    """No broker runs on the instance meanwhile.  Raises CommandError where one does."""
    from mqbroker.process.localfs import LocalFileSystem
    from mqbroker.storage.disk.nodelock import NodeLock
    from mqbroker.storage.errors import StorageError

    directory = _lock_directory(folder, definitions, broken_may_be)
    if directory is None or not directory.is_dir():
        yield  # no broker has ever run there
        return
    lock = NodeLock(LocalFileSystem(), str(directory))
    try:
        lock.acquire()
    except (StorageError, OSError) as error:
        raise CommandError(f"{action}: a broker runs on this instance, stop it first: {error}") from error
    try:
        yield
    finally:
        lock.release()


def _lock_directory(folder: Path, definitions: dict[str, str], broken_may_be: bool) -> Path | None:
    """Where the locks of the instance are; None for one without files.  Properties do not change it, so wrong ones do no harm here.

    ``broken_may_be``: where the broker.xml cannot be read, where they are as a rule.
    """
    from mqbroker.config.instance.instance import read_instance
    from mqbroker.config.problems import ConfigurationError

    def read_file(path: str) -> bytes:
        return Path(path).read_bytes()

    if not (folder / "etc" / "bootstrap.xml").exists():
        return None
    try:
        configuration = read_instance(str(folder), read_file, os.environ, definitions).load(read_file).configuration
    except (ConfigurationError, OSError) as error:
        if broken_may_be:
            return folder / "data" / "journal"
        raise CommandError(str(error)) from error
    return Path(configuration.node_manager_lock_directory or configuration.journal_directory)


def _check_record_files(backup: Path | None, restore: Path | None) -> None:
    if backup is not None and restore is not None:
        raise BadUsage("-backup and -restore: expected one of them")
    if backup is not None and backup.exists():
        raise CommandError(f"-backup {backup}: the file exists already; expected a new one")
    if restore is not None and not restore.is_file():
        raise CommandError(f"-restore {restore}: there is no such file")
