"""``mqbroker demo failover`` proves what it shows, and leaves nothing behind."""

from __future__ import annotations

import os

from tests.integration.cli.demo.test_demo import TIMEOUT, DemoCase
from tests.unit.cli.runner import mqbroker


class FailoverTests(DemoCase):
    command = "failover"

    def run_with(self, failure: str, seconds: int = 9) -> str:
        process = self.start("--seconds", str(seconds), "--plain", "--failure", failure)
        text: str = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertRegex(text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        self.assertIn("everything is mended", text)
        self.assertEqual(os.listdir(self.folder), [])
        return text

    def test_the_active_broker_is_killed(self) -> None:
        text = self.run_with("kill")
        self.assertRegex(
            text,
            r"primary was killed: noticed by backup after .*, proof of backup, sequence 2 after .*, loaded after .*, first message after",
        )
        self.assertIn("backup active, sequence 2, ", text)

    def test_the_disk_of_the_replica_is_full(self) -> None:
        text = self.run_with("fill")
        self.assertRegex(text, r"the disk of backup is full: noticed by .*, proof of primary, sequence 2 after .*, first message")
        self.assertIn("primary active, sequence 2, no replica", text)

    def test_the_brokers_are_cut_apart(self) -> None:
        text = self.run_with("cut", 18)
        self.assertIn("cut apart", text)
        self.assertRegex(
            text, r"the network between the brokers was cut: noticed by \w+ after .*, proof of \w+, sequence 2 after .*first message"
        )

    def test_it_ends_in_order_when_it_is_interrupted(self) -> None:
        self.interrupt()


class OptionTests(DemoCase):
    def test_a_failure_needs_a_time(self) -> None:
        self.assertEqual(mqbroker("demo", "failover", "--failure", "kill").status, 2)
