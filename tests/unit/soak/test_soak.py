"""The judges of the soak run find each kind of fault in made-up logs and samples."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from tests.integration.kill.verdict import Event
from tests.soak.report import Part, Report
from tests.soak.verdict import judge_activity, judge_mixed, kind_of
from tests.soak.watch import Sample, Trend, Watch, folder_mib, process_sample, trends

GOOD = ["try t0-3", "sent t0-3", "got s0>t0-3", "got s1>t0-3", "acked s0>t0-3", "try k1-4", "sent k1-4", "got f1>k1-4", "acked f1>k1-4"]


def events(lines: Sequence[str]) -> list[Event]:
    return [Event(time, *line.split()) for time, line in enumerate(lines)]


class DeliveryTests(unittest.TestCase):
    def problem(self, *more: str, without: str = "") -> str:
        problems = judge_mixed(events([*(line for line in GOOD if line != without), *more]))
        self.assertEqual(len(problems), 1, problems)
        return problems[0]

    def test_a_good_run(self) -> None:
        self.assertEqual(judge_mixed(events(GOOD)), [])

    def test_what_was_not_confirmed_may_be_lost(self) -> None:
        self.assertEqual(judge_mixed(events([*GOOD, "try t0-4", "got s0>t0-4"])), [])

    def test_unacknowledged_messages_may_come_again(self) -> None:
        self.assertEqual(judge_mixed(events([*GOOD, "got s1>t0-3"])), [])

    def test_each_subscription_gets_everything(self) -> None:
        self.assertEqual(self.problem(without="got s1>t0-3"), "s1>t0-3 was confirmed and is lost")

    def test_lost_in_the_queue(self) -> None:
        self.assertEqual(self.problem("try k0-5", "sent k0-5"), "f2>k0-5 was confirmed and is lost")

    def test_a_selector_that_lets_too_much_through(self) -> None:
        self.assertIn("f2>k1-4 was received by the wrong consumer", self.problem("got f2>k1-4"))

    def test_acknowledged_and_redelivered(self) -> None:
        self.assertIn("s0>t0-3 came again after its confirmed acknowledgement", self.problem("got s0>t0-3"))

    def test_from_nowhere(self) -> None:
        self.assertIn("f0>k9-0 was received, nobody sent it", self.problem("got f0>k9-0"))

    def test_damaged(self) -> None:
        self.assertIn("another body", self.problem("damaged s0>t0-3"))

    def test_overtaken(self) -> None:
        self.assertIn("s1>t0-2 came first after t0-3", self.problem("try t0-2", "got s1>t0-2"))

    def test_kinds_follow_from_numbers(self) -> None:
        self.assertEqual([kind_of(f"k1-{number}") for number in range(4)], [0, 1, 2, 0])


class ActivityTests(unittest.TestCase):
    COUNTS = {"sent": 9, "acked": 9, "asked": 10, "answered": 9, "visited": 3, "managed": 2}

    def test_everything_has_happened(self) -> None:
        self.assertEqual(judge_activity(self.COUNTS), [])

    def test_silence_is_not_health(self) -> None:
        self.assertEqual(judge_activity({**self.COUNTS, "visited": 0}), ["there were no visits"])
        self.assertEqual(judge_activity({**self.COUNTS, "answered": 4}), ["of 10 requests only 4 were answered"])


class TrendTests(unittest.TestCase):
    def trend(self, values: Sequence[float], quantity: str = "memory") -> Trend:
        found = trends("broker", [Sample(float(time), {quantity: value}) for time, value in enumerate(values)])
        self.assertEqual(len(found), 1)
        return found[0]

    def test_up_and_down_is_flat(self) -> None:
        trend = self.trend([60 + 5 * (time % 2) for time in range(100)])
        self.assertTrue(trend.flat)
        self.assertAlmostEqual(trend.growth, 0.0, delta=0.5)

    def test_a_leak_is_seen_through_noise(self) -> None:
        trend = self.trend([60 + 0.2 * time + 5 * (time % 2) for time in range(100)])
        self.assertFalse(trend.flat)
        self.assertAlmostEqual(trend.growth, 20.0, delta=1.0)
        self.assertAlmostEqual(trend.per_hour, 720.0, delta=20.0)

    def test_shrinking_is_flat(self) -> None:
        self.assertTrue(self.trend([100 - time for time in range(50)]).flat)

    def test_the_tolerance_is_absolute_or_a_share(self) -> None:
        self.assertEqual(self.trend([10.0] * 20, "threads").allowed, 2.0)
        self.assertEqual(self.trend([1000.0] * 20, "journal").allowed, 250.0)

    def test_a_few_samples_say_nothing(self) -> None:
        self.assertEqual(trends("broker", [Sample(0.0, {"memory": 1.0})] * 5), [])

    def test_this_process_can_be_read(self) -> None:
        values = process_sample(os.getpid())
        self.assertGreater(values["memory"], 5)
        self.assertGreaterEqual(values["threads"], 1)
        self.assertGreaterEqual(values["handles"], 3)

    def test_samples_are_kept_in_bounds(self) -> None:
        watch = Watch({"broker": lambda: {"memory": 1.0}}, 3600.0)
        watch.stop()
        watch.samples["broker"] = [Sample(10.0 + time, {"memory": float(time)}) for time in range(1000)]
        series = watch.series()["broker"]
        self.assertLessEqual(len(series), 300)
        self.assertEqual(series[1], {"time": 4.0, "memory": 4.0})

    def test_a_subject_that_has_gone_is_left_out(self) -> None:
        def gone() -> dict[str, float]:
            raise ProcessLookupError("it has ended")

        watch = Watch({"gone": gone, "there": lambda: {"memory": 1.0}}, 0.001)
        while not watch.samples["there"]:
            pass
        watch.stop()
        self.assertEqual(watch.samples["gone"], [])

    def test_the_size_of_a_folder(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "below").mkdir()
            (Path(name) / "below" / "file").write_bytes(bytes(1 << 20))
            self.assertEqual(folder_mib(Path(name)), 1.0)


class ReportTests(unittest.TestCase):
    FLAT = Trend("broker", "memory", "MiB", 60.0, 1.0, 8.0, 10.0)
    GROWING = Trend("broker", "threads", "threads", 5.0, 3.0, 2.0, 30.0)

    def report(self, parts: Sequence[Part] = (), found: Sequence[Trend] = (FLAT,), *, wanted: bool = True) -> Report:
        return Report(7, "a command", parts, found, wanted, 60.0)

    def test_passed(self) -> None:
        report = self.report([Part("transfers", 3.0, {"sent": 4})])
        self.assertTrue(report.passed)
        self.assertTrue(report.text().endswith("PASSED\n"))
        self.assertIn("transfers: 3 s; 4 sent; 0 problems", report.text())

    def test_growth_fails(self) -> None:
        report = self.report(found=[self.FLAT, self.GROWING])
        self.assertEqual(report.problems, ["broker: threads grew by 3.0 threads, allowed are 2.0"])
        self.assertIn("GROWS", report.text())

    def test_a_violation_fails(self) -> None:
        self.assertEqual(self.report([Part("transfers", 3.0, problems=["p1 is lost"])]).problems, ["transfers: p1 is lost"])

    def test_no_samples_fail_when_they_were_wanted(self) -> None:
        self.assertFalse(self.report(found=()).passed)
        self.assertTrue(self.report(found=(), wanted=False).passed)

    def test_many_problems_are_cut_in_the_text_and_whole_in_json(self) -> None:
        report = self.report([Part("transfers", 3.0, problems=[f"p{number} is lost" for number in range(30)])])
        self.assertIn("… and 10 more", report.text())
        with tempfile.TemporaryDirectory() as name:
            report.write(Path(name) / "made")
            document = json.loads((Path(name) / "made" / "report.json").read_text())
            self.assertEqual((Path(name) / "made" / "report.txt").read_text(), report.text())
        self.assertEqual(len(document["problems"]), 30)
        self.assertIs(document["passed"], False)
