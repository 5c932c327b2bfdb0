"""``mqbroker check config``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from mqbroker.cli.options import JSON, instance_option
from mqbroker.cli.output import print_json
from mqbroker.cli.status import BadUsage, CommandError


@click.command(epilog="Example: mqbroker check config /var/lib/mybroker/etc/broker.xml -D name=value")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@instance_option
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), default=".", help="Folder that relative paths in FILE start from."
)
@click.option("--properties", "property_files", multiple=True, type=click.Path(dir_okay=False), help="Properties file that overrides FILE.")
@click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="Value of ${NAME} in FILE.")
@JSON
def config(
    file: Path | None, instance: Path | None, data: Path, property_files: tuple[str, ...], definitions: tuple[str, ...], as_json: bool
) -> None:
    """Check a broker.xml without starting a broker.

    The check reads everything that a start reads: the configuration, login.config with the users and roles files, key stores and trust
    stores. Every error and warning is printed with file and line. The exit status is 0 if a broker would start, even with warnings.
    """
    from mqbroker.checks import odd_settings
    from mqbroker.config.problems import ConfigurationError, Problem
    from mqbroker.settings import read_file, settings_from_file, settings_from_instance

    if file is None and instance is None:
        raise BadUsage("which file? Give FILE or --instance DIR")
    given = _definitions(definitions)
    name = str(file or instance)
    try:
        if file is not None:
            settings = settings_from_file(file, data, property_files, os.environ | given)
        else:
            assert instance is not None
            settings = settings_from_instance(instance.absolute(), property_files, os.environ, given)
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


def _definitions(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise BadUsage(f"-D {text}: expected NAME=VALUE")
        found[name] = value
    return found
