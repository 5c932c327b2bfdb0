"""What a job finds and makes on its brokers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import MissingQueueError
from mqspark.jobs.archive import ArchivePlan, check_queues, dry_run
from mqspark.jobs.brokers import Waiting
from tests.unit.mqspark.jobs.test_archive import BROKER


class DryRunTests(SynchronousTestCase):
    def test_it_says_what_waits_and_what_would_be_made(self) -> None:
        plan = ArchivePlan(BROKER, "/a", "/a/_checkpoint", diverted=("news",))
        answer = dry_run(plan, [Waiting("n1", "orders", 7), Waiting("n1", "archive.news", None)])
        self.assertEqual(answer.tables[0].rows, [("n1", "orders", 7), ("n1", "archive.news", None)])
        self.assertEqual(len(answer.notes), 2)
        self.assertIn("The address news would get a divert to the queue archive.news", answer.notes[1])

    def test_a_divert_that_is_there_is_not_made_again(self) -> None:
        answer = dry_run(ArchivePlan(BROKER, "/a", "/c", diverted=("news",)), [Waiting("n1", "archive.news", 0)])
        self.assertEqual(answer.notes, ["To /a, as parquet, with the checkpoint /c."])


class MissingQueueTests(SynchronousTestCase):
    def test_a_queue_that_no_node_has_is_refused(self) -> None:
        plan = ArchivePlan(BROKER, "/a", "/c")
        check_queues(plan, [Waiting("n1", "orders", None), Waiting("n2", "orders", 0)])
        error = self.assertRaises(MissingQueueError, check_queues, plan, [Waiting("n1", "oders", None)])
        self.assertIn("there is no queue oders", str(error))

    def test_queues_that_are_made_need_not_be_there(self) -> None:
        check_queues(ArchivePlan(BROKER, "/a", "/c", diverted=("news",)), [Waiting("n1", "archive.news", None)])
        check_queues(ArchivePlan({"topic": "t"}, "/a", "/c"), [Waiting("n1", "archive", None)])
