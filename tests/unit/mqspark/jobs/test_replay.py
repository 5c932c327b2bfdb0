"""The plan of a replay, and what the command refuses."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError
from mqspark.jobs import JobError
from mqspark.jobs.replay import Replayed, report
from mqspark.jobs.replay_plan import Lane, Part, Plan, Replay, parse_mapping, plan_text, read_plan, target_of, within
from tests.unit.mqspark.jobs.test_command import UNREACHABLE, invoked

PLAN = Plan(
    (Part("orders", "copy", 3, 30, 1), Part("prices", "prices", 1, 10, 0)),
    ((Lane("n1", "q", 1, 5, 2),), (Lane("n1", "q", 6, 9, 1), Lane("n2", "p", 3, 3, 1))),
    ("n1", "n2"),
    2,
)
REQUEST = Replay(archive="/a", where="priority > 4", since=datetime(2026, 11, 20, tzinfo=UTC), mapping={"orders": "copy"})


class MappingTests(SynchronousTestCase):
    def test_an_own_entry_comes_before_the_longest_pattern(self) -> None:
        mapping = parse_mapping(["orders=a", "orders.*=b.*", "*=c.*", "orders.*.eu=eu-*"])
        for address, target in (
            ("orders", "a"),
            ("orders.new", "b.new"),
            ("orders.new.eu", "eu-new"),
            ("prices", "c.prices"),
            ("", "c."),
        ):
            self.assertEqual(target_of(address, mapping), target)

    def test_head_and_tail_of_a_pattern_do_not_overlap(self) -> None:
        self.assertEqual(target_of("aba", {"ab*ba": "x"}), "aba")
        self.assertEqual(target_of("abba", {"ab*ba": "x*y"}), "xy")

    def test_without_an_entry_messages_go_where_they_were(self) -> None:
        self.assertEqual(target_of("prices", {"orders": "copy"}), "prices")

    @given(st.text("ab.", max_size=6), st.text("ab.", max_size=3), st.text("ab.", max_size=3))
    def test_a_star_stands_for_what_it_matched(self, middle: str, head: str, tail: str) -> None:
        self.assertEqual(target_of(head + middle + tail, {f"{head}*{tail}": "<*>"}), f"<{middle}>")

    def test_what_says_nothing_is_refused(self) -> None:
        for pair in ("orders", "=x", "x=", "a*b*=c", "a=*", "*=**"):
            self.assertRaises(BadOptionError, parse_mapping, [pair])
        self.assertIn("mapped twice", str(self.assertRaises(BadOptionError, parse_mapping, ["a=b", "a=c"])))


class IdTests(SynchronousTestCase):
    def test_the_same_replay_has_the_same_id_whatever_its_rate(self) -> None:
        again = Replay(archive="/a", where="priority > 4", since=datetime(2026, 11, 20, tzinfo=UTC), mapping={"orders": "copy"}, rate=5)
        self.assertEqual(REQUEST.name(), again.name())
        self.assertEqual(len(REQUEST.name()), 12)

    def test_another_one_has_another_id(self) -> None:
        others = (
            Replay(archive="/b"),
            Replay(archive="/a"),
            Replay(archive="/a", new_timestamps=True),
            Replay(archive="/a", until=datetime(2026, 11, 20, tzinfo=UTC)),
        )
        self.assertEqual(len({one.name() for one in (REQUEST, *others)}), 5)

    def test_a_given_id_is_taken(self) -> None:
        self.assertEqual(Replay(archive="/a", id="friday").name(), "friday")


class KeptPlanTests(SynchronousTestCase):
    def test_it_is_read_as_it_was_written(self) -> None:
        self.assertEqual(read_plan(plan_text(PLAN, REQUEST), REQUEST), PLAN)

    def test_one_of_another_replay_is_refused(self) -> None:
        text = plan_text(PLAN, REQUEST)
        error = self.assertRaises(JobError, read_plan, text, Replay(archive="/a", id="friday"))
        self.assertIn("the id friday is that of another replay", str(error))
        self.assertIn("priority > 4", str(error))

    def test_one_of_another_version_is_refused(self) -> None:
        self.assertIn("another version", str(self.assertRaises(JobError, read_plan, '{"version": 2}', REQUEST)))


class RoundTests(SynchronousTestCase):
    @given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 60))
    def test_no_round_has_more_than_the_limit_unless_it_is_one_lane(self, counts: list[int], limit: int) -> None:
        lanes = [Lane("n", str(number), 0, 9, count) for number, count in enumerate(counts)]
        rounds = list(within(lanes, limit))
        self.assertEqual([lane for one in rounds for lane in one], lanes)
        for one in rounds:
            self.assertTrue(len(one) == 1 or sum(lane.messages for lane in one) <= limit)


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
