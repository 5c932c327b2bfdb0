"""Commands about a broker and its cluster."""

from __future__ import annotations

import json
from unittest import mock

from mqbroker.cli.imq.target import Target
from tests.unit.cli.imq.support import CommandCase

ROWS = {"clusterID": "c", "brokers": [{"address": "b1:7676", "state": "OPERATING"}, {"address": "b2:7676", "state": "BROKER_DOWN"}]}


class ViewTests(CommandCase):
    def test_the_members(self) -> None:
        self.answer(listBrokers=ROWS)
        out = self.good("list", "bkr")
        self.assertTrue(out.startswith("Listing all the brokers in the cluster that the following broker is a member of:\n\n-----"))
        self.assertIn("somewhere    7700\n", out)
        self.assertIn("Cluster ID                    c\nCluster is Highly Available   false\n", out)
        self.assertIn("b1:7676   OPERATING\nb2:7676   BROKER_DOWN\n\nSuccessfully listed brokers in the cluster.\n", out)
        self.assertEqual(json.loads(self.good("list", "bkr", "--json")), ROWS | {"clusterIsHighlyAvailable": False})

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
        self.assertEqual(self.asked(), [("shutdown", 0), ("shutdown", 60)])

    def test_a_restart_waits_until_the_broker_is_there_again(self) -> None:
        with mock.patch.object(Target, "_listens", side_effect=[True, False, False, True]):
            self.assertIn("Successfully restarted the broker.", self.good("restart", "bkr", "-f"))

    def test_the_cluster(self) -> None:
        self.assertIn("Successfully reloaded broker cluster configuration.", self.good("reload", "cls"))
        out = self.good("changemaster", "cls", "-o", "imq.cluster.masterbroker=b2:7676", say="y")
        self.assertIn("Changing cluster master broker to:\n\nimq.cluster.masterbroker    b2:7676\n", out)
        self.assertIn("Successfully changed cluster master broker.", out)
        self.assertEqual(self.asked(), [("reloadCluster",), ("changeMaster", '{"imq.cluster.masterbroker": "b2:7676"}')])
