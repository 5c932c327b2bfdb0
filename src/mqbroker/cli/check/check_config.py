"""``mqbroker check config``."""

from __future__ import annotations

from typing import Any

import click

from mqbroker.cli.check.settings_files import SettingsFiles, settings_options
from mqbroker.cli.options import JSON
from mqbroker.cli.output import print_json
from mqbroker.cli.status import CommandError


@click.command(epilog="Example: mqbroker check config /var/lib/mybroker/etc/broker.xml -D name=value")
@settings_options
@JSON
def config(as_json: bool, **options: Any) -> None:
    """Check a broker.xml without starting a broker.

    The check reads everything that a start reads: the configuration, login.config with the users and roles files, key stores and trust
    stores. Every error and warning is printed with file and line. The exit status is 0 if a broker would start, even with warnings.
    """
    from mqbroker.checks import odd_settings
    from mqbroker.config.problems import ConfigurationError, Problem
    from mqbroker.settings import read_file

    files = SettingsFiles(**options)
    name = files.name
    try:
        settings = files.read()
    except ConfigurationError as error:
        if as_json:
            print_json({"file": name, "valid": False, "errors": [_json(problem) for problem in error.problems], "warnings": []})
            raise CommandError(f"{len(error.problems)} error(s)") from error
        raise CommandError("\n".join(f"ERROR {problem}" for problem in error.problems)) from error
    warnings = [*settings.warnings, *(Problem(name, 0, text) for text in odd_settings(settings, read_file))]
    if as_json:
        print_json({"file": name, "valid": True, "errors": [], "warnings": [_json(problem) for problem in warnings]})
        return
    for problem in warnings:
        click.echo(f"WARNING {problem}")
    click.echo(f"{name} is valid, {len(warnings)} warning(s)")


def _json(problem: Any) -> dict[str, object]:
    return {"file": problem.file, "line": problem.line, "text": problem.text}
