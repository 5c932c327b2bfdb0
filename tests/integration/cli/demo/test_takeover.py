"""``mqbroker demo takeover`` proves what it shows, and leaves nothing behind."""

from __future__ import annotations

from tests.integration.cli.demo.test_demo import TIMEOUT, DemoCase
from tests.unit.cli.runner import mqbroker


class TakeoverTests(DemoCase):
    command = "takeover"

    def test_nothing_is_lost_or_doubled_when_a_broker_is_taken_over(self) -> None:
        process = self.start("--seconds", "21", "--plain", "--kill")  # a takeover takes about four, and has seven
        text = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("b0 was killed", text)
        self.assertRegex(text, "TAKEOVER_COMPLETE by b[12]")
        self.assertRegex(text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_kill_needs_a_time(self) -> None:
        self.assertIn("--kill can only be used with --seconds", mqbroker("demo", "takeover", "--kill").err)
