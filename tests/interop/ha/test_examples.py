"""The examples of Python and Java that live through a failover, while the primary of a pair is killed in their midst."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.brokers import environment
from tests.integration.ha.pair import BACKUP, PRIMARY
from tests.integration.ha.replicated_pair import IN_SYNC, VOTER, ReplicatedPairCase
from tests.interop.test_java_page import client_libraries

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ORDERS = "1000"
SECONDS = 240.0
"""Of a program, in which it starts, waits for the others, and sends a thousand orders to a disk that may be slow."""
HALF = "half of the orders are sent\n"
CONNECTS_AGAIN = rf"{HALF}all orders came: [Tt]rue\nconnections: ([2-9]|\d\d+)\n"
SENDS_AGAIN = rf"{HALF}each order came once: [Tt]rue\n"


class Program:
    """One that is to be held up when it has sent half of its orders."""

    def __init__(self, command: Sequence[str], url: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*command, url, ORDERS], stdout=pipe, stderr=pipe, text=True, env=environment())
        self._limit = threading.Timer(SECONDS, self._process.kill)
        self._limit.start()
        self._begun = ""
        self._thread = threading.Thread(target=self._begin)
        self._thread.start()

    def _begin(self) -> None:
        assert self._process.stdout is not None
        self._begun = self._process.stdout.readline()
        self._process.send_signal(signal.SIGSTOP)

    def is_held_up(self) -> bool:
        self._thread.join(SECONDS)
        return self._begun == HALF

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> tuple[str, str]:
        """What it has printed, and its errors."""
        output, errors = self._process.communicate()
        self._limit.cancel()
        return self._begun + output, errors


@pytest.mark.usefixtures("java")
class ExampleTests(ReplicatedPairCase):
    def test_they_go_on_with_the_backup(self) -> None:
        self.start(VOTER)
        primary = self.start(PRIMARY)
        backup = self.start(BACKUP, IN_SYNC)
        both = ",".join(f"tcp://127.0.0.1:{self.ports[name]}" for name in (PRIMARY, BACKUP))
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", client_libraries()]
        programs = []
        for command, parameters, says in (
            ([sys.executable, str(EXAMPLES / "application_failover.py")], "", CONNECTS_AGAIN),
            ([*java, str(EXAMPLES / "java" / "ApplicationFailover.java")], "", CONNECTS_AGAIN),
            ([sys.executable, str(EXAMPLES / "duplicate_ids.py")], "?ha=true", SENDS_AGAIN),
            ([*java, str(EXAMPLES / "java" / "DuplicateIds.java")], "?ha=true", SENDS_AGAIN),
        ):
            programs.append((Program(command, f"({both}){parameters}"), says))
        held_up = [program.is_held_up() for program, _ in programs]
        primary.kill()
        for program, _ in programs:
            program.go_on()
        backup.wait_for("AMQ221010")
        ended = [(*program.end(), says) for program, says in programs]
        self.assertTrue(all(held_up), ended)
        for output, errors, says in ended:
            self.assertIsNotNone(re.fullmatch(says, output), output + errors[-3000:])
