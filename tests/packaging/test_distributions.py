"""What a user installs: wheels and source archives of the three distributions, and the plugin in the broker's."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import venv
import zipfile
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "twisted/plugins/mqbroker_plugin.py"
SECONDS = 900  # of a build, on a busy machine
_COPIED = ("src", "plugins", "setup.cfg", "setup.py", "pyproject.toml", "README.md")


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")} | variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


class DistributionTests(unittest.TestCase):
    """The sources are copied first, so that a build leaves nothing in the checkout and nothing of the checkout gets in by accident."""

    work: ClassVar[Path]
    python: ClassVar[str]
    wheels: ClassVar[dict[str, Path]]
    archives: ClassVar[dict[str, Path]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.work = Path(tempfile.mkdtemp(prefix="mqbroker-packaging-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        sources = {
            "mqbroker": (ROOT, cls.work / "source" / "mqbroker"),
            "mqclient": (ROOT / "clients" / "mqclient", cls.work / "source" / "mqclient"),
            "mqspark": (ROOT / "clients" / "mqspark", cls.work / "source" / "mqspark"),
        }
        cls.wheels, cls.archives = {}, {}
        for name, (origin, copy) in sources.items():
            copy.mkdir(parents=True)
            for part in _COPIED:
                if (origin / part).is_dir():
                    shutil.copytree(origin / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "dropin.cache"))
                elif (origin / part).is_file():
                    shutil.copy(origin / part, copy / part)
            built = run([sys.executable, "-m", "build", "--outdir", str(cls.work / "dist"), str(copy)], cls.work)
            assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
            cls.wheels[name] = next((cls.work / "dist").glob(f"{name}-*.whl"))
            cls.archives[name] = next((cls.work / "dist").glob(f"{name}-*.tar.gz"))
        environment = cls.work / "environment"
        venv.create(environment, with_pip=True)
        cls.python = str(environment / "bin" / "python")
        # Without mqspark: half a gigabyte would come with it.
        wheels = [str(cls.wheels[name]) for name in ("mqbroker", "mqclient")]
        installed = run([cls.python, "-m", "pip", "install", "--quiet", *wheels], cls.work)
        assert installed.returncode == 0, installed.stdout[-3000:] + installed.stderr[-3000:]

    def bin(self, name: str) -> str:
        return str(Path(self.python).parent / name)

    def test_the_wheel_holds_the_plugin_and_no_package_of_twisted(self) -> None:
        names = zipfile.ZipFile(self.wheels["mqbroker"]).namelist()
        self.assertIn(PLUGIN, names)
        self.assertEqual([name for name in names if name.startswith("twisted/")], [PLUGIN])
        self.assertIn("mqbroker/py.typed", names)
        for name in ("mqclient", "mqspark"):
            self.assertIn(f"{name}/py.typed", zipfile.ZipFile(self.wheels[name]).namelist())

    def test_the_wheels_are_pure(self) -> None:
        """Nothing is compiled unless it is asked for; ``.sh`` is the service script of an instance."""
        for name, wheel in self.wheels.items():
            self.assertTrue(wheel.name.endswith("-py3-none-any.whl"), wheel.name)
            names = zipfile.ZipFile(wheel).namelist()
            unexpected = [each for each in names if Path(each).suffix not in ("", ".py", ".typed", ".txt", ".sh")]
            self.assertEqual(unexpected, [], name)

    def test_every_module_is_in_its_wheel(self) -> None:
        for name, folder in (
            ("mqbroker", ROOT / "src"),
            ("mqclient", ROOT / "clients" / "mqclient" / "src"),
            ("mqspark", ROOT / "clients" / "mqspark" / "src"),
        ):
            expected = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
            self.assertEqual(expected - set(zipfile.ZipFile(self.wheels[name]).namelist()), set())

    def test_the_data_sources_are_installed_from_their_folder_and_need_what_the_tests_have(self) -> None:
        target = self.work / "target"
        command = [sys.executable, "-m", "pip", "install", "--quiet"]
        done = run([*command, "--no-deps", "--target", str(target), str(self.work / "source" / "mqspark")], self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = run([sys.executable, "-c", "import mqspark.errors; print(mqspark.errors.__file__)"], self.work, PYTHONPATH=str(target))
        self.assertEqual(found.stdout.strip(), str(target / "mqspark" / "errors.py"), found.stderr)
        wheels = ["--no-index", "--find-links", str(self.work / "dist"), str(self.wheels["mqspark"])]
        resolved = run([*command, "--dry-run", *wheels], self.work)
        self.assertEqual(resolved.returncode, 0, resolved.stderr)

    def test_no_wheel_requires_a_file_of_the_machine_that_built_it(self) -> None:
        """The folder of the client stands beside that of the data sources here, as in a checkout."""
        for name, wheel in self.wheels.items():
            archive = zipfile.ZipFile(wheel)
            (metadata,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            required = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
            self.assertEqual([each for each in required if "@" in each or "file:" in each], [], name)
            if name != "mqclient":
                self.assertIn("mqclient==0.1.0", required)

    def test_the_source_archive_holds_the_plugin(self) -> None:
        with tarfile.open(self.archives["mqbroker"]) as archive:
            names = archive.getnames()
        self.assertTrue(any(name.endswith(f"/plugins/{PLUGIN}") for name in names), names)

    def test_twistd_knows_the_command(self) -> None:
        done = run([self.bin("twistd"), "mqbroker", "--help"], self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--config", done.stdout)

    def test_the_console_command(self) -> None:
        done = run([self.bin("mqbroker"), "version"], self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"mqbroker \d+\.\d+\.\d+")

    def test_a_broker_from_the_wheels_serves_the_command_line_from_the_wheels(self) -> None:
        instance = self.work / "instance"
        made = run([self.bin("mqbroker"), "create", str(instance), "--silent", "--host", "127.0.0.1"], self.work)
        self.assertEqual(made.returncode, 0, made.stderr)
        config = instance / "etc" / "broker.xml"
        config.write_text(config.read_text().replace("tcp://127.0.0.1:61616", "tcp://127.0.0.1:0"))
        log = self.work / "broker.log"
        with log.open("w") as out:
            broker = subprocess.Popen([self.bin("mqbroker"), "run", "--instance", str(instance)], stdout=out, stderr=out, cwd=self.work)
        try:
            url = self.wait_for(log, broker)
            login = ["--url", url, "--user", "admin", "--password", "admin"]
            sent = run([self.bin("mqbroker"), "producer", *login, "--message-count", "3", "--destination", "queue://a"], self.work)
            self.assertIn("Produced: 3 messages", sent.stdout, sent.stderr)
            got = run([self.bin("mqbroker"), "consumer", *login, "--message-count", "3", "--destination", "queue://a"], self.work)
            self.assertIn("Consumed: 3 messages", got.stdout, got.stderr)
            self.assertEqual(run([self.bin("mqbroker"), "stop", "--instance", str(instance)], self.work).returncode, 0)
            self.assertEqual(broker.wait(20), 0, log.read_text())
        finally:
            if broker.poll() is None:
                broker.kill()
                broker.wait()

    def wait_for(self, log: Path, broker: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and broker.poll() is None:
            found = re.search(r"listening on (tcp://127\.0\.0\.1:\d+)", log.read_text())
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(log.read_text())
