"""``mqbroker demo failover`` proves what it shows, and leaves nothing behind."""

from __future__ import annotations

import os
import signal

from tests.integration.cli.demo.test_demo import TIMEOUT, DemoCase
from tests.integration.cli.demo.test_screen import KeyCase
from tests.unit.cli.runner import mqbroker


class FailoverTests(KeyCase):
    command = "failover"

    def test_the_active_broker_is_killed(self) -> None:
        process = self.start("--seconds", "9", "--plain", "--failure", "kill")
        text = process.communicate(timeout=TIMEOUT)[0]
        self.proven(process.returncode, text)
        self.assertRegex(
            text,
            r"primary was killed: noticed by backup after .*, proof of backup, sequence 2 after .*, loaded after .*, first message after",
        )
        self.assertIn("backup active, sequence 2, ", text)

    def test_keys_pause_the_active_broker_fill_the_disk_of_the_replica_and_cut_the_two_apart_until_it_is_interrupted(self) -> None:
        terminal = self.terminal()
        paused = "primary was paused: noticed by backup after .*, proof of backup, sequence 2 after .*, first message after"
        full = r"the disk of \w+ is full: noticed by .*, proof of \w+, sequence 3 after .*, first message after"
        cut = r"the network between the brokers was cut: noticed by \w+ after .*, proof of \w+, sequence 4 after .*, first message after"
        terminal.until("0 B behind", TIMEOUT)
        for key, failure in (("p", paused), ("f", full), ("c", cut)):
            terminal.press(key)
            terminal.until(failure, TIMEOUT)
            if key == "f":
                terminal.until(r"active\W+no replica\W+3\b", TIMEOUT)
            terminal.press("r")
            terminal.until(r"active\W+replica in sync", TIMEOUT)
        terminal.process.send_signal(signal.SIGTERM)
        status = terminal.ended(TIMEOUT)
        self.proven(status, terminal.text)
        for word in ("sequence", "in sync", "producer quick", "consumer two", "the network between them is cut"):
            self.assertIn(word, terminal.text)
        timeline = terminal.text.partition("Ending: producers stop")[2]
        for failure in (paused, full, cut):
            self.assertRegex(timeline, failure)

    def proven(self, status: int | None, text: str) -> None:
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        self.assertIn("everything is mended", text)
        self.assertEqual(os.listdir(self.folder), [])


class OptionTests(DemoCase):
    def test_a_failure_needs_a_time(self) -> None:
        self.assertEqual(mqbroker("demo", "failover", "--failure", "kill").status, 2)
