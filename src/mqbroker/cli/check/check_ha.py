"""``mqbroker check ha``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mqbroker.cli.check.settings_files import SettingsFiles, settings_options
from mqbroker.cli.options import JSON
from mqbroker.cli.output import print_json
from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.ha.detection import Delay, Detection

_NOT_COUNTED = """\
Not counted: reading the journal; clients, which notice by connectionTTL and clientFailureCheckPeriod of their own URL (60 s unless
set there); the lease of an NFS server, which it keeps for a dead client (often 90 s)."""


@click.command(epilog="Example: mqbroker check ha --instance /var/lib/mybroker")
@settings_options
@JSON
def ha(as_json: bool, **options: Any) -> None:
    """Add up, by setting, how long the silent death of a broker goes unnoticed, and how long it takes until another one goes on.

    A broker dies silently when its machine or the network does. All times are upper bounds. The exit status is 1 if one is above 10
    seconds, if nobody would go on, or if a broker would not start with these files.
    """
    from mqbroker.availability import refusal, settings_detection
    from mqbroker.config.problems import ConfigurationError
    from mqbroker.ha.detection import LIMIT_SECONDS
    from mqbroker.process.mounts import read_mounts

    files = SettingsFiles(**options)
    mounts = read_mounts()
    try:
        settings = files.read()
    except ConfigurationError as error:
        raise CommandError("\n".join(f"ERROR {problem}" for problem in error.problems)) from error
    reason = refusal(settings, mounts)
    if reason is not None:
        raise CommandError(f"ERROR {reason}")
    found = settings_detection(settings, mounts)
    if found is None:
        raise CommandError(f"{files.name}: nobody goes on when this broker dies: ha-policy names no backup")
    if as_json:
        warnings = found.warnings
        print_json({"file": files.name, "limit": LIMIT_SECONDS, "delays": list(map(_json, found.delays)), "warnings": warnings})
    else:
        _print(found)
    if found.warnings:
        raise CommandError(f"{len(found.warnings)} warning(s)" if as_json else "\n".join(f"WARNING {text}" for text in found.warnings))


def _print(found: Detection) -> None:
    for delay in found.delays:
        click.echo(f"{delay.what}:")
        for share in delay.shares:
            click.echo(f"  {share.seconds:>8g} s  {share.setting}")
        click.echo(f"  {delay.seconds:>8g} s  in all\n")
    click.echo(_NOT_COUNTED)


def _json(delay: Delay) -> dict[str, object]:
    shares = [{"setting": share.setting, "seconds": round(share.seconds, 3)} for share in delay.shares]
    return {"what": delay.what, "seconds": round(delay.seconds, 3), "shares": shares}
