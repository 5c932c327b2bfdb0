"""The screen of the demonstration, and its keys."""

from __future__ import annotations

import os
import pty
import signal
import sys

from tests.integration.brokers import environment
from tests.integration.cli.demo.test_demo import DemoCase


class KeyCase(DemoCase):
    def play(self, *keys: tuple[bytes, bytes]) -> str:
        """Press each key when its text has been seen; what was shown."""
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(environment() | {"TMPDIR": str(self.folder), "TERM": "xterm", "COLUMNS": "120", "LINES": "50"})
            os.execv(sys.executable, [sys.executable, "-m", "mqbroker.cli", "demo", self.command])
        seen = b""
        left = [*keys]
        status = None
        try:
            while True:
                try:
                    seen += os.read(terminal, 65536)
                except OSError:  # the other end is closed
                    break
                if left and left[0][0] in seen:
                    os.write(terminal, left.pop(0)[1])
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        finally:
            if status is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            os.close(terminal)
        text = seen.decode(errors="replace")
        self.assertEqual(status, 0, text[-3000:])
        self.assertIn("lost 0, doubled 0", text)
        self.assertEqual(os.listdir(self.folder), [])
        return text


class KeyTests(KeyCase):
    def test_keys_kill_a_broker_and_end_it(self) -> None:
        text = self.play((b"on the way", b"2"), (b"was killed", b"q"))
        for word in ("redistributed", "forwarded", "backlog", "producer quick", "consumer slow", "killed"):
            self.assertIn(word, text)
