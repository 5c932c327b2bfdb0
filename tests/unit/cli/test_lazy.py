"""Groups of commands that are imported when they are needed."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import mqbroker


class LazyTests(SynchronousTestCase):
    def test_help_of_a_nested_command(self) -> None:
        self.assertIn("--maxRows", mqbroker("help", "queue", "stat").out)
        self.assertEqual(mqbroker("help", "queue", "nonsense").status, 2)

    def test_an_unknown_command_names_the_nearest(self) -> None:
        result = mqbroker("qeue")
        self.assertEqual(result.status, 2)
        self.assertIn("Did you mean 'queue'?", result.err)

    def test_unknown_option(self) -> None:
        self.assertEqual(mqbroker("queue", "stat", "--nonsense").status, 2)
