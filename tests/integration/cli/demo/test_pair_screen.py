"""The screen of the pair, and its keys."""

from __future__ import annotations

import signal

from tests.integration.cli.demo.test_demo import TIMEOUT
from tests.integration.cli.demo.test_screen import KeyCase


class KeyTests(KeyCase):
    command = "failover"

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
        self.ends_well(terminal)
        self.assertRegex(terminal.text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        for word in ("sequence", "in sync", "producer quick", "consumer two", "the network between them is cut", "everything is mended"):
            self.assertIn(word, terminal.text)
        timeline = terminal.text.partition("Ending: producers stop")[2]
        for failure in (paused, full, cut):
            self.assertRegex(timeline, failure)
