"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.options import ConnectionOptions, ask, connection_options, instance_from_environment, without_effect
from mqbroker.cli.status import BadUsage


@click.command()
@click.argument("name")
@connection_options
@without_effect("--old", values=("--older",))
def command(connection: ConnectionOptions, name: str) -> None:
    click.echo(f"{name} {connection.url} {connection.acceptor} {connection.user} {connection.client_id} {connection.silent}")


class ConnectionOptionTests(SynchronousTestCase):
    def run_with(self, *arguments: str) -> tuple[int, str]:
        found = CliRunner().invoke(command, arguments)
        return found.exit_code, found.output

    def test_the_command_gets_them_first_and_its_own_after_them(self) -> None:
        arguments = ("n", "--url", "tcp://h:1", "--user", "u", "--clientID", "c", "--silent", "--acceptor", "other")
        self.assertEqual(self.run_with(*arguments), (0, "n tcp://h:1 other u c True\n"))

    def test_nothing_said_leaves_the_choice_to_the_instance(self) -> None:
        self.assertEqual(self.run_with("n"), (0, "n None artemis None None False\n"))

    def test_core_is_the_only_protocol_in_any_case_of_letters(self) -> None:
        self.assertEqual(self.run_with("n", "--protocol", "core")[0], 0)
        self.assertEqual(self.run_with("n", "--protocol", "AMQP")[0], 2)

    def test_options_of_scripts_for_artemis_are_accepted_and_not_shown(self) -> None:
        self.assertEqual(self.run_with("n", "--old", "--older", "5")[0], 0)
        self.assertNotIn("--old", self.run_with("--help")[1])


class EnvironmentTests(SynchronousTestCase):
    def found(self, **environment: str) -> Path | None:
        with mock.patch.dict("os.environ", environment, clear=True):
            return instance_from_environment()

    def test_the_instance_of_the_start_script_counts_and_then_that_of_artemis(self) -> None:
        self.assertIsNone(self.found())
        self.assertEqual(self.found(ARTEMIS_INSTANCE="/a"), Path("/a"))
        self.assertEqual(self.found(ARTEMIS_INSTANCE="/a", MQBROKER_INSTANCE="/m"), Path("/m"))


class AskTests(SynchronousTestCase):
    def test_where_nobody_can_answer_the_missing_option_is_named(self) -> None:
        connection = ConnectionOptions(None, "artemis", None, None, None, True, False, None)
        error = self.assertRaises(BadUsage, ask, "the name of the queue", "--name", connection)
        self.assertIn("--name is needed: the name of the queue", str(error))
