"""Groups of commands whose modules are imported only when one of their commands runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are given as ``name -> ("module:attribute", one line of help)``.

    Listing the commands (``--help``, shell completion) imports none of them.
    """

    def __init__(self, name: str, text: str, epilog: str, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(name, help=text, epilog=epilog, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry[0].partition(":")
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
