"""Starts a sample cluster of ``config/`` on free ports, and runs the commands of its README."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.integration.brokers import environment
from tests.integration.cluster.nodes import ReservedPort
from tests.unit.cli.runner import Result, mqbroker

CONFIG = Path(__file__).resolve().parents[3] / "config"
PORTS = re.compile(r"\b(6161[6-9]|767[6-8]|9876|121[0-9]{2}|1[23]88[1-3])\b")
FILES = ("*/broker.xml", "*/zoo.cfg", "*/etc/broker.xml", "*/props/config.properties", "cluster.properties")
"""Files of a sample with ports, all of them."""
START_SECONDS = 90.0
STOP_SECONDS = 60.0


def free_udp_port() -> int:
    """One that was free a moment ago, for a group of multicast."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class SampleCluster:
    """The sample called ``name``, copied to ``folder`` with other ports."""

    def __init__(self, name: str, folder: Path, **more_environment: str) -> None:
        self.source = CONFIG / name
        self.folder = folder
        self.output: list[str] = []
        files = [file.relative_to(self.source) for pattern in FILES for file in self.source.glob(pattern)]
        found = sorted({port for file in files for port in PORTS.findall((self.source / file).read_text())})
        self._reserved = [ReservedPort() for _ in found]
        tcp = iter([port.number for port in self._reserved])
        self.ports = {port: str(free_udp_port() if port == "9876" else next(tcp)) for port in found}
        self.nodes = sorted(file.parts[0] for file in files if file.name == "broker.xml")
        copied = folder / "config" / name
        shutil.copytree(self.source, copied)
        for file in files:
            (copied / file).write_text(self.translated((copied / file).read_text()))
        # As `make run` does it, but for the installation.
        self.process = subprocess.Popen(
            [sys.executable, str(CONFIG / "run_cluster.py"), str(copied)],
            cwd=folder,
            env=environment() | more_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def translated(self, text: str) -> str:
        return PORTS.sub(lambda match: self.ports[match[1]], text)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line)

    def text(self) -> str:
        return "".join(self.output)

    def await_line(self, count: int, pattern: str) -> None:
        """Wait until ``count`` lines match.  Raises AssertionError with what the brokers wrote."""
        deadline = time.monotonic() + START_SECONDS
        while sum(1 for line in list(self.output) if re.search(pattern, line)) < count:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"no {count} lines with {pattern}:\n{self.text()[-5000:]}")
            time.sleep(0.05)

    def await_start(self) -> None:
        self.await_line(len(self.nodes), "AMQ221007")

    def commands(self) -> list[list[str]]:
        """The arguments of each ``mqbroker`` command of the README."""
        found = re.findall(r"^\$ \.venv/bin/mqbroker (.*)$", (self.source / "README.md").read_text(), re.M)
        return [shlex.split(self.translated(line)) for line in found]

    def kill(self, node: str) -> None:
        """End the process of one broker without warning."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        (found,) = [child for child in children if f"/{node}/broker.xml".encode() in Path(f"/proc/{child}/cmdline").read_bytes()]
        os.kill(int(found), signal.SIGKILL)

    def run(self, arguments: list[str]) -> Result:
        return mqbroker(*arguments)

    def stop(self) -> int:
        """Stop all brokers; a second call does nothing.  Returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        self._reader.join(STOP_SECONDS)
        for port in self._reserved:
            port.close()
        return self.process.returncode
