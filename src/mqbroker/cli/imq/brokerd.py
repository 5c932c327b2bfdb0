"""``mqbroker imq brokerd``: makes an instance of Open Message Queue if there is none, and runs it, with the options of ``imqbrokerd``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mqbroker.cli.daemon import become_broker
from mqbroker.cli.imq.dbmgr import DatabaseTarget
from mqbroker.cli.imq.instances import (
    DEFAULT_NAME,
    DEFAULT_VARHOME,
    INSTALLATION,
    LIBHOME,
    VARHOME,
    definitions_of,
    installation_of,
    passfile_properties,
    read_broker_xml,
    stopped,
)
from mqbroker.cli.options import FOLDER, PATH, without_effect
from mqbroker.cli.start.create import write_instance
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.config.imq.files import GIVEN_PROPERTIES, PREFIX, PROPERTIES_FILE
from mqbroker.config.properties.properties import PropertiesError, parse_properties

TAKEOVER_THEN_EXIT = "takeover-then-exit"
RESETS = ("store", "messages", "durables", "props", TAKEOVER_THEN_EXIT)
_JAVA_FLAGS = (
    *("-bgnd", "-silent", "-s", "-tty", "-ttyerrors", "-te", "-save", "-shared", "-upgrade-store-nobackup", "-license"),
    *("-startRmiRegistry", "-useRmiRegistry"),
)
_JAVA_VALUES = (
    "-adminkeyfile",
    "-vmargs",
    "-javahome",
    "-jrehome",
    "-imqhome",
    "-threads",
    "-metrics",
    "-loglevel",
    "-ldappassword",
    "-ldappwd",
    "-rmiRegistryPort",
)


@click.command(
    epilog="Example: mqbroker imq brokerd -varhome /var/imq -name b1 -port 7676 -Dimq.cluster.url=file:/etc/imq/cluster.properties"
)
@click.option("-name", "name", default=DEFAULT_NAME, show_default=True, help="Name of the instance.")
@click.option("-varhome", "varhome", type=FOLDER, help=f"Folder of instances. Default: ${VARHOME}, or {DEFAULT_VARHOME}.")
@click.option("-libhome", "libhome", type=FOLDER, help=f"Folder with {INSTALLATION}. Default: ${LIBHOME}.")
@click.option("-port", "port", type=click.IntRange(1, 65535), help="Port of clients and links: imq.portmapper.port.")
@click.option("-cluster", "cluster", help="More members, host:port with commas between: imq.cluster.brokerlist.manual.")
@click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="A property; also stands for ${NAME} in broker.xml.")
@click.option("-backup", "backup", type=PATH, help="Write the change record to a new file; the broker is the master.")
@click.option("-restore", "restore", type=PATH, help="Take over the change record in a file.")
@click.option(
    "-reset",
    "resets",
    multiple=True,
    type=click.Choice(RESETS),
    help="Forget the store, its messages or durable subscriptions, or the properties; or end the takeovers that were begun, and exit.",
)
@click.option("-remove", "remove", type=click.Choice(["instance"]), help="Remove the instance instead of running it.")
@click.option("-force", "-f", "force", is_flag=True, help="With -remove: do not ask.")
@click.option("-password", "-pwd", "password", help="Password of the key store: imq.keystore.password.")
@click.option("-passfile", "passfile", type=PATH, help="File with passwords: imq.passfile.name.")
@click.option("-dbuser", "dbuser", help="User of the database of the messages, in the place of the property's.")
@click.option("-dbpassword", "-dbpwd", "dbpassword", help="Password of that user, in the place of the property's.")
@click.option("-read-stdin", "read_stdin", is_flag=True, help="Read properties from standard input up to its end, passwords among them.")
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
    known = options["definitions"], options["passfile"], options["dbuser"], options["dbpassword"]
    target = DatabaseTarget(name, varhome, options["libhome"], *known)
    folder = target.folder
    if options["remove"]:
        _remove(folder, options["force"], target.defined)
        return
    options["read"] = _read_properties() if options["read_stdin"] else {}
    exits = TAKEOVER_THEN_EXIT in options["resets"]
    if not exits and not (folder / "etc" / "bootstrap.xml").exists():
        _create(folder)
    for what in options["resets"]:
        if what == "store":
            _reset_store(target, options["read"])
        elif what == "props":
            _reset_properties(target)
    if exits:
        _end_takeovers(target, options)
        return
    _check_record_files(options["backup"], options["restore"])
    arguments = ["--instance", str(folder), *daemon_arguments(options)]
    database = _database_properties(target, options["read"])
    for key, value in database.items():
        arguments += ["--imq-option", f"{key}={value}"]
    read = _over(option_properties(options) | database, options["read"])
    if read:
        # Others on this machine see the command line; and a broker that begins anew has its environment still.
        os.environ[GIVEN_PROPERTIES] = json.dumps(read)
    become_broker(arguments)


def daemon_arguments(options: dict[str, Any]) -> list[str]:
    """Arguments for the process of the broker, beside its folder."""
    arguments: list[str] = []
    definitions_of(options["definitions"])  # raises
    for definition in options["definitions"]:
        arguments += ["--define", definition]
    for key, value in option_properties(options).items():
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


def option_properties(options: dict[str, Any]) -> dict[str, str]:
    """The options that are properties."""
    given = {
        "imq.portmapper.port": options["port"],
        "imq.cluster.brokerlist.manual": options["cluster"],
        "imq.keystore.password": options["password"],
    }
    return {key: str(value) for key, value in given.items() if value is not None} | passfile_properties(options["passfile"])


def _read_properties() -> dict[str, str]:
    """The properties on standard input.  Raises BadUsage."""
    try:
        return {each.key: each.value for each in parse_properties(sys.stdin.read()) if each.key.startswith(PREFIX)}
    except (PropertiesError, ValueError) as error:
        raise BadUsage(f"-read-stdin: {error}") from error


def _over(given: dict[str, str], read: dict[str, str]) -> dict[str, str]:
    """The properties of standard input that count: all of them but passwords that options give, as with ``imqbrokerd``."""
    return {key: value for key, value in read.items() if key not in given or "password" not in key}


def _create(folder: Path) -> None:
    from mqbroker.cli.imq.instance_files import imq_instance_files

    write_instance(folder, "data", imq_instance_files(folder, sys.executable, lambda: os.urandom(32)))
    click.echo(f"Created instance {folder}")
    click.echo("Its users are admin and guest, whose passwords are their names: change them with `mqbroker user reset`")


def _database_properties(target: DatabaseTarget, read: dict[str, str]) -> dict[str, str]:
    """User and password of the database, as the properties of its vendor."""
    given = {key: value for key, value in (("user", target.user), ("password", target.password)) if value is not None}
    if not given:
        return {}
    databases = target.databases(**read)
    if databases.store is None:
        click.echo("-dbuser and -dbpassword have no effect: the messages are not in a database", err=True)
        return {}
    return {f"{databases.prefix}.{key}": value for key, value in given.items()}


def _reset_database(target: DatabaseTarget, read: dict[str, str]) -> bool:
    """Forget the messages of an instance that keeps them in a database; false for a member of an enhanced cluster, whose data stay."""
    databases = target.databases(**read)
    if databases.store is None or databases.enhanced:
        return not databases.enhanced
    from mqbroker.storage.sql.schema import prepare
    from mqbroker.storage.sql.session import drop

    with target.connected(databases.store) as (database, connection):
        prepare(database, connection)
        drop(connection, databases.broker)
    return True


def _reset_store(target: DatabaseTarget, read: dict[str, str]) -> None:
    with stopped(target.folder, target.defined, "-reset store"):
        if not _reset_database(target, read):
            click.echo("-reset store is ignored in an enhanced cluster: its brokers share their data", err=True)
            return
        try:
            for folder in _data_folders(target):
                if folder in (target.folder, *target.folder.parents):
                    raise CommandError(f"-reset store: {folder} has more in it than a store")
                _empty(folder)
        except OSError as error:
            raise CommandError(f"-reset store: {error}") from error


def _data_folders(target: DatabaseTarget) -> Iterator[Path]:
    """The folders of the store, wherever the broker.xml has them, and the one in which they are as a rule."""
    configuration = read_broker_xml(target.folder, target.defined)
    if configuration is not None:
        yield Path(configuration.journal_directory)
        yield Path(configuration.bindings_directory)
        yield Path(configuration.large_messages_directory)
        yield Path(configuration.paging_directory)
    yield target.folder / "data"


def _empty(folder: Path) -> None:
    """Remove what is in a folder; the folder itself may be a link, or a disk that is mounted there.  Raises OSError."""
    for entry in folder.iterdir() if folder.exists() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _end_takeovers(target: DatabaseTarget, options: dict[str, Any]) -> None:
    from mqbroker.cli.imq.takeovers import end_takeovers
    from mqbroker.config.imq.instance import ImqStart

    _check_instance(target.folder)
    properties = option_properties(options) | _database_properties(target, options["read"])
    properties |= _over(properties, options["read"])
    end_takeovers(target.folder, ImqStart(target.defined, properties, installation_of(options["libhome"])))


def _reset_properties(target: DatabaseTarget) -> None:
    with stopped(target.folder, target.defined, "-reset props", broken_may_be=True):
        try:
            (target.folder / PROPERTIES_FILE).write_text("", encoding="utf-8")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise CommandError(f"-reset props: {error}") from error


def _check_instance(folder: Path) -> None:
    if not folder.exists():
        raise CommandError(f"There is no instance {folder.name} in {folder.parent}")


def _remove(folder: Path, force: bool, definitions: dict[str, str]) -> None:
    _check_instance(folder)
    if not force and not click.confirm(f"Do you want to remove instance {folder.name} with all its messages?", default=False):
        raise CommandError("The instance was not removed.")
    with stopped(folder, definitions, "-remove instance", broken_may_be=True):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise CommandError(f"cannot remove the instance: {error}") from error
    click.echo(f"Removed instance {folder.name}.")


def _check_record_files(backup: Path | None, restore: Path | None) -> None:
    if backup is not None and restore is not None:
        raise BadUsage("-backup and -restore: expected one of them")
    if backup is not None and backup.exists():
        raise CommandError(f"-backup {backup}: the file exists already; expected a new one")
    if restore is not None and not restore.is_file():
        raise CommandError(f"-restore {restore}: there is no such file")
