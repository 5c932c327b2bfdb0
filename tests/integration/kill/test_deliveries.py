"""The judge of the paged addresses finds each kind of fault in made-up logs; what it shares with the soak run is tested there."""

from __future__ import annotations

import unittest

from tests.integration.kill.deliveries import BATCH, judge_paged
from tests.integration.kill.verdict import Event

FIRST = [f"h2-{number}" for number in range(BATCH)]
SECOND = [f"h2-{number}" for number in range(BATCH, 2 * BATCH)]


def events(lines: list[str]) -> list[Event]:
    return [Event(time, *line.split()) for time, line in enumerate(lines)]


def got(names: list[str], receivers: tuple[str, ...] = ("l1", "l2")) -> list[str]:
    return [f"got {receiver}>{name}" for receiver in receivers for name in names]


GOOD = [
    *("try h0-0", "sent h0-0", "got l0>h0-0", "commit l0>h0-0", "acked l0>h0-0"),
    *("try h1-0", "sent h1-0", "got l1>h1-0", "got l2>h1-0"),
    *(f"try {name}" for name in FIRST),
    f"commit {FIRST[0]}",
    *(f"sent {name}" for name in FIRST),
    *got(FIRST),
]


class PagedVerdictTests(unittest.TestCase):
    def test_a_good_run(self) -> None:
        self.assertEqual(judge_paged(events(GOOD)), [])

    def test_an_unconfirmed_transaction_may_come_out_whole_or_not_at_all(self) -> None:
        tried = [f"try {name}" for name in SECOND]
        self.assertEqual(judge_paged(events([*GOOD, *tried])), [])
        self.assertEqual(judge_paged(events([*GOOD, *tried, *got(SECOND)])), [])

    def test_part_of_a_transaction(self) -> None:
        problems = judge_paged(events([*GOOD, *(f"try {name}" for name in SECOND), *got(SECOND[1:])]))
        self.assertEqual(problems, [f"transaction 1 of h2 came out in part: l1>{SECOND[0]}, l2>{SECOND[0]} missing"])

    def test_a_transaction_for_one_subscription_only(self) -> None:
        problems = judge_paged(events([*GOOD, *(f"try {name}" for name in SECOND), *got(SECOND, ("l1",))]))
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(f"l2>{SECOND[0]}", problems[0])

    def test_each_subscription_gets_everything(self) -> None:
        problems = judge_paged(events([line for line in GOOD if line != "got l2>h1-0"]))
        self.assertEqual(problems, ["l2>h1-0 was confirmed and is lost"])

    def test_the_queue_is_for_its_consumer(self) -> None:
        self.assertEqual(judge_paged(events([*GOOD, "got l1>h0-0"])), ["l1>h0-0 was received by the wrong consumer"])

    def test_committed_and_redelivered(self) -> None:
        self.assertEqual(judge_paged(events([*GOOD, "got l0>h0-0"])), ["l0>h0-0 came again after its confirmed acknowledgement"])
