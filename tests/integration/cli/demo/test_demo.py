"""``mqbroker demo cluster`` proves what it shows, and leaves nothing behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.brokers import Node, Nodes
from mqbroker.cli.status import CommandError
from tests.integration.brokers import environment

TIMEOUT = 100  # s: for a busy machine


class DemoTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mqbroker.cli", "demo", "cluster", *arguments],
            env=environment() | {"TMPDIR": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(process.kill)
        return process

    def test_nothing_is_lost_or_doubled_when_a_broker_is_killed(self) -> None:
        process = self.start("--seconds", "3", "--plain", "--kill")
        text = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, text)
        self.assertIn("node2 was killed", text)
        self.assertIn("node2 is started again", text)
        self.assertRegex(text, r"sent [1-9]\d+, read [1-9]\d+, lost 0, doubled 0")
        self.assertRegex(text, r"→node\d [1-9]")
        self.assertEqual(os.listdir(self.folder), [])

    def test_keys_kill_a_broker_and_end_it(self) -> None:
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(environment() | {"TMPDIR": str(self.folder), "TERM": "xterm", "COLUMNS": "120", "LINES": "50"})
            os.execv(sys.executable, [sys.executable, "-m", "mqbroker.cli", "demo", "cluster"])
        seen = b""
        keys = [(b"on the way", b"2"), (b"was killed", b"q")]
        status = None
        try:
            while True:
                try:
                    seen += os.read(terminal, 65536)
                except OSError:  # the other end is closed
                    break
                if keys and keys[0][0] in seen:
                    os.write(terminal, keys.pop(0)[1])
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        finally:
            if status is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            os.close(terminal)
        text = seen.decode(errors="replace")
        self.assertEqual(status, 0, text[-3000:])
        self.assertIn("lost 0, doubled 0", text)
        for word in ("redistributed", "forwarded", "backlog", "producer quick", "consumer slow", "killed"):
            self.assertIn(word, text)
        self.assertEqual(os.listdir(self.folder), [])

    def test_it_ends_in_order_when_it_is_interrupted(self) -> None:
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


class NodesTests(SynchronousTestCase):
    def test_an_error_ends_all_processes(self) -> None:
        started: list[Node] = []
        folder = None
        try:
            with Nodes(1) as nodes:
                started += nodes
                folder = nodes[0].folder
                self.assertTrue(nodes[0].running)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        self.assertFalse(any(node.running for node in started))
        assert folder is not None
        self.assertFalse(folder.parent.exists())

    def test_a_broker_that_does_not_start_is_told_and_nothing_is_left(self) -> None:
        nodes = Nodes(2)
        (nodes.nodes[1].folder / "broker.xml").write_text("<nonsense/>")
        error = self.assertRaises(CommandError, nodes.__enter__)
        self.assertIn("node1 does not start", str(error))
        self.assertIn("nonsense", str(error))
        self.assertFalse(any(node.running for node in nodes.nodes))
        self.assertFalse(nodes.nodes[0].folder.exists())
