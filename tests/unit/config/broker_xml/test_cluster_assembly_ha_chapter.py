"""Each example of the chapter on high availability is read, or refused by name."""

from __future__ import annotations

from pathlib import Path

from mqbroker.config.model.cluster import (
    LockManagerConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.problems import ConfigurationError
from tests.unit.config.broker_xml.test_cluster_assembly import BASE, CHAPTERS, connection, connections
from tests.unit.config.test_parse import ConfigurationTestCase

EXAMPLES = CHAPTERS / "ha"
SHARED = {
    "shared-primary": SharedStoreConfiguration(False),
    "shared-backup": SharedStoreConfiguration(True),
    "shared-failback": SharedStoreConfiguration(True, allow_failback=True),
    "failover-on-shutdown": SharedStoreConfiguration(False, failover_on_shutdown=True),
}
SCALE_DOWN = {
    "scale-down-connectors": ScaleDownConfiguration(connectors=("server1-connector",)),
    "scale-down-discovery": ScaleDownConfiguration(discovery_group="my-discovery-group"),
    "scale-down-group": ScaleDownConfiguration(group_name="my-group"),
}
OWN = LockManagerConfiguration("org.foo.MyQuorumVotingPlugin", {"property1": "value1", "property2": "value2"})
ZOOKEEPER = LockManagerConfiguration(
    "org.apache.activemq.artemis.lockmanager.zookeeper.CuratorDistributedLockManager",
    {"connect-string": "127.0.0.1:6666,127.0.0.1:6667,127.0.0.1:6668"},
)
REPLICATED = {
    "replicated-primary": ReplicationConfiguration(False),
    "replicated-backup": ReplicationConfiguration(True),
    "replicated-failback": ReplicationConfiguration(True, allow_failback=True),
    "check-for-active-server": ReplicationConfiguration(False, check_for_active_server=True),
    "primary-with-a-manager-of-ones-own": ReplicationConfiguration(False, manager=OWN),
    "backup-with-a-manager-of-ones-own": ReplicationConfiguration(True, allow_failback=True, manager=OWN),
    "primary-with-zookeeper": ReplicationConfiguration(False, manager=ZOOKEEPER),
    "coordination-id": ReplicationConfiguration(False, manager=ZOOKEEPER, coordination_id="peer-journal-001"),
    "manager-beside-primary": ReplicationConfiguration(False, manager=LockManagerConfiguration()),
}
REFUSED = {
    "colocated": "colocated",
    "colocated-excludes": "colocated",
    "colocated-scale-down": "colocated",
}


class HaChapterTests(ConfigurationTestCase):
    def example(self, name: str) -> str:
        core = BASE.replace('name="first"', 'name="server1-connector"').replace('"dg"', '"my-discovery-group"')
        return connections(connection("")).replace(BASE, core) + Path(EXAMPLES / f"{name}.xml").read_text()

    def test_nothing_is_left_out(self) -> None:
        self.assertEqual({path.stem for path in EXAMPLES.iterdir()}, {*SHARED, *REPLICATED, *SCALE_DOWN, *REFUSED})

    def test_what_is_read(self) -> None:
        for name in (*SHARED, *REPLICATED, *SCALE_DOWN):
            with self.subTest(example=name):
                found = self.load(self.example(name)).configuration
                expected = (SHARED.get(name), REPLICATED.get(name), SCALE_DOWN.get(name))
                self.assertEqual((found.shared_store, found.replication, found.scale_down), expected)

    def test_what_is_refused(self) -> None:
        for name, element in REFUSED.items():
            with self.subTest(example=name):
                error = self.assertRaises(ConfigurationError, self.load, self.example(name))
                self.assertIn(f"<{element}> cannot be used", str(error))
