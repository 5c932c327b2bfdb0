"""The plan of a replay, and what the command refuses."""

from __future__ import annotations

from datetime import UTC, datetime

from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs.replay import Replayed, report
from mqspark.jobs.replay_plan import Lane, Part, Plan, Replay
from tests.unit.mqspark.jobs.test_command import UNREACHABLE, invoked

PLAN = Plan(
    (Part("orders", "copy", 3, 30, 1), Part("prices", "prices", 1, 10, 0)),
    ((Lane("n1", "q", 1, 5, 2),), (Lane("n1", "q", 6, 9, 1), Lane("n2", "p", 3, 3, 1))),
    ("n1", "n2"),
    2,
)
REQUEST = Replay(archive="/a", where="priority > 4", since=datetime(2026, 11, 20, tzinfo=UTC), mapping={"orders": "copy"})


class ReportTests(SynchronousTestCase):
    def test_one_message_is_not_many(self) -> None:
        for sent, seconds, expected in (
            (1, 2.0, "1 message sent, 0.5 messages a second."),
            (101, 101.0, "101 messages sent, 1.0 messages a second."),
            (30000, 2.0, "30000 messages sent, 15,000 messages a second."),
            (0, 2.0, "0 messages sent."),
        ):
            self.assertIn(f"Replay x: {expected}", report(Replayed("x", PLAN, 1, sent, seconds), REQUEST).notes)

    def test_what_was_sent(self) -> None:
        answer = report(Replayed("x", PLAN, 1, 2, 0.5), REQUEST)
        self.assertEqual(answer.tables[0].rows[0], ("orders", "copy", 3, "30 B", 1))
        self.assertIn("Replay x: 2 messages sent, 4.0 messages a second.", answer.notes)
        self.assertIn("1 of 2 rounds were sent by an earlier run.", answer.notes)
        self.assertIn("1 messages have expired", answer.notes[0])

    def test_a_replay_that_was_complete(self) -> None:
        answer = report(Replayed("x", PLAN, 2, 0, 0.0), Replay(archive="/a", new_timestamps=True))
        self.assertEqual(
            answer.notes, ["Replay x: 0 messages sent.", "It was already complete. Use another --id to send the messages again."]
        )


class CommandTests(SynchronousTestCase):
    def test_help(self) -> None:
        status, out, _ = invoked("replay", "--help")
        self.assertEqual(status, 0)
        for option in ("--map", "--timestamps", "--rate", "--since", "--url"):
            self.assertIn(option, out)

    def test_bad_arguments_are_refused_before_spark_starts(self) -> None:
        for arguments, status, sentence in (
            ((), 2, "Missing option '--archive'"),
            (("--archive", "x", "--map", "orders"), 2, "expected ADDRESS=TARGET"),
            (("--archive", "x", "--id", "a/b"), 2, "has a '/' in it"),
            (("--archive", "x", "--until", "soon"), 2, "'soon' is not a time"),
            (("--archive", "x", "--rate", "0"), 2, "--rate"),
            (("--archive", "x", "--option", "exactlyOnc=xa"), 2, "did you mean exactlyOnce?"),
            (("--archive", "x", *UNREACHABLE), 3, "no broker can be reached at 127.0.0.1:1"),
        ):
            found, _, err = invoked("replay", *arguments)
            self.assertEqual((found, sentence in err), (status, True), err)
