"""Each example of the chapter on high availability is read, or refused by name."""

from __future__ import annotations

from pathlib import Path

from mqbroker.config.model.cluster import (
    ColocatedConfiguration,
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
REFUSED = {}
COLOCATED = {
    "colocated": (ReplicationConfiguration(False), ColocatedConfiguration(ReplicationConfiguration(True), request_backup=True)),
    "colocated-excludes": (
        ReplicationConfiguration(False),
        ColocatedConfiguration(ReplicationConfiguration(True), excludes=("remote-connector",)),
    ),
    "colocated-scale-down": (
        ReplicationConfiguration(False, "purple", "abcdefg", check_for_active_server=True),
        ColocatedConfiguration(
            ReplicationConfiguration(True, "tiddles", "33rrrrr", 22, restart_backup=False),
            ScaleDownConfiguration(group_name="boo!", discovery_group="wahey"),
            backup_request_retries=44,
            backup_request_retry_interval=33,
            max_backups=3,
            backup_port_offset=33,
        ),
    ),
}


class HaChapterTests(ConfigurationTestCase):
    def example(self, name: str) -> str:
        core = BASE.replace('name="first"', 'name="server1-connector"').replace('"dg"', '"my-discovery-group"')
        return connections(connection("")).replace(BASE, core) + Path(EXAMPLES / f"{name}.xml").read_text()

    def test_nothing_is_left_out(self) -> None:
        self.assertEqual({path.stem for path in EXAMPLES.iterdir()}, {*SHARED, *REPLICATED, *SCALE_DOWN, *REFUSED, *COLOCATED})

    def test_what_is_read(self) -> None:
        for name in (*SHARED, *REPLICATED, *SCALE_DOWN):
            with self.subTest(example=name):
                found = self.load(self.example(name)).configuration
                expected = (SHARED.get(name), REPLICATED.get(name), SCALE_DOWN.get(name))
                self.assertEqual((found.shared_store, found.replication, found.scale_down), expected)

    def test_colocated_brokers(self) -> None:
        names = {'"first"': '"remote-connector"', '"dg"': '"wahey"', 'name="c"': 'name="abcdefg"', 'name="d"': 'name="33rrrrr"'}
        base = connections(connection("", "c"), connection("<address>d</address>", "d"))
        for old, new in names.items():
            base = base.replace(old, new)
        for name, expected in COLOCATED.items():
            with self.subTest(example=name):
                loaded = self.load(base + Path(EXAMPLES / f"{name}.xml").read_text())
                self.assertEqual((loaded.configuration.replication, loaded.configuration.colocated), expected)
                self.assertEqual([each for each in loaded.warnings if "ha-policy" in str(each) or "colocated" in str(each)], [])

    def test_what_is_refused(self) -> None:
        for name, element in REFUSED.items():
            with self.subTest(example=name):
                error = self.assertRaises(ConfigurationError, self.load, self.example(name))
                self.assertIn(f"<{element}> cannot be used", str(error))
