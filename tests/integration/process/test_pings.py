"""Pings by a program of the system; here a shell plays it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.files import GIVEN_PROPERTIES
from mqbroker.process.pings import is_own_address, ping


class PingTests(SynchronousTestCase):
    def test_status_0_is_an_answer(self) -> None:
        ping(["true"], 10)

    def test_a_program_sees_no_secrets(self) -> None:
        self.patch(os, "environ", os.environ | {GIVEN_PROPERTIES: "{}"})
        ping(["sh", "-c", f'test -z "${GIVEN_PROPERTIES}" && test -n "$PATH"'], 10)

    def test_any_other_status_is_none_and_the_reason_is_told(self) -> None:
        error = self.assertRaises(OSError, ping, ["sh", "-c", "echo unreachable >&2; echo more >&2; exit 2"], 10)
        self.assertEqual(str(error), "sh ended with status 2: unreachable")
        self.assertEqual(str(self.assertRaises(OSError, ping, ["false"], 10)), "false ended with status 1")

    def test_a_program_that_is_not_there(self) -> None:
        self.assertIn("no-such-ping", str(self.assertRaises(OSError, ping, ["no-such-ping"], 10)))

    def test_one_that_takes_too_long_is_killed_with_all_that_it_has_started(self) -> None:
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        mark = folder / "mark"
        mark.touch()
        began = time.monotonic()
        self.assertRaises(TimeoutError, ping, ["sh", "-c", f"(while true; do sleep 0.05; echo x >> {mark}; done) & wait"], 4)
        self.assertLess(time.monotonic() - began, 10)
        size = mark.stat().st_size
        self.assertGreater(size, 0)
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            self.assertEqual(mark.stat().st_size, size)

    def test_nothing_is_read_by_a_shell(self) -> None:
        error = self.assertRaises(OSError, ping, ["ls", "$(true)"], 10)
        self.assertIn("$(true)", str(error))

    def test_much_output_does_no_harm(self) -> None:
        error = self.assertRaises(OSError, ping, ["sh", "-c", "head -c 60000 /dev/zero >&2; exit 1"], 10)
        self.assertLess(len(str(error)), 1000)


class OwnAddressTests(SynchronousTestCase):
    def test_this_machine(self) -> None:
        for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", socket.gethostname()):
            self.assertTrue(is_own_address(host), host)

    def test_others(self) -> None:
        for host in ("192.0.2.1", "2001:db8::1", "router.example"):
            self.assertFalse(is_own_address(host), host)
