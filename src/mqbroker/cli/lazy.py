"""Groups of commands whose modules are imported only when one of their commands runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

Entry = tuple[str | click.Command, str]
"""A command, or where it is (``module:attribute``), and one line of help."""


class LazyGroup(click.Group):
    """A group that imports a command when it runs.  Listing the commands (``--help``, shell completion) imports none of them."""

    def __init__(self, name: str, text: str, epilog: str, lazy: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(name, help=text, epilog=epilog, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        command = entry[0]
        if isinstance(command, str):
            module, _, attribute = command.partition(":")
            command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[1]) for name, entry in self._lazy.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but an unknown command is answered with the nearest known one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from mqclient.text import nearest_name

            name = args[0] if args else ""
            near = nearest_name(name, self._lazy)
            hint = f" Did you mean '{near}'?" if near else f" Commands: {', '.join(self._lazy)}."
            raise click.UsageError(f"There is no command '{name}'.{hint}", ctx) from error


def inside(*groups: LazyGroup) -> dict[str, Entry]:
    """The entries of groups in another group, each with the text of its own help."""
    return {group.name or "": (group, group.help or "") for group in groups}
