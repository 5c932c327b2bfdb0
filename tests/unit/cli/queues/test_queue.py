"""Commands on queues and addresses, against management that is played."""

from __future__ import annotations

import json
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.management import ManagementError
from tests.unit.cli.runner import FakeManagement, mqbroker


class QueueCase(SynchronousTestCase):
    def run_with(self, broker: FakeManagement, *arguments: str):  # type: ignore[no-untyped-def]
        module = "mqbroker.cli.queues.queue_stat" if arguments[1] == "stat" else f"mqbroker.cli.queues.{arguments[0]}"
        with mock.patch(f"{module}.management", broker.opened):
            return mqbroker(*arguments)

    def queues(self, *names: str) -> str:
        return json.dumps({"data": [{"name": name, "address": name, "messageCount": "1"} for name in names], "count": len(names)})


class QueueTests(QueueCase):
    def test_create_sends_what_was_given(self) -> None:
        broker = FakeManagement(createQueue='{"name":"q","address":"a","routing-type":"ANYCAST","durable":true}')
        result = self.run_with(broker, "queue", "create", "--name", "q", "--address", "a", "--anycast", "--durable", "--max-consumers", "3")
        self.assertTrue(
            result.out.startswith("Queue [name=q, address=a, routingType=ANYCAST, durable=true, purgeOnNoConsumers="), result.out
        )
        self.assertTrue(result.out.endswith("] created successfully.\n"), result.out)
        resource, operation, text = broker.asked[0]
        self.assertEqual((resource, operation), ("broker", "createQueue"))
        self.assertEqual(
            json.loads(str(text)),
            {"name": "q", "address": "a", "routing-type": "ANYCAST", "durable": True, "max-consumers": 3}
            | {"purge-on-no-consumers": False, "auto-create-address": False},
        )

    def test_update_sends_only_what_was_given(self) -> None:
        broker = FakeManagement()
        self.run_with(broker, "queue", "update", "--name", "q", "--preserve-on-no-consumers")
        self.assertEqual(json.loads(str(broker.asked[0][2])), {"name": "q", "purge-on-no-consumers": False})

    def test_a_refused_change_is_told_as_by_artemis(self) -> None:
        broker = FakeManagement(updateQueue=ManagementError("AMQ229017: Queue q does not exist"))
        result = self.run_with(broker, "queue", "update", "--name", "q", "--max-consumers", "3")
        self.assertEqual((result.status, result.err), (1, "Failed to update q. Reason: AMQ229017: Queue q does not exist\n"))

    def test_a_refusal_is_a_failure(self) -> None:
        broker = FakeManagement(destroyQueue=ManagementError("AMQ229017: Queue q does not exist"))
        result = self.run_with(broker, "queue", "delete", "--name", "q")
        self.assertEqual((result.status, result.err), (1, "Failed to delete queue q. Reason: AMQ229017: Queue q does not exist\n"))

    def test_a_name_is_needed_where_nobody_can_be_asked(self) -> None:
        self.assertEqual(self.run_with(FakeManagement(), "queue", "purge").status, 2)

    def test_anycast_and_multicast_exclude_each_other(self) -> None:
        self.assertEqual(self.run_with(FakeManagement(), "queue", "create", "--name", "q", "--anycast", "--multicast").status, 2)

    def test_stat_leaves_out_the_queues_of_management(self) -> None:
        broker = FakeManagement(listQueues=self.queues("a", FakeManagement.reply_queue, "activemq.management.x", "b"))
        result = self.run_with(broker, "queue", "stat", "--json")
        self.assertEqual([entry["name"] for entry in json.loads(result.out)["data"]], ["a", "b"])
        self.assertEqual(json.loads(result.out)["count"], 2)
        result = self.run_with(broker, "queue", "stat", "--json", "--include-management")
        self.assertEqual([entry["name"] for entry in json.loads(result.out)["data"]], ["a", "activemq.management.x", "b"])

    def test_stat_says_when_there_are_more(self) -> None:
        result = self.run_with(FakeManagement(listQueues=self.queues("a", "b", "c")), "queue", "stat", "--maxRows", "2")
        self.assertIn("WARNING: the displayed queues are 2/3, set maxRows to display more queues.", result.out)

    def test_stat_filters(self) -> None:
        broker = FakeManagement(listQueues=self.queues())
        self.run_with(broker, "queue", "stat", "--field", "MESSAGE_COUNT", "--operation", "GREATER_THAN", "--value", "0")
        asked = json.loads(str(broker.asked[0][2]))
        self.assertEqual((asked["field"], asked["operation"], asked["value"]), ("messageCount", "GREATER_THAN", "0"))
        self.assertEqual(self.run_with(broker, "queue", "stat", "--field", "NAME").status, 2)
        self.assertEqual(self.run_with(broker, "queue", "stat", "--field", "NAME", "--queueName", "x").status, 2)
