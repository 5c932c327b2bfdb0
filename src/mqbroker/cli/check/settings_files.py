"""The options of checks that read the settings of a broker from its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mqbroker.cli.options import FILE, FOLDER, instance_option, named_values, together
from mqbroker.cli.status import BadUsage

if TYPE_CHECKING:
    from mqbroker.config.instance.broker_settings import BrokerSettings

settings_options = together(
    click.argument("file", required=False, type=FILE),
    instance_option,
    click.option("--data", type=FOLDER, default=".", help="Folder that relative paths in FILE start from."),
    click.option(
        "--properties", "property_files", multiple=True, type=click.Path(dir_okay=False), help="Properties file that overrides FILE."
    ),
    click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="Value of ${NAME} in FILE."),
)


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """The values of :data:`settings_options`.  Raises :class:`BadUsage` when they name no file."""

    file: Path | None
    instance: Path | None
    data: Path
    property_files: tuple[str, ...]
    definitions: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.file is None and self.instance is None:
            raise BadUsage("which file? Give FILE or --instance DIR")

    @property
    def name(self) -> str:
        return str(self.file or self.instance)

    def read(self) -> BrokerSettings:
        """Raises :class:`mqbroker.config.problems.ConfigurationError`."""
        from mqbroker.settings import settings_from_file, settings_from_instance

        given = named_values(self.definitions, lambda word: BadUsage(f"-D {word}: expected NAME=VALUE"))
        if self.file is not None:
            return settings_from_file(self.file, self.data, self.property_files, os.environ | given)
        assert self.instance is not None
        return settings_from_instance(self.instance.absolute(), self.property_files, os.environ, given)
