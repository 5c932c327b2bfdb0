"""The lines of ``mqbroker demo takeover``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.members import MemberFigures
from mqbroker.cli.demo.members_screen import MembersScreen
from mqbroker.cli.demo.traffic import Ledger

STATES = {"b0": ("TAKEOVER_COMPLETE", "b1"), "b1": ("OPERATING", "")}


class ScreenTests(SynchronousTestCase):
    def setUp(self) -> None:
        lost: Any = SimpleNamespace(node=SimpleNamespace(name="b0", running=False), figures=None)
        taker: Any = SimpleNamespace(node=SimpleNamespace(name="b1", running=True), figures=MemberFigures(7, 2, STATES))
        self.watchers = [lost, taker]
        self.ledger = Ledger()
        self.ledger.confirmed("quick", 9)
        self.screen = MembersScreen(self.watchers, [], self.ledger)

    def test_a_line_says_who_has_taken_over_whom(self) -> None:
        line = self.screen.line(2.0)
        self.assertIn("2.0 s: sent 9, read 0, on the way 9", line)
        self.assertIn("b0 killed, TAKEOVER_COMPLETE by b1 | b1 OPERATING, has 7", line)

    def test_so_does_the_picture(self) -> None:
        console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
        self.addCleanup(console.file.close)
        console.print(self.screen.picture(2.0, 30, "b0 was killed"))
        text = console.export_text()
        for word in ("mqbroker demo takeover", "TAKEOVER_COMPLETE by b1", "b0 was killed", "q: end and compare"):
            self.assertIn(word, text)

    def test_it_flows_when_all_know_all_and_something_was_read(self) -> None:
        self.assertFalse(self.screen.flowing())
        self.watchers[0].figures = MemberFigures(0, 0, STATES)
        self.assertFalse(self.screen.flowing())
        self.ledger.committed([("quick", 0)])
        self.assertTrue(self.screen.flowing())

    def test_one_that_nobody_knows_is_starting(self) -> None:
        self.watchers[1].figures = None
        self.assertIn("b1 starting", self.screen.line(0.0))
