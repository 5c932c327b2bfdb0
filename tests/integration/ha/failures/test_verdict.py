"""The judge of a pair's rounds, in made-up logs; what it shares with the kill test is tested there."""

from __future__ import annotations

import unittest

from tests.integration.ha.failures.verdict import SETTLED, SUSPECTED, UNDONE, judge_batches, judge_once, judge_pair
from tests.integration.kill.deliveries import judge_paged
from tests.integration.kill.verdict import Event, judge

GOOD = [
    *("try p0", "sent p0", "got p0", "commit p0/t.0", "committed p0/t.0"),
    *("got p0/t.0/0", "acked p0/t.0/0", "got p0/t.0/1", "acked p0/t.0/1"),
]
BEGIN, END = f"{SUSPECTED} pair", f"{SETTLED} pair"


def events(lines: list[str]) -> list[Event]:
    return [Event(time, *line.split()) for time, line in enumerate(lines)]


class PairVerdictTests(unittest.TestCase):
    def problems(self, *more: str) -> list[str]:
        return judge_pair(judge, events([*GOOD, *more]))

    def test_a_good_run(self) -> None:
        self.assertEqual(self.problems(BEGIN, END), [])

    def test_a_former_active_broker_may_deliver_from_its_memory(self) -> None:
        self.assertEqual(self.problems(BEGIN, "got p0/t.0/0", "got p0", "commit p0/t.1", END), [])

    def test_a_branch_that_is_settled_does_not_end_that_time(self) -> None:
        self.assertEqual(self.problems(BEGIN, "settled x0.1", "got p0/t.0/0", END), [])

    def test_later_and_earlier_it_may_not(self) -> None:
        again = ["p0/t.0/0 came again after its confirmed acknowledgement"]
        self.assertEqual(self.problems("got p0/t.0/0"), again)
        self.assertEqual(self.problems(BEGIN, END, "got p0/t.0/0"), again)

    def test_nobody_confirms_a_second_acknowledgement(self) -> None:
        problems = self.problems(BEGIN, "got p0/t.0/0", "acked p0/t.0/0", END)
        self.assertEqual(problems, ["p0/t.0/0 was acknowledged twice, and both times that was confirmed"])

    def test_what_was_received_first_meanwhile_counts(self) -> None:
        self.assertEqual(self.problems(BEGIN, "got p9", END), ["p9 was received, nobody sent it"])

    def test_what_was_confirmed_is_lost(self) -> None:
        self.assertEqual(self.problems("try p1", BEGIN, "sent p1", END), ["p1 was confirmed and is lost"])

    def test_paged_addresses_are_judged_so_too(self) -> None:
        lines = ["try h0-0", "sent h0-0", "got l0>h0-0", "acked l0>h0-0"]
        self.assertEqual(judge_pair(judge_paged, events([*lines, BEGIN, "got l0>h0-0", END])), [])
        problems = judge_pair(judge_paged, events([*lines, BEGIN, END, "got l0>h0-0"]))
        self.assertEqual(problems, ["l0>h0-0 came again after its confirmed acknowledgement"])


class BatchVerdictTests(unittest.TestCase):
    """A transaction that has taken ``p1`` and ``p2``, perhaps from two homes."""

    SENT = ("try p1", "sent p1", "try p2", "sent p2", "commit p1/t.1", "commit p2/t.1", "got p1/t.1/0", "got p1/t.1/1")

    def problems(self, *more: str) -> list[str]:
        return judge_pair(judge_batches, events([*GOOD, *self.SENT, *more]))

    def test_all_of_it(self) -> None:
        self.assertEqual(self.problems("committed p1/t.1", "committed p2/t.1", "got p2/t.1/0", "got p2/t.1/1"), [])

    def test_a_part_of_it(self) -> None:
        again = ("commit p2/t.2", "got p2/t.2/0", "got p2/t.2/1")
        self.assertEqual(self.problems(*again), ["the transaction t.1 was committed in part: p2/t.1 missing"])

    def test_nothing_of_it(self) -> None:
        self.assertEqual(self.problems("commit p3/t.2", "got p2/t.1/0", "got p2/t.1/1"), [])


class OnceVerdictTests(unittest.TestCase):
    def problems(self, *more: str) -> list[str]:
        return judge_pair(judge_once, events([*GOOD, *more]))

    def test_a_good_run(self) -> None:
        again = ["try p1", "sent p1", "got p1", "commit p1/t.1", f"{UNDONE} p1/t.1", "got p1", "commit p1/t.2", "committed p1/t.2"]
        self.assertEqual(self.problems(*again, "got p1/t.2/0", "got p1/t.2/1"), [])

    def test_an_outcome_that_was_not_told(self) -> None:
        self.assertIn("the outcome of p0/t.9 was never told", self.problems("commit p0/t.9"))

    def test_what_was_rolled_back_has_taken_effect(self) -> None:
        problems = self.problems("try p1", "sent p1", "got p1", "commit p1/t.1", f"{UNDONE} p1/t.1", "got p1/t.1/0", "got p1/t.1/1")
        self.assertEqual(problems, ["p1/t.1 was rolled back, and has taken effect"])

    def test_what_the_kill_test_asks_is_asked_too(self) -> None:
        self.assertEqual(self.problems("try p1", "sent p1"), ["p1 was confirmed and is lost"])
