"""The judge of the kill test finds each kind of fault in made-up logs."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from tests.integration.kill.verdict import Event, body_of, is_large, judge, name_in, read_logs

GOOD = ["try p0", "sent p0", "got p0", "commit p0/t.0", "committed p0/t.0", *(f"got p0/t.0/{part}" for part in (0, 1)), "acked p0/t.0/0"]


def events(lines: list[str]) -> list[Event]:
    return [Event(time, *line.split()) for time, line in enumerate(lines)]


class VerdictTests(unittest.TestCase):
    def problem(self, *more: str, without: str = "") -> str:
        problems = judge(events([line for line in GOOD if line != without] + list(more)))
        self.assertEqual(len(problems), 1, problems)
        return problems[0]

    def test_a_good_run(self) -> None:
        self.assertEqual(judge(events(GOOD)), [])

    def test_what_was_never_confirmed_may_be_lost_or_kept(self) -> None:
        self.assertEqual(judge(events([*GOOD, "try p1"])), [])
        self.assertEqual(judge(events([*GOOD, "try p1", "got p1", "commit p1/t.1", "got p1/t.1/0", "got p1/t.1/1"])), [])

    def test_unacknowledged_messages_may_come_again(self) -> None:
        self.assertEqual(judge(events([GOOD[0], GOOD[1], GOOD[2], *GOOD[2:], "got p0/t.0/1"])), [])

    def test_lost(self) -> None:
        self.assertIn("p1 was confirmed and is lost", self.problem("try p1", "sent p1"))

    def test_processed_twice(self) -> None:
        self.assertIn("more than once", self.problem("commit p0/t.1", "got p0/t.1/0", "got p0/t.1/1"))

    def test_half_a_transaction(self) -> None:
        self.assertIn("committed in part", self.problem(without="got p0/t.0/1"))

    def test_acknowledged_and_redelivered(self) -> None:
        self.assertIn("came again after its confirmed acknowledgement", self.problem("got p0/t.0/0"))

    def test_committed_and_redelivered(self) -> None:
        self.assertIn("came again after its confirmed commit", self.problem("got p0"))

    def test_damaged(self) -> None:
        self.assertIn("came with another body", self.problem("damaged p0"))

    def test_large_ones_are_only_counted(self) -> None:
        self.assertEqual(judge(events([*GOOD, "large p0"])), [])

    def test_bodies_follow_from_names(self) -> None:
        names = [f"p0-{number}/t0.{number}/1" for number in range(200)]
        self.assertEqual([name_in(body_of(name)) for name in names], names)
        large = [name for name in names if is_large(name)]
        self.assertTrue(10 < len(large) < 50)
        self.assertTrue(all(len(body_of(name)) > 110_000 for name in large))

    def test_from_nowhere(self) -> None:
        self.assertIn("nobody sent it", self.problem("got p9"))

    def test_messages_of_a_transaction_that_was_not_committed(self) -> None:
        problems = judge(events([line for line in GOOD if line != "commit p0/t.0"]))
        self.assertEqual(len(problems), 2)
        self.assertIn("its transaction was never committed", problems[0])

    def test_a_line_without_end_does_not_count(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.log"
            path.write_text("2 got b\n1 got a\n3 acked")
            self.assertEqual(read_logs([path]), [Event(1, "got", "a"), Event(2, "got", "b")])
