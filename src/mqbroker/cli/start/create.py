"""``mqbroker create``: a new instance folder, as ``artemis create`` lays it out."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click

from mqbroker.cli.options import FOLDER, JDBC_NAMES, together
from mqbroker.cli.start.instance_files import InstanceSettings, instance_files, parse_destinations
from mqbroker.cli.status import BadUsage, CommandError
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.messaging.routing.remote import LoadBalancing

SQLITE_URL: Final = "jdbc:sqlite:data/mqbroker.db"
_JAVA_FLAGS: Final = (
    "--cygwin",
    "--linux",
    "--no-amqp-acceptor",
    "--no-autotune",
    "--no-hornetq-acceptor",
    "--no-mqtt-acceptor",
    "--no-stomp-acceptor",
    "--no-web",
    "--relax-jolokia",
    "--support-advisory",
    "--suppress-internal-management-objects",
    "--use-client-auth",
    "--windows",
)
_JAVA_VALUES: Final = (
    "--encoding",
    "--home",
    "--http-host",
    "--http-port",
    "--java-memory",
    "--java-options",
    "--java-utility-options",
    *JDBC_NAMES,
    "--journal-device-block-size",
    "--journal-max-io",
    "--ssl-key",
    "--ssl-key-password",
    "--ssl-trust",
    "--ssl-trust-password",
)


_java_options = together(
    *(click.option(name, is_flag=True, hidden=True) for name in _JAVA_FLAGS),
    *(click.option(name, hidden=True, multiple=True) for name in _JAVA_VALUES),
)
"""Options of ``artemis create`` about Java and about protocols that are not spoken: accepted, so that scripts carry over."""


@click.command(epilog="Example: mqbroker create /var/lib/mybroker --user admin --password secret --require-login --host 127.0.0.1")
@click.argument("directory", type=FOLDER)
@click.option("--name", help="Name of the broker. Default: the host.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address that the broker listens on.")
@click.option("--default-port", type=click.IntRange(1, 65535), default=61616, show_default=True, help="Port of the acceptor 'artemis'.")
@click.option("--port-offset", type=click.IntRange(0, 65535), default=0, show_default=True, help="Number that is added to the port.")
@click.option("--user", help="The first user, who has all permissions. Asked for if missing.")
@click.option("--password", help="Password of the first user. Asked for if missing.")
@click.option("--role", default="amq", show_default=True, help="Role of the first user.")
@click.option(
    "--allow-anonymous/--require-login",
    "anonymous",
    default=None,
    help="Whether clients may connect without a login, with the rights of the first user.",
)
@click.option("--queues", default="", help="Queues to create, such as orders,news:multicast. Default routing type: anycast.")
@click.option("--addresses", default="", help="Addresses to create, such as news,orders:anycast. Default routing type: multicast.")
@click.option("--data", default="data", show_default=True, help="Folder of the journals: an absolute path, or one within the instance.")
@click.option("--etc", default="etc", hidden=True)
@click.option("--disable-persistence", is_flag=True, help="Keep nothing on disk: a restart loses all messages.")
@click.option("--no-fsync", is_flag=True, help="Do not wait for the disk: a crash of the machine loses messages.")
@click.option(
    "--nio", "journal_type", flag_value="NIO", help="Use journal-type NIO (the default; all three journal types behave alike here)."
)
@click.option("--aio", "journal_type", flag_value="ASYNCIO", help="Use journal-type ASYNCIO.")
@click.option("--mapped", "journal_type", flag_value="MAPPED", help="Use journal-type MAPPED.")
@click.option("--paging/--blocking", "paging", default=True, help="Whether a full address pages to disk (default) or blocks its producers.")
@click.option("--purge-page-folders", is_flag=True, help="Remove the folder of an address when it stops paging.")
@click.option(
    "--autocreate/--no-autocreate", "auto_create", default=True, help="Whether addresses and queues are created on first use. Default: yes."
)
@click.option("--autodelete", "auto_delete", is_flag=True, help="Delete addresses and queues once they are no longer used. Default: no.")
@click.option("--global-max-size", help="Maximum memory for all messages together, such as 500M. Default: chosen at start.")
@click.option("--global-max-messages", type=int, default=-1, show_default=True, help="Maximum number of messages in memory; -1: no limit.")
@click.option("--security-manager", type=click.Choice(["jaas", "basic"]), default="jaas", show_default=True, help="Where users are kept.")
@click.option("--clustered", is_flag=True, help="Join the brokers that announce themselves by multicast to 231.7.7.7, port 9876.")
@click.option(
    "--static-cluster", "--staticCluster", "static_cluster", metavar="URLS", help="Join the brokers at these URLs, separated by commas."
)
@click.option(
    "--max-hops", type=click.IntRange(0), default=1, show_default=True, help="How many brokers away messages may go in the cluster."
)
@click.option(
    "--message-load-balancing",
    type=click.Choice([each.value for each in LoadBalancing]),
    default="ON_DEMAND",
    show_default=True,
    help="Whether and when messages go to other brokers of the cluster.",
)
@click.option(
    "--cluster-user", default=None, help="User with which the brokers of a cluster log in. Asked for with --clustered if missing."
)
@click.option(
    "--cluster-password", default=None, help="Password of the cluster user, the same on all brokers. Asked for with --clustered if missing."
)
@click.option(
    "--shared-store",
    is_flag=True,
    help="Share the folder of --data, or with --jdbc the database, with other brokers, of which one is active. Implies --clustered.",
)
@click.option("--replicated", is_flag=True, help="Have a copy of the data on another broker, which may take over. Implies --clustered.")
@click.option("--backup", is_flag=True, help="With --shared-store or --replicated: be the backup. Default: be the primary.")
@click.option("--slave", is_flag=True, hidden=True)
@click.option("--failover-on-shutdown", is_flag=True, help="With --shared-store: another broker goes on also after an orderly stop.")
@click.option("--jdbc", is_flag=True, help="Keep messages in a database instead of files.")
@click.option(
    "--jdbc-connection-url",
    metavar="URL",
    default=SQLITE_URL,
    show_default=True,
    help="With --jdbc: which database; jdbc:postgresql://host:port/database for PostgreSQL.",
)
@click.option(
    "--jdbc-lock-expiration",
    type=click.IntRange(1),
    default=20000,
    show_default=True,
    help="With --jdbc and --shared-store: ms after which the lock of a silent broker is free.",
)
@click.option(
    "--jdbc-lock-renew-period",
    type=click.IntRange(1),
    default=4000,
    show_default=True,
    help="With --jdbc and --shared-store: ms between two renewals of that lock.",
)
@click.option("--jdbc-network-timeout", type=click.IntRange(1), default=20000, show_default=True, help="With --jdbc: ms for a statement.")
@click.option(
    "--ping",
    metavar="ADDRESS",
    default="",
    help="Host, or hosts with commas between: the broker is stopped while none of them answers a ping.",
)
@click.option("--force", is_flag=True, help="Overwrite the configuration of an existing instance. Its data is kept.")
@click.option("--silent", is_flag=True, help="Ask nothing. Defaults: user admin, password admin, login required.")
@click.option("--verbose", is_flag=True, help="Print every file that is written.")
@click.option("--journal-retention", hidden=True)
@_java_options
def create(directory: Path, **options: Any) -> None:
    """Create an instance folder for a broker in DIRECTORY.

    Options of `artemis create` that concern Java, its web console or other protocols are accepted without effect, except -Dname=value
    in --java-options, which sets the value of ${name} in broker.xml.
    """
    if options["journal_retention"]:
        text = "journal retention is not supported by this version; leave the option out to create a single broker"
        raise BadUsage(f"--journal-retention: {text}")
    options["backup"] |= options["slave"]  # the old name
    if options["etc"] != "etc":
        raise BadUsage("--etc: the configuration is in the folder etc of the instance, nowhere else")
    settings = _settings(directory, options)
    folder = directory.expanduser().absolute()
    if (folder / "etc" / "broker.xml").exists() and not options["force"]:
        raise CommandError(f"{folder} is already an instance: use --force to overwrite its configuration, or choose another folder")
    if options["failover_on_shutdown"] and not settings.shared_store:
        click.echo("--failover-on-shutdown has no effect without --shared-store", err=True)
    click.echo(f"Creating mqbroker instance at: {folder}")
    write_instance(folder, settings.data, instance_files(settings), options["verbose"])
    without_effect = [name for name in (*_JAVA_FLAGS, *_JAVA_VALUES) if options[name[2:].replace("-", "_")]]
    if all(word.startswith("-D") for word in _java_words(options)):
        without_effect = [name for name in without_effect if name != "--java-options"]
    if without_effect:
        click.echo(f"Without effect here: {', '.join(without_effect)}")
    if settings.shared_store and settings.database is not None:
        click.echo(f"All brokers of the pair need the same database, and data folders of their own: {settings.database.url}")
    elif settings.shared_store:
        click.echo(
            f"All brokers of the pair need the same data folder, on storage that each of them reaches: --data {folder / settings.data}"
        )
    script = shlex.quote(str(folder / "bin" / "mqbroker"))
    service = shlex.quote(str(folder / "bin" / "mqbroker-service"))
    click.echo(f"\nStart the broker with:\n\n   {script} run\n\nor in the background with:\n\n   {service} start\n")


def _settings(directory: Path, options: dict[str, Any]) -> InstanceSettings:
    _check_pair(options)
    port = options["default_port"] + options["port_offset"]
    if port > 65535:
        raise BadUsage(f"--port-offset: {options['default_port']} + {options['port_offset']} is more than 65535")
    asking = sys.stdin.isatty() and not options["silent"]
    static = _connectors(options["static_cluster"] or "")
    clustered = options["clustered"] or bool(static) or options["shared_store"] or options["replicated"]
    host, cluster_user, cluster_password = options["host"], options["cluster_user"], options["cluster_password"]
    if clustered:
        if host == "0.0.0.0":
            host = _missing("--host", "address at which other brokers reach this one", "localhost", options, asking)
        cluster_user = cluster_user or _missing("--cluster-user", "user of the brokers of the cluster", "cluster-admin", options, asking)
        cluster_password = cluster_password or _missing(
            "--cluster-password", "password of the brokers of the cluster", "password-admin", options, asking, hide=True
        )
    user = options["user"] or _missing("--user", "user name of the first user", "admin", options, asking)
    password = options["password"] or _missing("--password", "password of the first user", "admin", options, asking, hide=True)
    anonymous = options["anonymous"]
    if anonymous is None:
        anonymous = bool(click.confirm("Allow anonymous access?", default=False)) if asking else False
    names = {field.name for field in fields(InstanceSettings)} & options.keys()
    computed = {
        "folder": directory.expanduser().absolute(),
        "name": options["name"] or (options["host"] if options["host"] != "0.0.0.0" else socket.gethostname()),
        "host": host,
        "port": port,
        "user": user,
        "password": password,
        "anonymous": anonymous,
        "queues": parse_destinations(options["queues"], "--queues", "anycast"),
        "addresses": parse_destinations(options["addresses"], "--addresses", "multicast"),
        "persistence": not options["disable_persistence"],
        "datasync": not options["no_fsync"],
        "journal_type": options["journal_type"] or "NIO",
        "ping": _pinged(options["ping"]),
        "database": _database(options),
        "full_policy": "PAGE" if options["paging"] else "BLOCK",
        "cluster_user": cluster_user,
        "cluster_password": cluster_password,
        "clustered": clustered,
        "static_cluster": static,
        "salt": os.urandom(32),
        "python": sys.executable,
        "java_properties": [word for word in _java_words(options) if word.startswith("-D")],
    }
    return InstanceSettings(**{name: options[name] for name in names} | computed)


def _check_pair(options: Mapping[str, Any]) -> None:
    """Raises BadUsage for options of high availability that contradict each other."""
    shared, replicated = options["shared_store"], options["replicated"]
    if shared and replicated:
        raise BadUsage("--replicated: with --shared-store there are no copies; leave one of the two out")
    if options["backup"] and not (shared or replicated):
        raise BadUsage("--backup: a backup of what? Add --shared-store or --replicated")
    if options["disable_persistence"] and (shared or replicated):
        raise BadUsage("--disable-persistence: without data on disk there is nothing that another broker could go on with")


def _database(options: Mapping[str, Any]) -> DatabaseStoreConfiguration | None:
    """The database of ``--jdbc``.  Raises BadUsage for one that cannot be used."""
    if not options["jdbc"]:
        return None
    times = {name: options[f"jdbc_{name}"] for name in ("network_timeout", "lock_expiration", "lock_renew_period")}
    database = DatabaseStoreConfiguration(options["jdbc_connection_url"], **times)
    problem = database.problem()
    if problem is not None:
        raise BadUsage(f"--jdbc-connection-url: {problem}")
    problem = database.lease_problem()
    if problem is not None:
        raise BadUsage(f"--jdbc-lock-renew-period: {problem}")
    if options["disable_persistence"]:
        raise BadUsage("--jdbc: with --disable-persistence nothing is kept")
    if options["replicated"]:
        raise BadUsage("--jdbc: there are no files to copy; brokers that have one database need --shared-store")
    return database


def _java_words(options: Mapping[str, Any]) -> list[str]:
    return [word for text in options["java_options"] for word in text.split()]


def _pinged(hosts: str) -> str:
    """The value of ``--ping``.  Raises BadUsage for hosts that cannot be used."""
    if hosts:
        from mqbroker.reachability import places_of

        try:
            places_of(Configuration(network_check_list=hosts))
        except ValueError as error:
            raise BadUsage(f"--ping: {str(error).removeprefix('network-check-list: ')}") from error
    return hosts


def _connectors(urls: str) -> list[str]:
    """The URLs of ``--static-cluster``.  Raises BadUsage for one that cannot be used."""
    from mqclient.urls import UrlError, parse_transport_uri

    found = [url.strip() for url in urls.split(",") if url.strip()]
    for url in found:
        try:
            parse_transport_uri(url)
        except UrlError as error:
            raise BadUsage(f"--static-cluster: {error}") from error
    if urls and not found:
        raise BadUsage("--static-cluster: a URL such as tcp://host:61616 is expected")
    return found


def _missing(option: str, text: str, guess: str, options: dict[str, Any], asking: bool, *, hide: bool = False) -> str:
    if asking:
        return str(click.prompt(f"{option}: {text}", hide_input=hide, confirmation_prompt=hide))
    if options["silent"]:
        return guess
    raise BadUsage(f"{option} is needed: {text} (--silent takes '{guess}')")


def write_instance(folder: Path, data: str, files: Iterable[tuple[str, str, int]], verbose: bool = False) -> None:
    """Write the folders and ``files`` (path, text, permission bits) of an instance.

    Raises CommandError; then no file has changed.
    """
    written: list[tuple[Path, Path]] = []
    try:
        for name in ("bin", "etc", "data", "log", "tmp", "lock", "lib"):
            (Path(folder, data) if name == "data" else folder / name).mkdir(parents=True, exist_ok=True)
        for name, text, mode in files:
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            new = path.with_name(f"{path.name}.new")
            new.unlink(missing_ok=True)
            written.append((new, path))
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        for new, path in written:
            new.replace(path)
            if verbose:
                click.echo(f"  {path}")
    except OSError as error:
        for new, _ in written:
            with contextlib.suppress(OSError):
                new.unlink()
        raise CommandError(f"cannot write the instance: {error}") from error
