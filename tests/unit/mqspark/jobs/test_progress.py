"""The line that tells how far a job is."""

from __future__ import annotations

import io

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs.progress import NoProgress, RichProgress


class ProgressTests(SynchronousTestCase):
    def test_nothing_is_written_where_there_is_no_terminal(self) -> None:
        console = Console(file=io.StringIO())
        with RichProgress(console) as progress:
            progress.step("Reading", 3)
            progress.reached(2)
        assert isinstance(console.file, io.StringIO)
        self.assertEqual(console.file.getvalue(), "")

    def test_on_a_terminal_a_finished_step_is_full_also_without_a_known_total(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        with RichProgress(console) as progress:
            progress.reached(1)
            progress.step("Reading")
            progress.reached(7)
            progress.step("Writing", 5)
            progress.reached(4, 8)
        assert isinstance(console.file, io.StringIO)
        last = console.file.getvalue().rstrip().splitlines()
        self.assertTrue(any("7/7" in line for line in last))
        self.assertTrue(any("8/8" in line for line in last))

    def test_the_silent_one_takes_everything(self) -> None:
        progress = NoProgress()
        progress.step("x", 1)
        progress.reached(1, 2)
