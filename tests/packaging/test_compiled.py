"""The compiled form: built as a user builds it, it is native code, and a broker and its client run on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import unittest
import zipfile
from pathlib import Path
from typing import ClassVar

from tests.compiled import DISTRIBUTIONS, SOURCES, modules, not_compiled

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900  # of the build of the compiled form, on a busy machine
COMPILER = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
MYPY_OPTIONS = ("--config-file=", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent", "--explicit-package-bases")
"""As setup.py has them."""
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "dropin.cache")


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MQBROKER_COMPILED")} | variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


def copy_sources(target: Path) -> None:
    for place in DISTRIBUTIONS:
        shutil.copytree(ROOT / place / "src", target / place / "src", ignore=_LEFT_OUT)
        for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.md"):
            shutil.copy(ROOT / place / name, target / place / name)
    shutil.copytree(ROOT / "plugins", target / "plugins", ignore=_LEFT_OUT)


@unittest.skipIf(shutil.which(COMPILER) is None, f"the compiled form is not tested: there is no C compiler ({COMPILER})")
class CompiledTests(unittest.TestCase):
    """Built without isolation, where pip takes mypy from the environment of the tests; with it pip gets mypy by itself."""

    work: ClassVar[Path]
    site: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.work = Path(tempfile.mkdtemp(prefix="mqbroker-compiled-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.site = cls.work / "site"
        source = cls.work / "source"
        copy_sources(source)
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(cls.work / "wheels")]
        places = [str(source / place) for place in DISTRIBUTIONS]
        # Level 0 takes a fifth of the time, and what is checked here is the same.
        built = run([sys.executable, "-m", "pip", "wheel", *options, *places], cls.work, MQBROKER_COMPILED="1", MYPYC_OPT_LEVEL="0")
        assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
        for wheel in (cls.work / "wheels").iterdir():
            zipfile.ZipFile(wheel).extractall(cls.site)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "mqbroker.cli", *arguments]

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(self.command(*arguments), self.work, PYTHONPATH=str(self.site))

    def test_all_that_is_to_be_compiled_is_native_code(self) -> None:
        names = modules(ROOT)
        self.assertTrue(
            [name for name in names if name.startswith("mqbroker.")] and [name for name in names if name.startswith("mqclient.")]
        )
        self.assertEqual(not_compiled(sys.executable, str(self.site), names), [])
        self.assertIn("compiled", self.run_command("version").stdout)

    def test_the_source_is_in_the_wheels_too(self) -> None:
        for name in modules(ROOT):
            self.assertTrue((self.site / f"{name.replace('.', '/')}.py").is_file(), name)
        for wheel in (self.work / "wheels").iterdir():
            self.assertNotIn("none-any", wheel.name)

    def test_a_broker_takes_and_gives_messages(self) -> None:
        instance = self.work / "instance"
        made = self.run_command("create", str(instance), "--silent", "--host", "127.0.0.1")
        self.assertEqual(made.returncode, 0, made.stderr)
        config = instance / "etc" / "broker.xml"
        config.write_text(config.read_text().replace("tcp://127.0.0.1:61616", "tcp://127.0.0.1:0"))
        log = self.work / "broker.log"
        with log.open("w") as out:
            environment = os.environ | {"PYTHONPATH": str(self.site)}
            broker = subprocess.Popen(
                self.command("run", "--instance", str(instance)), stdout=out, stderr=out, env=environment, cwd=self.work
            )
        try:
            login = ["--url", self.wait_for(log, broker), "--user", "admin", "--password", "admin", "--destination", "queue://a"]
            for options in ((), ("--non-persistent",)):
                sent = self.run_command("producer", *login, "--message-count", "300", *options)
                self.assertIn("Produced: 300 messages", sent.stdout, sent.stderr)
            got = self.run_command("consumer", *login, "--message-count", "600")
            self.assertIn("Consumed: 600 messages", got.stdout, got.stderr)
            self.assertEqual(self.run_command("stop", "--instance", str(instance)).returncode, 0)
            self.assertEqual(broker.wait(20), 0, log.read_text())
        finally:
            if broker.poll() is None:
                broker.kill()
                broker.wait()
        self.assertRegex(log.read_text(), r"AMQ221001: .* mqbroker version \S+ \(compiled\)")

    def wait_for(self, log: Path, broker: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and broker.poll() is None:
            found = re.search(r"listening on (tcp://127\.0\.0\.1:\d+)", log.read_text())
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(log.read_text())


class NarrowingTests(unittest.TestCase):
    def test_no_compiled_module_relies_on_a_type_that_a_call_may_change(self) -> None:
        """After ``if self.x is not None: return`` a compiled function takes ``self.x`` for None, also behind a call that sets it.

        mypy, too, takes what asks again for superfluous: that is how such a place shows.
        """
        files = [
            f"{folder}/{name.replace('.', '/')}.py"
            for name in modules(ROOT)
            for folder in SOURCES
            if (ROOT / folder / name.split(".")[0]).is_dir()
        ]
        options = ["--warn-unreachable", "--enable-error-code", "redundant-expr", "--cache-dir", os.devnull, *MYPY_OPTIONS]
        path = os.pathsep.join(str(folder) for folder in SOURCES)
        done = run([sys.executable, "-m", "mypy", *options, *files], ROOT, MYPYPATH=path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class RefusalTests(unittest.TestCase):
    def test_both_distributions_are_built_by_the_same_file(self) -> None:
        self.assertEqual(*(((ROOT / place / "setup.py").read_text()) for place in DISTRIBUTIONS))

    def refused(self, folder: Path, **variables: str) -> str:
        done = run([sys.executable, "setup.py", "-q", "build_ext"], folder, MQBROKER_COMPILED="1", **variables)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("Traceback", done.stderr)
        self.assertIn("Without MQBROKER_COMPILED the pure form is built", done.stderr)
        return done.stderr

    def test_without_a_compiler_the_build_says_what_is_missing(self) -> None:
        self.assertIn("it needs a C compiler, and there is no no-such-compiler", self.refused(ROOT, CC="no-such-compiler -pthread"))

    @unittest.skipIf(shutil.which(COMPILER) is None, "there is no C compiler")
    def test_outside_of_a_checkout_the_build_says_what_is_missing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("setup.cfg", "setup.py", "pyproject.toml"):
                shutil.copy(ROOT / name, folder)
            (Path(folder) / "src").mkdir()
            self.assertIn("built in a checkout, which has clients/mqclient/src", self.refused(Path(folder)))
