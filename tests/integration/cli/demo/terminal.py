"""A demonstration at a terminal: its picture is read, and its keys are pressed."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.brokers import environment

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process at a terminal that is wide enough for every line; its temporary files are in ``folder``."""

    def __init__(self, demonstration: str, folder: Path) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "mqbroker.cli", "demo", demonstration]
        variables = environment() | {"TMPDIR": str(folder), "COLUMNS": "300", "LINES": "80", "TERM": "xterm"}
        self.process = subprocess.Popen(command, env=variables, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self._read = b""
        self._mark = 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """All pictures so far, and the lines around them."""
        return _CONTROL.sub("", self._read.decode("utf-8", "replace")).replace("\r", "\n")

    def press(self, key: str) -> None:
        """Press a key; :meth:`until` looks at what is shown afterwards."""
        self._mark = len(self._read)
        os.write(self._master, key.encode())

    def until(self, pattern: str, seconds: float) -> None:
        """Wait until a line since the last key matches."""
        deadline, wanted = time.monotonic() + seconds, re.compile(pattern)
        while not wanted.search(_CONTROL.sub("", self._read[self._mark :].decode("utf-8", "replace"))):
            if time.monotonic() > deadline or not self._more(0.2):
                raise AssertionError(f"no {pattern!r} was shown: {self.text[-6000:]}")

    def ended(self, seconds: float) -> int:
        """Wait until the process has ended by itself; returns its status."""
        deadline = time.monotonic() + seconds
        while self._more(0.2):
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end: {self.text[-6000:]}")
        return self.process.wait(seconds)

    def _more(self, seconds: float) -> bool:
        """Read what comes in this time; False at the end."""
        if not select.select([self._master], [], [], seconds)[0]:
            return True
        try:
            found = os.read(self._master, 65536)
        except OSError:  # Linux tells so that the process has closed it
            return False
        self._read += found
        return bool(found)
