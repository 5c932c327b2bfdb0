"""The screen of the pair, and its keys."""

from __future__ import annotations

from tests.integration.cli.demo.test_screen import KeyCase


class KeyTests(KeyCase):
    command = "failover"

    def test_keys_pause_the_active_broker_mend_everything_and_end_it(self) -> None:
        text = self.play(("0 B behind", "p"), ("first message", "r"), ("everything is mended", "q"))
        for word in ("sequence", "in sync", "producer quick", "consumer two", "primary was paused", "noticed by backup", "proof of backup"):
            self.assertIn(word, text)
