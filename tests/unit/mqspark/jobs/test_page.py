"""The page about the jobs says what there is: every command that it shows can be given, and every option that it names exists."""

from __future__ import annotations

import re
import shlex

import click
from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs import status
from mqspark.jobs.command import root
from tests.unit.docs.pages import CODE, blocks, prose, read, rows

PAGE = read("docs", "spark-jobs.md")


def shown() -> list[list[str]]:
    """The words behind ``python -m mqspark`` of every command on the page."""
    lines = [line for block in blocks(PAGE, "console") for line in block.splitlines()]
    return [shlex.split(line.removeprefix("$ python -m mqspark ")) for line in lines]


class PageTests(SynchronousTestCase):
    def test_every_command_can_be_given(self) -> None:
        seen = set()
        with click.Context(root) as context:
            for name, *arguments in shown():
                command = root.get_command(context, name)
                assert command is not None, name
                command.make_context(name, arguments, parent=context).close()
                seen.add(name)
            self.assertEqual(seen, set(root.list_commands(context)))

    def test_every_option_that_is_named_exists(self) -> None:
        known = {"--help"}
        with click.Context(root) as context:
            for name in root.list_commands(context):
                command = root.get_command(context, name)
                assert command is not None
                known |= {option for parameter in command.params for option in parameter.opts}
        named = {option for code in CODE.findall(prose(PAGE)) for option in re.findall(r"--[a-z][a-z-]*", code)}
        self.assertEqual(named - known, set())

    def test_the_exit_statuses_are_those_of_the_code(self) -> None:
        numbers = {int(cells[0]) for cells in rows(PAGE) if cells[0].isdigit()}
        self.assertEqual(numbers, {value for name, value in vars(status).items() if name.isupper() and isinstance(value, int)})
