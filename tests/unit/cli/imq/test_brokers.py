"""Commands about a broker and its cluster."""

from __future__ import annotations

import json
from unittest import mock

from mqbroker.cli.imq.brokers import shown_age
from mqbroker.cli.imq.target import Target
from tests.unit.cli.imq.support import CommandCase

ROWS = {
    "clusterID": "c",
    "clusterIsHighlyAvailable": False,
    "brokers": [{"address": "b1:7676", "state": "OPERATING"}, {"address": "b2:7676", "state": "BROKER_DOWN"}],
}
MEMBER = {
    "brokerID": "b2",
    "address": "h2:7676",
    "state": "TAKEOVER_COMPLETE",
    "messages": 12,
    "takeoverBrokerID": "b1",
    "statusAgeMs": 61_000,
}
MEMBERS = {"clusterID": "c", "clusterIsHighlyAvailable": True, "brokerID": "b1", "brokers": [MEMBER]}


class ViewTests(CommandCase):
    def test_the_members(self) -> None:
        self.answer(listBrokers=ROWS)
        out = self.good("list", "bkr")
        self.assertTrue(out.startswith("Listing all the brokers in the cluster that the following broker is a member of:\n\n-----"))
        self.assertIn("somewhere    7700\n", out)
        self.assertIn("Cluster ID                    c\nCluster is Highly Available   false\n", out)
        self.assertIn("b1:7676   OPERATING\nb2:7676   BROKER_DOWN\n\nSuccessfully listed brokers in the cluster.\n", out)
        self.assertEqual(json.loads(self.good("list", "bkr", "--json")), ROWS)

    def test_the_members_of_an_enhanced_cluster(self) -> None:
        self.answer(listBrokers=MEMBERS)
        head = [line.split() for line in self.good("list", "bkr").splitlines()[2:6]]
        self.assertIn(["Host", "Primary", "Port", "Cluster", "Broker", "ID"], head)
        self.assertIn(["somewhere", "7700", "b1"], head)
        out = self.good("list", "bkr")
        self.assertIn("Cluster is Highly Available   true\n", out)
        self.assertRegex(out, r"Msgs in store +performing takeover +status timestamp\n")
        self.assertRegex(out, r"b2 +h2:7676 +TAKEOVER_COMPLETE +12 +b1 +1 minute\n")

    def test_what_the_database_does_not_say_is_left_out(self) -> None:
        self.answer(listBrokers={**MEMBERS, "brokers": [{**MEMBER, "state": "UNKNOWN", "messages": None, "statusAgeMs": None}]})
        self.assertRegex(self.good("list", "bkr"), r"b2 +h2:7676 +UNKNOWN +b1\n")

    def test_times_are_in_the_greatest_unit(self) -> None:
        found = [shown_age(ms) for ms in (-5, 0, 1_500, 59_999, 60_000, 7_200_000, 3 * 86_400_000)]
        self.assertEqual(found, ["0 seconds", "0 seconds", "1 second", "59 seconds", "1 minute", "2 hours", "3 days"])

    def test_a_broker(self) -> None:
        self.answer(queryBroker=[[["Version", "1"]], [["Cluster URL", "file:/c"]]])
        self.assertIn("Version       1\n\nCluster URL   file:/c\n\nSuccessfully queried the broker.", self.good("query", "bkr"))
        self.assertEqual(json.loads(self.good("query", "bkr", "--json")), {"Version": "1", "Cluster URL": "file:/c"})

    def test_where_its_properties_come_from(self) -> None:
        row = {"name": "imq.hostname", "value": "h", "origin": "-D", "effect": "honoured"}
        self.answer(listOrigins=[row])
        self.assertIn("imq.hostname    h        -D        honoured\n", self.good("query", "bkr", "--origin"))
        self.assertEqual(json.loads(self.good("query", "bkr", "--origin", "--json")), [row])


class ChangeTests(CommandCase):
    def test_properties(self) -> None:
        out = self.good("update", "bkr", "-o", "imq.autocreate.queue=false", "-o", "imq.cluster.url=file:/a=b", "-f")
        self.assertIn("imq.autocreate.queue    false\nimq.cluster.url         file:/a=b\n", out)
        values = json.dumps({"imq.autocreate.queue": "false", "imq.cluster.url": "file:/a=b"})
        self.assertEqual(self.asked(), [("updateBroker", values)])
        self.assertIn("with the -o option", self.bad("update", "bkr", "-f"))

    def test_quiesced_and_back(self) -> None:
        self.good("quiesce", "bkr", "-f")
        self.good("unquiesce", "bkr", "-f")
        self.assertEqual(self.asked(), [("quiesce",), ("unquiesce",)])

    def test_a_shutdown_waits_until_nobody_listens(self) -> None:
        with mock.patch.object(Target, "_listens", side_effect=[True, False]):
            out = self.good("shutdown", "bkr", "-f")
        self.assertTrue(out.endswith("Waiting for broker at somewhere:7700 to shutdown...\nSuccessfully shutdown the broker.\n"))
        out = self.good("shutdown", "bkr", "-time", "60", "-f")
        self.assertTrue(out.endswith("Successfully sent command to shutdown the broker.\n"))
        self.assertEqual(self.asked(), [("shutdown", 0, False), ("shutdown", 60, False)])

    def test_a_shutdown_without_a_failover(self) -> None:
        with mock.patch.object(Target, "_listens", side_effect=[False]):
            self.good("shutdown", "bkr", "-nofailover", "-f")
        self.assertEqual(self.asked(), [("shutdown", 0, True)])

    def test_a_takeover_shows_whom_it_is_about(self) -> None:
        self.answer(listBrokers=MEMBERS)
        out = self.good("takeover", "bkr", "-n", "b2", "-f")
        self.assertTrue(out.startswith("Taking over another broker where:\n\nThe broker performing the takeover:\n\n-----"))
        self.assertIn("The broker whose store will be taken over:\n\n-----", out)
        self.assertRegex(out, r"Broker ID +Address +State +Msgs in store +status timestamp\n")
        self.assertRegex(out, r"b2 +h2:7676 +TAKEOVER_COMPLETE +12 +1 minute\n")
        self.assertTrue(out.endswith("Successfully performed broker takeover.\n"))
        self.assertEqual(self.asked()[-1], ("takeOver", "b2"))
        self.assertIn("The broker specified was not taken over.", self.good("takeover", "bkr", "-n", "b2", say="n"))

    def test_a_takeover_of_nobody_is_refused_before_it_asks(self) -> None:
        self.answer(listBrokers=MEMBERS)
        err = "Cannot find broker with ID 'b9' in the cluster.\n\nPerforming takeover failed.\n"
        self.assertEqual(self.bad("takeover", "bkr", "-n", "b9"), err)
        self.answer(listBrokers=ROWS)
        self.assertTrue(self.bad("takeover", "bkr", "-n", "b2").startswith("The broker does not support takeover operation.\n"))
        self.assertEqual({asked[0] for asked in self.asked()}, {"listBrokers"})

    def test_a_restart_waits_until_the_broker_is_there_again(self) -> None:
        with mock.patch.object(Target, "_listens", side_effect=[True, False, False, True]):
            self.assertIn("Successfully restarted the broker.", self.good("restart", "bkr", "-f"))

    def test_the_cluster(self) -> None:
        self.assertIn("Successfully reloaded broker cluster configuration.", self.good("reload", "cls"))
        out = self.good("changemaster", "cls", "-o", "imq.cluster.masterbroker=b2:7676", say="y")
        self.assertIn("Changing cluster master broker to:\n\nimq.cluster.masterbroker    b2:7676\n", out)
        self.assertIn("Successfully changed cluster master broker.", out)
        self.assertEqual(self.asked(), [("reloadCluster",), ("changeMaster", '{"imq.cluster.masterbroker": "b2:7676"}')])
