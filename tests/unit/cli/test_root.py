from __future__ import annotations

import click
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.lazy import LazyGroup
from mqbroker.cli.root import root
from tests.unit.cli.runner import mqbroker


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, LazyGroup):
        return [(path, group)]
    context = click.Context(group)
    found: list[tuple[tuple[str, ...], click.Command]] = [(path, group)]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*path, name))
    return found


class HelpTests(SynchronousTestCase):
    def test_every_help_has_an_example_that_is_a_command(self) -> None:
        for path, command in commands(root):
            result = mqbroker(*path, "--help") if path != ("help",) else mqbroker("help", "help")
            self.assertEqual(result.status, 0, path)
            self.assertIn("Example: ", result.out, path)
            example = (command.epilog or "").partition("mqbroker ")[2].split()
            self.assertIn(example[0], [first[0] for first, _ in commands(root) if first], path)

    def test_completion_scripts(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            result = mqbroker("completion", shell)
            self.assertEqual(result.status, 0)
            self.assertIn("_MQBROKER_COMPLETE", result.out)
