"""Commands on the messages of a queue, against management that is played."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.management import ManagementError
from tests.unit.cli.runner import FakeManagement, mqbroker


class QueueMessagesTests(SynchronousTestCase):
    def run_with(self, broker: FakeManagement, *arguments: str):  # type: ignore[no-untyped-def]
        with mock.patch("mqbroker.cli.queues.queue_messages.management", broker.opened):
            return mqbroker("queue", *arguments)

    def test_dead_letters_are_sent_back_and_those_that_stay_are_counted(self) -> None:
        broker = FakeManagement(retryMessages=3, countMessages=1)
        result = self.run_with(broker, "retry-messages", "--name", "DLQ", "--filter", "n = 1")
        self.assertEqual(result.status, 0, result.err)
        self.assertEqual(broker.asked[0], ("queue.DLQ", "retryMessages", "n = 1"))
        self.assertEqual(result.out.splitlines()[0], "3 messages of queue DLQ sent back.")
        self.assertIn("1 message still there", result.out)

    def test_without_a_filter_an_artemis_can_do_it_too(self) -> None:
        broker = FakeManagement(retryMessages=1, countMessages=0)
        self.assertEqual(self.run_with(broker, "retry-messages", "--name", "DLQ").out, "1 message of queue DLQ sent back.\n")
        self.assertEqual(broker.asked[0], ("queue.DLQ", "retryMessages"))

    def test_a_dry_run_says_where_dead_letters_came_from_and_changes_nothing(self) -> None:
        broker = FakeManagement(countMessages='{"orders": 3, "bills": 1, "null": 2}')
        result = self.run_with(broker, "retry-messages", "--name", "DLQ", "--dry-run")
        self.assertEqual(
            result.out.splitlines(),
            [
                "1 message of queue DLQ would be sent back to bills.",
                "3 messages of queue DLQ would be sent back to orders.",
                "2 messages of queue DLQ without a way back.",
            ],
        )
        self.assertEqual(broker.asked, [("queue.DLQ", "countMessages", "", "_AMQ_ORIG_ADDRESS")])
        empty = FakeManagement(countMessages="{}")
        self.assertIn("0 messages", self.run_with(empty, "retry-messages", "--name", "DLQ", "--dry-run").out)

    def test_move(self) -> None:
        broker = FakeManagement(moveMessages=2, countMessages=5)
        move = ("move-messages", "--name", "a", "--to", "b")
        self.assertEqual(self.run_with(broker, *move, "--dry-run").out, "5 messages of queue a would be moved to b.\n")
        self.assertEqual(self.run_with(broker, *move).out, "2 messages of queue a moved to b.\n")
        self.assertEqual(broker.asked, [("queue.a", "countMessages", ""), ("queue.a", "moveMessages", "", "b")])
        self.assertEqual(self.run_with(broker, "move-messages", "--name", "a").status, 2)

    def test_remove_needs_a_filter(self) -> None:
        broker = FakeManagement(removeMessages=2, countMessages=5)
        remove = ("remove-messages", "--name", "a")
        self.assertEqual(self.run_with(broker, *remove).status, 2)
        self.assertEqual(self.run_with(broker, *remove, "--filter", "x = 1", "--dry-run").out, "5 messages of queue a would be deleted.\n")
        self.assertEqual(self.run_with(broker, *remove, "--filter", "x = 1").out, "2 messages of queue a deleted.\n")
        self.assertEqual(broker.asked, [("queue.a", "countMessages", "x = 1"), ("queue.a", "removeMessages", "x = 1")])

    def test_the_reason_of_a_refusal_is_told(self) -> None:
        broker = FakeManagement(retryMessages=ManagementError("AMQ229069: no operation"))
        result = self.run_with(broker, "retry-messages", "--name", "DLQ")
        self.assertEqual((result.status, result.err), (1, "Failed to retry messages of queue DLQ. Reason: AMQ229069: no operation\n"))
