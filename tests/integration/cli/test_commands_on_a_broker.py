"""The commands that talk to a broker, against one that `mqbroker run` has started on an instance of `mqbroker create`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from tests.unit.cli.runner import Result, mqbroker

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS = 30.0


class CommandsOnABrokerCase(unittest.TestCase):
    """Trial knows no setUpClass: each test has a broker of its own."""

    def setUp(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mqbroker-cli-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.instance = folder / "instance"
        made = mqbroker("create", str(self.instance), "--silent", "--host", "127.0.0.1")
        self.assertEqual(made.status, 0, made.err)
        config = self.instance / "etc" / "broker.xml"
        config.write_text(config.read_text().replace("tcp://127.0.0.1:61616", "tcp://127.0.0.1:0"))
        paths = [str(ROOT / path) for path in ("src", "clients/mqclient/src", "plugins")]
        self.log = log = folder / "log"
        with log.open("w") as out:
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MQBROKER_PYTHON": sys.executable}
            command = [str(self.instance / "bin" / "artemis"), "run"]
            self.broker = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
        self.addCleanup(self.end_broker)
        deadline = time.monotonic() + START_SECONDS
        found = None
        while found is None and time.monotonic() < deadline and self.broker.poll() is None:
            time.sleep(0.05)
            found = re.search(r"listening on (tcp://127\.0\.0\.1:\d+)", log.read_text())
        assert found is not None, log.read_text()
        self.url = found[1]

    def end_broker(self) -> None:
        if self.broker.poll() is None:
            self.broker.send_signal(signal.SIGKILL)
        self.broker.wait()

    def command(self, *arguments: str) -> Result:
        return mqbroker(*arguments, "--url", self.url, "--user", "admin", "--password", "admin")

    def good(self, *arguments: str) -> str:
        result = self.command(*arguments)
        self.assertEqual(result.status, 0, result.err)
        return result.out


class CommandsOnABrokerTests(CommandsOnABrokerCase):
    def test_queues_and_addresses(self) -> None:
        self.good("queue", "create", "--name", "qa", "--anycast", "--durable", "--auto-create-address")
        self.assertEqual(self.command("queue", "create", "--name", "qa", "--anycast", "--durable").status, 1)
        self.good("producer", "--destination", "queue://qa", "--message-count", "3")
        (entry,) = json.loads(self.good("queue", "stat", "--queueName", "qa", "--json"))["data"]
        self.assertEqual((entry["messageCount"], entry["routingType"]), ("3", "ANYCAST"))
        self.good("queue", "purge", "--name", "qa")
        (entry,) = json.loads(self.good("queue", "stat", "--field", "NAME", "--operation", "EQUALS", "--value", "qa", "--json"))["data"]
        self.assertEqual(entry["messageCount"], "0")
        self.good("queue", "delete", "--name", "qa")
        self.assertEqual(self.command("queue", "delete", "--name", "qa").status, 1)
        self.good("address", "create", "--name", "aa", "--anycast", "--multicast")
        self.assertIn("aa", json.loads(self.good("address", "show", "--json")))
        self.assertIn("Address [name=aa", self.good("address", "show", "--name", "aa"))
        self.good("address", "delete", "--name", "aa")
        self.assertNotIn("aa", json.loads(self.good("address", "show", "--json")))

    def test_users_keep_their_file_to_themselves(self) -> None:
        users = self.instance / "etc" / "artemis-users.properties"
        self.assertEqual(users.stat().st_mode & 0o777, 0o600)
        self.good("user", "add", "--user-command-user", "bob", "--user-command-password", "pw", "--role", "amq")
        self.assertIn("bob = ENC(", users.read_text())
        self.assertEqual(users.stat().st_mode & 0o777, 0o600)

    def test_the_log_tells_of_a_start_as_artemis_does(self) -> None:
        """Queues of the configuration are named; those that come later have no line, and no debug lines are written."""
        self.good("queue", "create", "--name", "late", "--anycast", "--auto-create-address")
        text = self.log.read_text()
        codes = ["AMQ221080", "AMQ221003: Deploying ANYCAST queue DLQ on address DLQ", "AMQ221020", "AMQ221007", "AMQ221001"]
        places = [text.find(code) for code in codes]
        self.assertNotIn(-1, places)
        self.assertEqual(places, sorted(places))
        self.assertNotIn("late", text)
        self.assertNotIn("#debug]", self.log.read_text())

    def test_checks(self) -> None:
        self.assertIn("Failures: 0, Errors: 0", self.good("check", "node", "--up", "--memoryUsage", "100", "--diskUsage", "100"))
        self.good("queue", "create", "--name", "qc", "--anycast", "--durable", "--auto-create-address")
        self.good("check", "queue", "--name", "qc", "--up", "--produce", "2", "--browse", "2", "--consume", "2")
        self.assertEqual(self.command("check", "queue", "--name", "qc", "--browse", "1", "--timeout", "500").status, 1)
        missing = self.command("check", "queue", "--name", "nothing", "--up")
        self.assertEqual(missing.status, 1)
        self.assertIn("failure: queue nothing does not exist", missing.out)

    def test_stop(self) -> None:
        self.assertEqual(mqbroker("stop", "--instance", str(self.instance)).status, 0)
        self.assertEqual(self.broker.wait(20), 0)
        self.assertFalse((self.instance / "etc" / "STOP_ME").exists())


class RunTests(unittest.TestCase):
    def refused(self, *options: str, folder: str) -> str:
        """What `mqbroker run` says that does not start."""
        paths = [str(ROOT / path) for path in ("src", "clients/mqclient/src", "plugins")]
        command = [sys.executable, "-m", "mqbroker.cli", "run", "--instance", f"{folder}/i", *options]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout + done.stderr

    def test_a_broken_instance_does_not_start(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            mqbroker("create", f"{folder}/i", "--silent")
            config = Path(folder, "i", "etc", "broker.xml")
            good = config.read_text()
            config.write_text(good.replace("<acceptors>", "<aceptors>"))
            self.assertIn("broker.xml", self.refused(folder=folder))
            other = Path(folder, "other.xml")
            other.write_text(good)
            (Path(folder) / "journal").mkdir()
            (Path(folder) / "journal" / "activemq-data-1.amq").write_bytes(bytes(100))
            text = self.refused("--broker", str(other), "--journal", f"{folder}/journal", folder=folder)
            self.assertIn(f"{folder}/journal", text)
            self.assertIn("artemis data exp", text)
