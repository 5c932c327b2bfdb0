"""mqbroker as an operator starts it: `twistd -n mqbroker --instance DIR` in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.interop import instance
from tests.interop.processes import ManagedProcess, free_port

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0  # with a million messages in the journal


class MqbrokerProcess:
    """One broker in `folder` on a loopback port that stays its own, also while it does not run; 0 is one that nobody else has."""

    name: ClassVar[str] = "mqbroker"
    program: ClassVar[str] = "from twisted.scripts.twistd import run; run()"
    roots: ClassVar[Sequence[str]] = ("src", "clients/mqclient/src", "plugins")
    """Folders of this checkout that the process imports from."""

    def __init__(
        self,
        folder: Path,
        additions: instance.Additions = instance.NOTHING,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.tls_port = additions.tls_port
        self._environment = environment or {}
        self._port = port or free_port()
        instance.write_instance(folder, self._port, additions)
        self._process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> ManagedProcess | None:
        """The process; None while the broker does not run."""
        return self._process

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, "the broker does not run"
        return self._process

    def start(self) -> None:
        self.launch()
        self.process.wait_for_line("listening on tcp://", START_SECONDS)

    def launch(self) -> None:
        """Start it without waiting: a passive broker listens nowhere."""
        command = [sys.executable, "-c", self.program]
        command += ["-n", "--pidfile=", "mqbroker", "--instance", str(self.folder)]
        path = ":".join(str(ROOT / part) for part in self.roots)
        self._process = ManagedProcess(command, self.folder, {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **self._environment})

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
