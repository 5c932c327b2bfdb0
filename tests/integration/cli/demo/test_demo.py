"""``mqbroker demo cluster`` proves what it shows, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.brokers import environment

TIMEOUT = 100  # s: for a busy machine


class DemoCase(SynchronousTestCase):
    command = "cluster"

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mqbroker.cli", "demo", self.command, *arguments],
            env=environment() | {"TMPDIR": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.kill)
        return process

    def interrupt(self) -> None:
        """End it while messages are on their way."""
        process = self.start()
        assert process.stdout is not None
        for line in process.stdout:
            if "sent" in line:
                break
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("lost 0, doubled 0", text)
        self.assertEqual(os.listdir(self.folder), [])


class DemoTests(DemoCase):
    def test_nothing_is_lost_or_doubled_when_a_broker_is_killed(self) -> None:
        process = self.start("--seconds", "6", "--plain", "--kill")  # the two notes are seconds apart
        text = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("node2 was killed", text)
        self.assertIn("node2 is started again", text)
        self.assertRegex(text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        self.assertRegex(text, r"→node\d [1-9]")
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_ends_in_order_when_it_is_interrupted(self) -> None:
        self.interrupt()
