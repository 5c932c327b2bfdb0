"""``config/run_cluster.py`` starts the brokers of a folder, shows what they write, and stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.brokers import CONFIGURATION, environment

PROGRAM = Path(__file__).resolve().parents[3] / "config" / "run_cluster.py"
TIMEOUT = 60  # s: for a busy machine


class RunClusterTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = environment()
        self.environment.pop("ARTEMIS_HOME", None)

    def node(self, name: str, text: str | None = None) -> None:
        path = self.folder / "brokers" / name / "broker.xml"
        path.parent.mkdir(parents=True)
        path.write_text(CONFIGURATION.format(folder="data", port=0) if text is None else text)

    def run_to_its_end(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        return done.returncode, done.stdout

    def test_two_brokers(self) -> None:
        self.node("one")
        self.node("two")
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "brokers"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.kill)
        assert process.stdout is not None
        active: set[str] = set()
        for line in process.stdout:
            if "AMQ221007" in line:
                active.add(line.split(" | ")[0])
            if len(active) == 2:
                break
        self.assertEqual(active, {"one", "two"})
        self.assertTrue((self.folder / "data" / "brokers" / "one" / "data" / "journal").is_dir())
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, rest)
        self.assertIn("one | stopped", rest)

    def test_a_server_of_zookeeper_is_asked_for_by_name(self) -> None:
        self.node("one")
        server = self.folder / "brokers" / "zookeeper1"
        server.mkdir()
        (server / "zoo.cfg").touch()
        self.environment["ZOOKEEPER_HOME"] = str(self.folder)
        status, output = self.run_to_its_end("brokers")
        self.assertEqual(status, 1)
        self.assertIn("set ZOOKEEPER_HOME to the folder of an unpacked Apache ZooKeeper, or install pyspark", output)

    def test_one_broker_is_stopped_by_ctrl_c_without_a_failure(self) -> None:
        self.node("one")
        command = [sys.executable, str(PROGRAM), "brokers/one/broker.xml"]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        for line in process.stdout:
            if "send a first message" in line:
                break
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=TIMEOUT)[0]
        self.assertEqual(process.returncode, 0, rest)
        self.assertIn("AMQ221002", rest)

    def test_one_broker_that_does_not_start_fails(self) -> None:
        self.node("one", "<nonsense/>")
        status, text = self.run_to_its_end("brokers/one/broker.xml")
        self.assertEqual(status, 1, text)
        self.assertIn("the root element is <nonsense>", text)

    def test_a_broker_that_does_not_start_is_told(self) -> None:
        self.node("one", "<nonsense/>")
        status, text = self.run_to_its_end("brokers")
        self.assertEqual(status, 1, text)
        self.assertIn("one | ", text)
        self.assertIn("the root element is <nonsense>", text)
        self.assertIn("one | ended with status 1", text)

    def test_artemis_must_be_found(self) -> None:
        self.node("artemis")
        status, text = self.run_to_its_end("brokers")
        self.assertEqual((status, text), (1, "set ARTEMIS_HOME to the folder of an unpacked Apache ActiveMQ Artemis\n"))

    def test_wrong_use(self) -> None:
        self.assertEqual(self.run_to_its_end()[0], 2)
        os.mkdir(self.folder / "empty")
        self.assertEqual(self.run_to_its_end("empty"), (2, "empty has no folders with a broker.xml\n"))
