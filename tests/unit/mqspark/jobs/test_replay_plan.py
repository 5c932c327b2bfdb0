"""The plan of a replay."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError
from mqspark.jobs import JobError
from mqspark.jobs.replay_plan import Lane, Replay, parse_mapping, plan_text, read_plan, target_of, within
from tests.unit.mqspark.jobs.test_replay import PLAN, REQUEST


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

    def test_a_slash_behind_the_folder_makes_no_other_replay(self) -> None:
        """A shell that completes names writes one."""
        self.assertEqual(Replay(archive="/a/").name(), Replay(archive="/a").name())

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
