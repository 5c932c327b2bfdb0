"""The sample ``config/ha-zookeeper``: its servers and brokers start by one command, and the commands of its README do what they say."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from unittest import TestCase

import pytest

from tests.integration.examples.samples import SampleCluster


@pytest.mark.usefixtures("java")
class SampleTests(TestCase):
    def test_a_pair_and_three_servers(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="mqbroker-test-")
        self.addCleanup(folder.cleanup)
        sample = SampleCluster("ha-zookeeper", Path(folder.name))
        self.addCleanup(sample.stop)
        sample.await_line(1, r"^backup \| .*AMQ221024")
        produce, consume, activation, check = sample.commands()
        self.assertEqual(sample.run(produce).status, 0)
        with contextlib.chdir(sample.folder):
            listed = sample.run(activation)
            self.assertIn("number:     1", listed.out, listed.err)
            added = sample.run(check)
            self.assertEqual(added.status, 0, added.err)
            self.assertIn("session-ms of the lock manager", added.out)
        sample.kill("primary")
        sample.await_line(1, "AMQ221010")
        got = sample.run([*consume, "--receive-timeout", "30000", "--break-on-null"])
        self.assertIn("Consumed: 30 messages", got.out, sample.text()[-5000:])
        self.assertEqual(sample.stop(), 1, "the primary was killed")
