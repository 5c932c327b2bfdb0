"""The pytest plugin, as pytest loads it in every environment where mqbroker is installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.brokers import environment

TIMEOUT = 60  # s: for a busy machine
LOADED = """
import sys
import mqbroker.pytest_plugin
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("twisted", "mqclient", "mqbroker")))
"""
USES_THE_FIXTURE = """
from mqclient.jms import ConnectionFactory

def test_a_message(embedded_broker):
    with ConnectionFactory(embedded_broker.url).create_context() as context:
        context.create_producer().send("queue://a", "hello")
        assert context.create_consumer("queue://a").receive_body(timeout=20_000) == "hello"
"""


class PytestPluginTests(SynchronousTestCase):
    def run_python(self, *arguments: str) -> str:
        # Without what is installed: the plugin is loaded from these sources, once.
        variables = environment() | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=self.folder, env=variables
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_loading_it_imports_no_broker(self) -> None:
        self.assertEqual(self.run_python("-c", LOADED), "['mqbroker', 'mqbroker.pytest_plugin']\n")

    def test_its_fixture_is_a_running_broker(self) -> None:
        (Path(self.folder) / "test_it.py").write_text(USES_THE_FIXTURE)
        said = self.run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mqbroker.pytest_plugin", "test_it.py")
        self.assertIn("1 passed", said)
