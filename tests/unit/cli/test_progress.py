"""The progress bar of commands that take long."""

from __future__ import annotations

import io
import sys
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ProgressTests(SynchronousTestCase):
    def printed(self, out: io.StringIO, as_json: bool = False) -> str:
        with mock.patch.object(sys, "stdout", out), progress(2, "Messages", as_json) as advance:
            advance()
            advance()
        return out.getvalue()

    def test_a_terminal_shows_how_much_is_done(self) -> None:
        found = self.printed(Terminal())
        self.assertIn("Messages", found)
        self.assertIn("2/2", found)

    def test_files_and_scripts_get_no_bar(self) -> None:
        self.assertEqual(self.printed(io.StringIO()), "")
        self.assertEqual(self.printed(Terminal(), as_json=True), "")
