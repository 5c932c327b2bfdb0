"""What the job archive is told, and what it says it would do."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError
from mqspark.jobs import JobError
from mqspark.jobs.archive import plan_archive
from mqspark.jobs.brokers import Brokers
from mqspark.options import Use
from tests.unit.mqspark.jobs.test_command import UNREACHABLE, invoked

BROKER = {"url": "tcp://b:1"}


class PlanTests(SynchronousTestCase):
    def test_queues_and_diverted_addresses_are_read_by_one_stream(self) -> None:
        plan = plan_archive(BROKER, "/data/a/", queues=["orders", "prices"], divert=["news"], every=5.0)
        self.assertEqual(plan.options, {"url": "tcp://b:1", "queue": "orders,prices,archive.news", "maxBytesPerTrigger": "256m"})
        self.assertEqual((plan.checkpoint, plan.diverted, plan.format, plan.every), ("/data/a/_checkpoint", ("news",), "parquet", 5.0))
        self.assertEqual(Brokers(plan.options, Use.JOB | Use.READ_STREAM).queues(), ("orders", "prices", "archive.news"))

    def test_a_topic_is_read_through_the_queue_of_its_subscription(self) -> None:
        plan = plan_archive(BROKER, "/data/a", topic="news", subscription="archive")
        self.assertEqual((plan.options["topic"], plan.options["subscription"]), ("news", "archive"))
        self.assertEqual(Brokers(plan.options, Use.JOB | Use.READ_STREAM).queues(), ("archive",))

    def test_limits_of_the_user_are_kept(self) -> None:
        plan = plan_archive({**BROKER, "maxmessagespertrigger": "10"}, "/a", queues=["q"], checkpoint="/elsewhere")
        self.assertNotIn("maxBytesPerTrigger", plan.options)
        self.assertEqual(plan.checkpoint, "/elsewhere")

    def test_what_does_not_go_together_is_refused(self) -> None:
        for arguments in (
            {},
            {"topic": "t"},
            {"subscription": "s"},
            {"topic": "t", "subscription": "s", "queues": ["q"]},
            {"topic": "t", "subscription": "s", "divert": ["q"]},
        ):
            self.assertRaises(BadOptionError, plan_archive, BROKER, "/a", **arguments)

    def test_delta_needs_its_package(self) -> None:
        error = self.assertRaises(JobError, plan_archive, BROKER, "/a", queues=["q"], format="delta")
        self.assertIn("pip install delta-spark", str(error))


class CommandTests(SynchronousTestCase):
    def test_help(self) -> None:
        status, out, _ = invoked("archive", "--help")
        self.assertEqual(status, 0)
        for option in ("--queue", "--divert", "--to", "--every", "--checkpoint", "--dry-run"):
            self.assertIn(option, out)

    def test_bad_arguments_are_refused_before_spark_starts(self) -> None:
        for arguments, status, sentence in (
            ((), 2, "Missing option '--to'"),
            (("--to", "x"), 2, "nothing to archive"),
            (("--to", "x", "--queue", "q", "--format", "csv"), 2, "--format"),
            (("--to", "x", "--queue", "q", "--option", "selektor=a"), 2, "did you mean selector?"),
            (("--to", "x", "--queue", "q", *UNREACHABLE), 3, "no broker can be reached at 127.0.0.1:1"),
            (("--to", "x", "--queue", "q", *UNREACHABLE, "--dry-run"), 3, "no broker can be reached"),
        ):
            found, _, err = invoked("archive", *arguments)
            self.assertEqual((found, sentence in err), (status, True), err)
