"""``mqbroker check``."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.check.check import Check, CheckFailed, run_checks
from mqbroker.cli.status import CommandError


class CheckTests(SynchronousTestCase):
    def failing(self) -> None:
        raise CheckFailed("no")

    def test_the_first_failure_ends_the_checks(self) -> None:
        ran: list[int] = []
        checks = [Check("a", self.failing), Check("b", lambda: ran.append(1))]
        with self.assertRaises(CommandError) as caught:
            run_checks("T", checks, fail_at_end=False, timeout=1000, as_json=True)
        self.assertIn("failure: no", str(caught.exception))
        self.assertEqual(ran, [])
        self.assertRaises(CommandError, run_checks, "T", checks, fail_at_end=True, timeout=1000, as_json=True)
        self.assertEqual(ran, [1])
