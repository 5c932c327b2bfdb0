"""The timeline of a failover: which line of a log is which step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.demo.pair import Member
from mqbroker.cli.demo.timeline import Historian, Timeline
from mqbroker.cli.status import CommandError

LOST = "the active broker is lost: the peer has closed the connection"
GIVEN_UP = "AMQ222092: the replica at 127.0.0.1:5 is given up while it is in sync"
PROOF = "this broker may be active at sequence 2: the voters say so"
LOADED = "AMQ221010: Backup Server is now active"


class TimelineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.timeline = Timeline()
        self.timeline.begin(100.0)
        self.timeline.failed("primary", 110.0, lambda: "primary was killed")

    def told(self, *lines: tuple[str, str]) -> None:
        for number, (name, line) in enumerate(lines, 1):
            self.timeline.told(name, line, 110.0 + number)

    def test_a_takeover(self) -> None:
        self.timeline.read(5, 110.5)
        self.told(("backup", LOST), ("backup", PROOF), ("backup", LOADED))
        self.timeline.read(6, 113.5)
        self.timeline.read(7, 114.0)
        [line] = self.timeline.lines()
        self.assertEqual(
            line,
            "10.0 s: primary was killed: noticed by backup after 1.00 s, proof of backup, sequence 2 after 2.00 s, loaded after 3.00 s, "
            "first message after 4.00 s",
        )

    def test_an_active_broker_that_goes_on_alone_has_loaded_already(self) -> None:
        self.told(("primary", GIVEN_UP), ("primary", PROOF))
        self.timeline.read(6, 113.0)
        self.timeline.read(7, 114.0)
        self.assertIn("proof of primary, sequence 2 after 2.00 s, first message after 4.00 s", self.timeline.lines()[0])

    def test_only_the_first_of_each_counts_and_only_of_the_winner(self) -> None:
        self.told(("backup", LOST), ("primary", GIVEN_UP), ("backup", PROOF), ("primary", PROOF), ("primary", LOADED))
        [line] = self.timeline.lines()
        self.assertIn("noticed by backup after 1.00 s, proof of backup, sequence 2 after 3.00 s, nothing more", line)

    def test_what_comes_later_belongs_to_the_next(self) -> None:
        self.told(("primary", GIVEN_UP), ("primary", PROOF))
        self.timeline.read(1, 113.0)
        self.timeline.read(2, 114.0)
        self.told(("backup", LOST))
        self.timeline.failed("primary", 120.0, lambda: "primary was paused")
        first, second = self.timeline.lines()
        self.assertNotIn("backup", first)
        self.assertEqual(second, "20.0 s: primary was paused: nobody has noticed")

    def test_it_may_be_noticed_before_the_deed_is_done(self) -> None:
        def kill() -> str:
            self.timeline.told("backup", LOST, 120.5)
            return "backup was killed"

        self.assertEqual(self.timeline.failed("primary", 120.0, kill), "backup was killed")
        self.assertIn("noticed by backup after 0.50 s", self.timeline.lines()[1])

    def test_what_could_not_be_done_is_no_failure(self) -> None:
        def fail() -> str:
            raise CommandError("no")

        self.assertEqual(self.timeline.failed("primary", 120.0, str), "")
        self.assertRaises(CommandError, self.timeline.failed, "primary", 120.0, fail)
        self.assertEqual(len(self.timeline.lines()), 1)

    def test_without_a_failure_nothing_is_noted(self) -> None:
        timeline = Timeline()
        timeline.told("backup", LOST, 1.0)
        timeline.read(1, 1.0)
        self.assertEqual(timeline.lines(), [])


class HistorianTests(SynchronousTestCase):
    def test_it_reads_each_line_once_and_a_log_that_begins_anew(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log = Path(folder.name) / "broker.log"
        told: list[str] = []
        counts: list[int] = []
        timeline = SimpleNamespace(told=lambda name, line, now: told.append(f"{name} {line}"), read=lambda count, now: counts.append(count))
        members = [SimpleNamespace(name="m", log=log)]
        historian = Historian(cast(list[Member], members), lambda: 3, cast(Timeline, timeline))
        log.write_bytes(b"one\ntwo\nthr")
        historian.look()
        self.assertEqual((told, counts), (["m one", "m two"], [3]))
        with log.open("ab") as more:
            more.write(b"ee\n")
        historian.look()
        historian.look()
        log.write_bytes(b"new\n")
        historian.look()
        self.assertEqual(told, ["m one", "m two", "m three", "m new"])
