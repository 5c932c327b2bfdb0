"""Broker processes of which each has a port of its own and a broker.xml that names them all."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import TestCase

from tests.integration.brokers import ACTIVE, Broker
from tests.integration.cluster.nodes import ReservedPort

START = "from twisted.scripts.twistd import run; run()"


class ProcessesCase(TestCase):
    """No broker runs yet."""

    names: Sequence[str]

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqbroker-ha-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ports = {}
        for name in self.names:
            reserved = ReservedPort()
            self.addCleanup(reserved.close)
            self.ports[name] = reserved.number

    def configuration(self, name: str) -> str:
        """The broker.xml of one."""
        raise NotImplementedError

    def start(self, name: str, line: str = ACTIVE) -> Broker:
        """Start one, and wait until it has written ``line``."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "broker.xml").write_text(self.configuration(name))
        command = [sys.executable, "-c", START, "-n", "--pidfile=", "mqbroker", "--config", str(folder / "broker.xml")]
        broker = Broker(command, folder, line)
        self.addCleanup(broker.stop)
        return broker

    def start_all(self, *names: str) -> list[Broker]:
        """Start several side by side, and wait until each is active.  Their URLs stay empty."""
        brokers = [self.start(name, "") for name in names]
        for broker in brokers:
            broker.wait_for(ACTIVE)
        return brokers
