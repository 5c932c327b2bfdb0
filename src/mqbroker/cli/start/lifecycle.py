"""``mqbroker run``, ``stop`` and ``kill``: the broker of an instance folder."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import click

from mqbroker.cli.daemon import become_broker
from mqbroker.cli.options import FILE, FOLDER, instance_option, verbose_option, without_effect
from mqbroker.cli.status import BadUsage, CommandError

TAKEN_SECONDS = 5.0
"""How long a running broker may take to notice the marker: ten times the period in which it looks."""
_CHECK_SECONDS = 0.1
_BOOTSTRAP = "bootstrap.xml"
_CONFIGURATION = click.argument("configuration", required=False)
_FILE = click.option("--broker", type=FILE, help="The broker.xml to use instead of the one that bootstrap.xml names.")


@click.command(epilog="Example: mqbroker run --instance /var/lib/mybroker")
@_CONFIGURATION
@instance_option
@click.option("--allow-kill", is_flag=True, help="Obey `mqbroker kill`: end at once, without an orderly shutdown. For tests.")
@click.option("--properties", help="Properties files, separated by commas, that override broker.xml; DIR/ means all files of that folder.")
@_FILE
@click.option("--journal", type=FOLDER, help="Folder of the messages. Default: as in broker.xml.")
@click.option("--bindings", type=FOLDER, help="Folder of the bindings. Default: as in broker.xml.")
@click.option("--large-messages", type=FOLDER, help="Folder of the large messages. Default: as in broker.xml.")
@click.option("--paging", type=FOLDER, help="Folder of paged messages. Default: as in broker.xml.")
@verbose_option
def run(
    configuration: str | None, instance: Path | None, allow_kill: bool, properties: str | None, verbose: bool, **paths: Path | None
) -> None:
    """Run the broker of an instance folder in the foreground.

    The folder may come from `mqbroker create` or from `artemis create`. CONFIGURATION is the URI of its bootstrap.xml, if --instance is
    not given. SIGTERM, Ctrl-C and `mqbroker stop` shut the broker down in order.
    """
    arguments = ["--instance", str(instance_folder(configuration, instance))]
    if allow_kill:
        arguments += ["--allow-kill"]
    if properties:
        arguments += ["--properties", properties]
    for name, path in paths.items():
        if path is not None:
            arguments += [f"--{name.replace('_', '-')}", str(path.absolute())]
    if verbose:
        click.echo(f"twistd -n --pidfile= mqbroker {' '.join(arguments)}")
    become_broker(arguments)


@click.command(epilog="Example: mqbroker stop --instance /var/lib/mybroker")
@_CONFIGURATION
@instance_option
@without_effect(values=("--broker",))
@verbose_option
def stop(configuration: str | None, instance: Path | None, verbose: bool) -> None:
    """Ask the broker of an instance folder to shut down in order.

    The broker removes the marker file etc/STOP_ME within half a second; this command then returns while the broker shuts down. If the
    marker is still there after 5 seconds, no broker is running: the command removes the marker and ends with status 1.
    """
    folder = instance_folder(configuration, instance)
    marker = _mark(folder, "STOP_ME", verbose)
    for _ in range(round(TAKEN_SECONDS / _CHECK_SECONDS)):
        time.sleep(_CHECK_SECONDS)
        if not marker.exists():
            return
    with contextlib.suppress(FileNotFoundError):
        marker.unlink()
        raise CommandError(f"no broker is running on {folder}, or it hangs: etc/STOP_ME has not been noticed within {TAKEN_SECONDS:g} s")


@click.command(epilog="Example: mqbroker kill --instance /var/lib/mybroker")
@_CONFIGURATION
@instance_option
@without_effect(values=("--broker",))
@verbose_option
def kill(configuration: str | None, instance: Path | None, verbose: bool) -> None:
    """End the broker of an instance folder at once, if it was started with --allow-kill."""
    _mark(instance_folder(configuration, instance), "KILL_ME", verbose)


def instance_folder(configuration: str | None, instance: Path | None) -> Path:
    """The absolute path of the instance.  Raises :class:`BadUsage` when there is none, or when it is none."""
    if configuration is not None:
        path = Path(configuration.removeprefix("xml:").removeprefix("file:"))
        if path.name != _BOOTSTRAP:
            raise BadUsage(
                f"{configuration}: expected the {_BOOTSTRAP} of an instance folder, such as xml:/var/lib/mybroker/etc/{_BOOTSTRAP}"
            )
        instance = path.parent.parent
    if instance is None:
        raise BadUsage("which broker? Give --instance DIR, or use the start script in the bin folder of the instance")
    if not (instance / "etc").is_dir():
        raise BadUsage(f"{instance} is not an instance folder: it has no folder etc (mqbroker create {instance} makes one)")
    return instance.resolve()


def _mark(instance: Path, name: str, verbose: bool) -> Path:
    marker = instance / "etc" / name
    marker.touch()
    if verbose:
        click.echo(f"created {marker}")
    return marker
