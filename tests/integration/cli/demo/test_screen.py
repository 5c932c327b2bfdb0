"""The screen of the demonstration, and its keys."""

from __future__ import annotations

import os
import re

from tests.integration.cli.demo.terminal import Terminal
from tests.integration.cli.demo.test_demo import TIMEOUT, DemoCase


class KeyCase(DemoCase):
    def terminal(self) -> Terminal:
        terminal = Terminal(self.command, self.folder)
        self.addCleanup(terminal.close)
        return terminal

    def play(self, *keys: tuple[str, str]) -> str:
        """Press each key when its text has been shown since the one before; everything that was shown."""
        terminal = self.terminal()
        for text, key in keys:
            terminal.until(re.escape(text), TIMEOUT)
            terminal.press(key)
        self.ends_well(terminal)
        return terminal.text

    def ends_well(self, terminal: Terminal) -> None:
        self.assertEqual(terminal.ended(TIMEOUT), 0, terminal.text[-3000:])
        self.assertIn("lost 0, doubled 0", terminal.text)
        self.assertEqual(os.listdir(self.folder), [])


class KeyTests(KeyCase):
    def test_keys_kill_a_broker_and_end_it(self) -> None:
        text = self.play(("on the way", "2"), ("was killed", "q"))
        for word in ("redistributed", "forwarded", "backlog", "producer quick", "consumer slow", "killed"):
            self.assertIn(word, text)
