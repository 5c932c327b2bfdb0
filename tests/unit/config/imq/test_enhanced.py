"""The properties of enhanced clusters [B10.1]."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.matching import match_properties
from mqbroker.config.model.home_cluster import EnhancedCluster
from tests.unit.config.imq.support import Made

STORE = "imq.persist.store=jdbc\nimq.persist.jdbc.dbVendor=sqlite\nimq.persist.jdbc.sqlite.opendburl=jdbc:sqlite:/shared/mq.db\n"
ENHANCED = "imq.cluster.ha=true\nimq.cluster.clusterid=c1\nimq.brokerid=b1\n" + STORE
FAST = (
    "imq.cluster.heartbeat.interval=1\nimq.cluster.heartbeat.threshold=2\nimq.cluster.monitor.interval=1\nimq.cluster.monitor.threshold=2\n"
)


class EnhancedTests(SynchronousTestCase):
    def made(self, text: str) -> Made:
        made = Made(ENHANCED + text)
        self.assertEqual(made.errors, [])
        return made

    def refused(self, left_out: str, text: str = "") -> str:
        kept = "".join(f"{line}\n" for line in ENHANCED.splitlines() if not line.startswith(left_out))
        return "\n".join(Made(kept + text).errors)

    def test_the_members_and_the_record_are_in_the_database_of_the_store(self) -> None:
        made = self.made("")
        home, store = made.home, made.configuration.database_store
        assert home.record is not None
        self.assertEqual((home.broker_id, home.cluster_id, home.finds_members, home.master), ("b1", "c1", True, None))
        assert store is not None
        self.assertEqual((store.url, store.idle_timeout), ("jdbc:sqlite:/shared/mq.db", 90_000))
        self.assertEqual((home.record.database.url, home.record.cluster, home.brokers), (store.url, "c1", (home.address,)))
        self.assertEqual(home.enhanced, EnhancedCluster())
        [connection] = made.configuration.cluster_connections
        self.assertEqual((connection.check_period, connection.connection_ttl, connection.static_connectors), (5000, 15000, None))

    def test_what_is_needed_is_named(self) -> None:
        self.assertIn("needs imq.cluster.clusterid", self.refused("imq.cluster.clusterid"))
        self.assertIn("needs imq.brokerid", self.refused("imq.brokerid"))
        self.assertIn("needs imq.persist.store=jdbc", self.refused("imq.persist"))
        self.assertIn("of letters, digits and _", self.refused("imq.brokerid", "imq.brokerid=b 1"))
        self.assertIn("of letters, digits and _", self.refused("imq.cluster.clusterid", "imq.cluster.clusterid=c-1"))
        relative = "imq.persist.jdbc.sqlite.opendburl=jdbc:sqlite:mq.db"
        self.assertIn("all brokers have the same file", self.refused("imq.persist.jdbc.sqlite.opendburl", relative))

    def test_what_names_members_has_no_effect(self) -> None:
        made = self.made("imq.cluster.brokerlist=a:1,b:2\nimq.cluster.masterbroker=a:1\nimq.cluster.nomasterbroker=true\n" + FAST)
        told = "\n".join(map(str, made.findings.warnings))
        for name in ("imq.cluster.brokerlist", "imq.cluster.masterbroker", "imq.cluster.nomasterbroker"):
            self.assertIn(f"{name} has no effect", told)
        self.assertEqual(made.home.brokers, (made.home.address,))

    def test_a_slow_detection_is_warned_of(self) -> None:
        self.assertIn("is taken over after up to 135 s", "\n".join(map(str, self.made("").findings.warnings)))
        made = self.made(FAST)
        self.assertNotIn("is taken over after", "\n".join(map(str, made.findings.warnings)))
        assert made.home.enhanced is not None
        self.assertEqual((made.home.enhanced.detection_s, made.home.enhanced.failures), (5, 2))

    def test_members_compare_the_monitor(self) -> None:
        found = match_properties(self.made(FAST).home)
        self.assertEqual((found["imq.cluster.ha"], found["imq.cluster.monitor.interval"]), ("true", "1"))
        self.assertEqual(found["imq.service.activelist"], "admin,jms")
