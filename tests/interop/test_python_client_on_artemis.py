"""The test suite of the Python client, unchanged, against the real Artemis broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.interop.mqbroker_process import ROOT

SUITES = ("tests/integration/mqclient",)
SUITE_SECONDS = 600.0  # on a busy machine
TESTS_AT_LEAST = 30  # a suite that skips itself proves nothing


def test_client_suite(java: None) -> None:
    path = ":".join(str(ROOT / part) for part in ("src", "clients/mqclient/src", "plugins"))
    environment = {**os.environ, "MQBROKER_TEST_PEER": "artemis", "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *SUITES]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SUITE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= TESTS_AT_LEAST, done.stdout[-3000:]
