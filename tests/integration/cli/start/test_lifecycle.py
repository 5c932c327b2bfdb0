"""``mqbroker-service``: what it says of a broker is so."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.integration.brokers import environment
from tests.unit.cli.runner import mqbroker

SECONDS = 90.0


class ServiceTests(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-service-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.instance = self.folder / "instance"
        made = mqbroker("create", str(self.instance), "--silent", "--host", "127.0.0.1")
        self.assertEqual(made.status, 0, made.err)
        self.set_port(0)
        self.log = self.instance / "log" / "artemis.log"

    def set_port(self, port: int) -> None:
        config = self.instance / "etc" / "broker.xml"
        config.write_text(re.sub(r"tcp://127\.0\.0\.1:\d+", f"tcp://127.0.0.1:{port}", config.read_text()))

    def service(self, action: str) -> tuple[int, str]:
        """Status and output of the script.  The broker that it starts keeps none of our pipes open."""
        out = self.folder / "out"
        with out.open("w") as file:
            command = [str(self.instance / "bin" / "mqbroker-service"), action]
            ended = subprocess.run(command, stdout=file, stderr=file, env=environment(), timeout=SECONDS, check=False)
        return ended.returncode, out.read_text()

    def test_a_broker_is_said_to_run_when_it_is_active(self) -> None:
        self.addCleanup(self.service, "force-stop")
        status, text = self.service("start")
        self.assertEqual(status, 0, text)
        self.assertIn("is now running (", text)
        self.assertIn("AMQ221007", self.log.read_text())
        self.assertEqual(self.service("status")[0], 0)
        self.assertEqual(self.service("start"), (1, "Already running.\n"))
        self.assertEqual(self.service("stop")[0], 0)
        self.assertEqual(self.service("status")[0], 3)
        self.assertIn("AMQ221002", self.log.read_text())

    def test_a_process_that_has_got_the_number_of_a_broker_that_was_killed_is_left_alone(self) -> None:
        other = subprocess.Popen(["sleep", "100"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        (self.instance / "data" / "artemis.pid").write_text(f"{other.pid}\n")
        self.assertEqual(self.service("status"), (3, "mqbroker-service is stopped\n"))
        for action in ("stop", "force-stop"):
            self.assertEqual(self.service(action), (0, "mqbroker-service is stopped\n"))
        self.assertIsNone(other.poll())

    def test_a_start_that_is_refused_fails_with_the_reason(self) -> None:
        """Although the log tells of a start that went well before."""
        self.log.parent.mkdir(exist_ok=True)
        self.log.write_text("AMQ221007: Server is now active\n")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.set_port(taken.getsockname()[1])
            status, text = self.service("start")
        self.assertEqual(status, 1)
        self.assertNotIn("is now running", text)
        self.assertRegex(text, r"Could not start mqbroker-service.*\nmqbroker: acceptor artemis .* cannot be opened: Address already")
        self.assertEqual(self.service("status"), (3, "mqbroker-service is stopped\n"))

    def test_a_configuration_that_is_refused_fails_with_the_reason(self) -> None:
        config = self.instance / "etc" / "broker.xml"
        config.write_text(config.read_text().replace("<name>", "<nam>").replace("</name>", "</nam>"))
        status, text = self.service("start")
        self.assertEqual(status, 1)
        self.assertIn("did you mean name?", text)
