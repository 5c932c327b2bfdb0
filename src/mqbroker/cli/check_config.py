"""``mqbroker check config``."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from mqbroker.cli.options import JSON, instance_option
from mqbroker.cli.output import print_json
from mqbroker.cli.status import BadUsage, CommandError


@click.command(epilog="Example: mqbroker check config /var/lib/mybroker/etc/broker.xml -D name=value")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@instance_option
@click.option("--properties", "property_files", multiple=True, type=click.Path(dir_okay=False), help="Properties file applied on top.")
@click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="What ${NAME} stands for in the file.")
@JSON
def config(file: Path | None, instance: Path | None, property_files: tuple[str, ...], definitions: tuple[str, ...], as_json: bool) -> None:
    """Check a broker.xml without starting a broker.

    Every error and warning is printed with file and line. The exit status is 0 when a broker would start with it, warnings or not.
    """
    from mqbroker.checks import check_loaded
    from mqbroker.config.instance import read_instance
    from mqbroker.config.parse import ConfigurationError, load_configuration

    if file is None and instance is None:
        raise BadUsage("which file? Give FILE or --instance DIR")
    given = _definitions(definitions)
    try:
        if file is not None:
            loaded = load_configuration(str(file), _read, dict(os.environ) | given, property_files)
            check_loaded(loaded, str(file), _login_domains(file.parent / "login.config"))
        else:
            assert instance is not None
            found = read_instance(str(instance.absolute()), _read, os.environ, given)
            file = Path(found.broker_xml)
            found.property_files = (*found.property_files, *property_files)
            loaded = found.load(_read)
            check_loaded(loaded, str(file), found.login_config)
    except ConfigurationError as error:
        if as_json:
            print_json(
                {"file": str(file or instance), "valid": False, "errors": [_json(problem) for problem in error.problems], "warnings": []}
            )
            raise CommandError(f"{len(error.problems)} error(s)") from error
        raise CommandError("\n".join(f"ERROR {problem}" for problem in error.problems)) from error
    if as_json:
        print_json({"file": str(file), "valid": True, "errors": [], "warnings": [_json(problem) for problem in loaded.warnings]})
        return
    for problem in loaded.warnings:
        click.echo(f"WARNING {problem}")
    click.echo(f"{file} is valid, {len(loaded.warnings)} warning(s)")


def _json(problem: Any) -> dict[str, object]:
    return {"file": problem.file, "line": problem.line, "text": problem.text}


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _login_domains(login_config: Path) -> Collection[str]:
    """The entries of a login.config beside broker.xml.  Raises :class:`mqbroker.config.problems.ConfigurationError`."""
    from mqbroker.config.jaas import JaasError, parse_login_config
    from mqbroker.config.problems import ConfigurationError, Problem

    try:
        return parse_login_config(login_config.read_text(encoding="utf-8")) if login_config.exists() else ()
    except JaasError as error:
        raise ConfigurationError([Problem(str(login_config), error.line, error.text)]) from error


def _definitions(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise BadUsage(f"-D {text}: expected NAME=VALUE")
        found[name] = value
    return found
