"""``mqbroker demo failover`` proves what it shows, and leaves nothing behind."""

from __future__ import annotations

import os

from tests.integration.cli.demo.test_demo import TIMEOUT, DemoCase
from tests.unit.cli.runner import mqbroker


class FailoverTests(DemoCase):
    command = "failover"

    def test_the_active_broker_is_killed(self) -> None:
        process = self.start("--seconds", "9", "--plain", "--failure", "kill")
        text = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertRegex(text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        self.assertIn("everything is mended", text)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertRegex(
            text,
            r"primary was killed: noticed by backup after .*, proof of backup, sequence 2 after .*, loaded after .*, first message after",
        )
        self.assertIn("backup active, sequence 2, ", text)


class OptionTests(DemoCase):
    def test_a_failure_needs_a_time(self) -> None:
        self.assertEqual(mqbroker("demo", "failover", "--failure", "kill").status, 2)
