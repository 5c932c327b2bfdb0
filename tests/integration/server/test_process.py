"""A broker as a process: how it is stopped, and how it fails to start."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from tests.integration.brokers import environment
from tests.unit.cli.runner import mqbroker

SECONDS = 30.0
INTERRUPTED = """
import os, signal, sys
from mqbroker import tap
from twisted.scripts.twistd import run

# A shell that runs the tests in the background lets them ignore this signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
owner, name = {owner}, {name!r}
whole = getattr(owner, name)

def interrupted(*args):
    {action}
    return whole(*args)

setattr(owner, name, interrupted)
run()
"""
"""A broker to which something happens at a certain moment of its start."""
TWISTD = "from twisted.scripts.twistd import run; run()"


class ProcessTests(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-process-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.instance = self.folder / "instance"
        made = mqbroker("create", str(self.instance), "--silent", "--host", "127.0.0.1")
        self.assertEqual(made.status, 0, made.err)
        self.set_port(0)
        self.log = self.folder / "log"

    def set_port(self, port: int) -> None:
        config = self.instance / "etc" / "broker.xml"
        config.write_text(re.sub(r"tcp://127\.0\.0\.1:\d+", f"tcp://127.0.0.1:{port}", config.read_text()))

    def launch(self, *options: str, program: str = TWISTD) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", program, "-n", "--pidfile=", "mqbroker", "--instance", str(self.instance), *options],
                cwd=self.folder,
                stdout=out,
                stderr=out,
                env=environment(),
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        process = self.launch(*options)
        deadline = time.monotonic() + SECONDS
        while "send a first message" not in self.log.read_text():
            self.assertIsNone(process.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), deadline, self.log.read_text())
            time.sleep(0.05)
        return process

    def test_sigterm_stops_it_in_order(self) -> None:
        process = self.start()
        process.send_signal(signal.SIGTERM)
        # twistd ends by the signal itself once everything is closed, as a Java process does with status 143.
        self.assertEqual(process.wait(SECONDS), -signal.SIGTERM)
        text = self.log.read_text()
        self.assertIn("AMQ221002", text)
        # Nothing is to be done about a broker that stands alone, and nobody needs to know what it is made of.
        self.assertIn("mqbroker#info] AMQ222007", text)
        for noise in ("#warn]", "BrokerFactory", "UnixAppLogger"):
            self.assertNotIn(noise, text)

    def test_a_signal_before_the_loop_runs_stops_it_in_order(self) -> None:
        """While the journal is opened, and when clients can connect already."""
        moments = [
            ("tap.Broker", "_make_listeners", signal.SIGTERM),
            ("tap", "announce", signal.SIGTERM),
            ("tap", "announce", signal.SIGINT),
        ]
        for owner, name, number in moments:
            process = self.launch(program=INTERRUPTED.format(owner=owner, name=name, action=f"os.kill(os.getpid(), {number:d})"))
            self.assertEqual(process.wait(SECONDS), -number)
            text = self.log.read_text()
            self.assertIn("send a first message", text)
            self.assertIn("AMQ221002", text)
            self.assertNotIn("Traceback", text)

    def test_stop_me(self) -> None:
        process = self.start()
        (self.instance / "etc" / "STOP_ME").touch()
        self.assertEqual(process.wait(SECONDS), 0)
        self.assertIn("Server stopped!", self.log.read_text())
        self.assertFalse((self.instance / "etc" / "STOP_ME").exists())

    def test_stop_me_of_before_the_start_is_none_and_that_of_meanwhile_is_one(self) -> None:
        marker = self.instance / "etc" / "STOP_ME"
        marker.touch()
        process = self.start()
        self.assertFalse(marker.exists())
        process.kill()
        process.wait()
        action = f"open({str(marker)!r}, 'w').close()"
        process = self.launch(program=INTERRUPTED.format(owner="tap.Broker", name="_make_listeners", action=action))
        self.assertEqual(process.wait(SECONDS), 0)
        self.assertFalse(marker.exists())

    def test_kill_me_only_where_allowed(self) -> None:
        process = self.start("--allow-kill")
        (self.instance / "etc" / "KILL_ME").touch()
        process.wait(SECONDS)
        self.assertNotIn("AMQ221002", self.log.read_text())

    def fails(self) -> str:
        process = self.launch()
        self.assertNotEqual(process.wait(SECONDS), 0)
        text = self.log.read_text()
        self.assertNotIn("Traceback", text)
        return text

    def test_a_taken_port_is_one_clear_sentence(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.set_port(taken.getsockname()[1])
            text = self.fails()
        sentences = [line for line in text.splitlines() if line.startswith("mqbroker: ")]
        self.assertEqual(len(sentences), 1, text)
        self.assertRegex(sentences[0], r"acceptor \S+ .* cannot be opened: ")

    def test_a_journal_of_a_real_artemis_is_refused(self) -> None:
        journal = self.instance / "data" / "journal"
        journal.mkdir(parents=True, exist_ok=True)
        (journal / "activemq-data-1.amq").write_bytes(b"\x00" * 64)
        text = self.fails()
        self.assertIn("artemis data exp", text)
        self.assertEqual([path.name for path in journal.iterdir()], ["activemq-data-1.amq"])
