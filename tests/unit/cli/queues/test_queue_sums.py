"""The numbers of the queues of a cluster, added up by their names."""

from __future__ import annotations

import json

from tests.unit.cli.cluster.test_cluster import PLACES, A, B, C, queue
from tests.unit.cli.queues.test_queue_stat import ClusteredStatCase


class SumTests(ClusteredStatCase):
    def test_sums(self) -> None:
        result = self.stat("--json")
        found = json.loads(result.out)
        self.assertEqual([(entry["name"], entry["messageCount"]) for entry in found["data"]], [("q", 42), ("r", 1)])
        self.assertEqual(found["data"][0]["nodes"], {A: 2, B: 40})
        self.assertEqual([node["nodeID"] for node in found["nodes"] if "error" in node], [C])
        self.assertIn(f"WARNING: {C} at {PLACES[C]} is not counted", result.err)

    def test_filters_are_about_the_sums(self) -> None:
        def names(*arguments: str) -> list[str]:
            return [entry["name"] for entry in json.loads(self.stat("--json", *arguments).out)["data"]]

        count = ("--field", "MESSAGE_COUNT", "--operation")
        self.assertEqual(names(*count, "GREATER_THAN", "--value", "41"), ["q"])
        self.assertEqual(names(*count, "LESS_THAN", "--value", "2"), ["r"])
        self.assertEqual(names(*count, "NOT_EQUALS", "--value", "42"), ["r"])
        self.assertEqual(names("--queueName", "q"), ["q"])
        self.assertEqual(names("--field", "NAME", "--operation", "NOT_CONTAINS", "--value", "q"), ["r"])
        self.assertEqual(self.stat(*count, "EQUALS", "--value", "many").status, 2)
        self.assertEqual(self.stat("--field", "NAME", "--operation", "LESS_THAN", "--value", "q").status, 2)

    def test_queues_of_the_brokers_themselves_come_last_and_only_when_asked_for(self) -> None:
        internal = [queue("$.artemis.internal.sf.cc.x", 7, internalQueue="true"), queue("notif.x", 0, address="activemq.notifications")]
        own = [queue("zz", 1), queue("notif.orders", 2)]
        self.first.answers["listQueues"] = json.dumps({"data": internal + own, "count": 4})
        self.others[PLACES[B]].answers["listQueues"] = json.dumps({"data": internal[:1], "count": 1})
        sf, notif = internal[0]["name"], internal[1]["name"]

        def names(*arguments: str) -> list[str]:
            return [entry["name"] for entry in json.loads(self.run_with("queue", "stat", "--json", *arguments).out)["data"]]

        for scope in ((), ("--clustered",)):
            self.assertEqual(names(*scope), ["notif.orders", "zz"])
            self.assertEqual(names(*scope, "--internal"), ["notif.orders", "zz", sf, notif])
            self.assertEqual(names(*scope, "--internal", "--maxRows", "1"), ["notif.orders"])
            text = self.run_with("queue", "stat", *scope).out
            self.assertIn("Internal queues that are not shown: 2 (--internal shows them)", text)
            self.assertNotIn("WARNING: the displayed", text)
            self.assertNotIn("not shown", self.run_with("queue", "stat", *scope, "--internal").out)
        # Whoever names queues means those.
        self.assertIn(sf, names("--clustered", "--queueName", "sf."))
        self.assertIn(sf, names("--clustered", "--field", "MESSAGE_COUNT", "--operation", "GREATER_THAN", "--value", "5"))
