"""The pair of the demonstration, without running brokers: what their words mean, and what cannot be done."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.pair import SPARE_BYTES, Pair, standing
from mqbroker.cli.status import CommandError

PROGRAM = """
import sys
for line in sys.stdin:
    try:
        with open(sys.argv[1], "wb", buffering=0) as file:
            file.write(bytes(int(line)))
            file.write(b"x")
        print("written", flush=True)
    except OSError as error:
        print("full", flush=True)
"""


class StandingTests(SynchronousTestCase):
    def test_the_last_word_counts(self) -> None:
        for told, state in (
            ("", "starting"),
            ("AMQ221007: Server is now active\n", "active"),
            ("is now active\nthis broker is passive: another has it\nAMQ221109: replica of the node n\n", "copying"),
            ("AMQ221109: replica of the node n\nAMQ221024: this replica is in sync, sequence 1\n", "in sync"),
            ("AMQ221024: this replica is in sync\nthe active broker is lost: x\n", "seeking"),
        ):
            self.assertEqual(standing(told), state)


class PairTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pair = Pair()
        self.addCleanup(self.pair.__exit__, None, None, None)

    def give(self, member: Any, told: str = "") -> subprocess.Popen[Any]:
        """A process in the place of a broker, which has written that, and writes a file of so many bytes for each number that it reads."""
        member.log.write_text(told)
        command = [sys.executable, "-c", PROGRAM, str(member.folder / "data")]
        member.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(member.process.stdin.close)
        self.addCleanup(member.process.stdout.close)
        self.addCleanup(member.process.wait)
        self.addCleanup(member.process.kill)
        return member.process  # type: ignore[no-any-return]

    def write(self, process: subprocess.Popen[Any], size: int) -> bytes:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"%d\n" % size)
        process.stdin.flush()
        return bytes(process.stdout.readline())

    def test_nothing_happens_without_an_active_broker(self) -> None:
        self.assertIsNone(self.pair.active)
        self.assertEqual([self.pair.kill(), self.pair.pause(), self.pair.fill()], ["", "", ""])
        self.assertEqual(self.pair.primary.state, "killed")

    def test_a_broker_that_is_paused_is_not_active(self) -> None:
        primary = self.pair.primary
        process = self.give(primary, "AMQ221007: Server is now active\n")
        self.assertIs(self.pair.active, primary)
        self.assertEqual(self.pair.pause(), "primary was paused")
        self.assertEqual((primary.state, self.pair.active), ("paused", None))
        self.wait_for_state(process, "T")
        primary.go_on()
        self.assertIs(self.pair.active, primary)
        self.assertEqual(self.write(process, 1), b"written\n")

    def wait_for_state(self, process: subprocess.Popen[Any], state: str) -> None:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_full_disk_is_that_of_the_replica_and_has_room_again(self) -> None:
        self.give(self.pair.primary, "AMQ221007: Server is now active\n")
        self.assertEqual(self.pair.fill(), "")
        replica = self.give(self.pair.backup, "AMQ221024: this replica is in sync, sequence 1\n")
        self.assertEqual(self.pair.fill(), "the disk of backup is full")
        self.assertEqual(self.pair.backup.state, "in sync, disk full")
        self.assertEqual(self.write(replica, 1000), b"written\n")
        self.assertEqual(self.write(replica, SPARE_BYTES + 1000), b"full\n")
        self.pair.backup.make_room()
        self.assertEqual(self.write(replica, SPARE_BYTES + 1000), b"written\n")

    def test_a_system_without_limits_for_others_says_so(self) -> None:
        self.patch(resource, "prlimit", None)
        self.give(self.pair.primary, "AMQ221007: Server is now active\n")
        self.give(self.pair.backup)
        self.assertIn("does not limit", str(self.assertRaises(CommandError, self.pair.fill)))

    def test_a_dead_broker_refuses_connections_and_clients_are_told_apart_from_brokers(self) -> None:
        self.assertFalse(self.pair._silence_of(self.pair.primary.proxy.port)())
        others = self.pair._silence_of(1)
        self.assertFalse(others())
        self.pair.cut()
        self.assertTrue(others())
        self.assertFalse(self.pair._silence_of(self.pair.primary.proxy.port)())
        self.assertTrue(os.listdir(self.pair.folder))
