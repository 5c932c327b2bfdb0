"""Colocated backups in broker.xml: what each element means, or why it stops the start."""

from __future__ import annotations

from mqbroker.config.model.cluster import ColocatedConfiguration, ReplicationConfiguration, ScaleDownConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.parse import ConfigurationError, load_configuration, parse_configuration
from tests.unit.config.broker_xml.test_cluster_assembly import BASE, connection, connections
from tests.unit.config.test_parse import ConfigurationTestCase, document

CLUSTER = connections(connection(""))
STORES = ("shared-store", "replication")
ITEMS = (
    "<request-backup>true</request-backup><backup-request-retries>7</backup-request-retries>"
    "<backup-request-retry-interval>8</backup-request-retry-interval><max-backups>9</max-backups>"
    "<backup-port-offset>10</backup-port-offset>"
    "<excludes><connector-ref>first</connector-ref><connector-ref>second</connector-ref></excludes>"
)


def policy(store: str, inside: str, more: str = "") -> str:
    return f"{CLUSTER}{more}<ha-policy><{store}><colocated>{inside}</colocated></{store}></ha-policy>"


class ColocatedTests(ConfigurationTestCase):
    def test_every_element(self) -> None:
        shared = self.configured(policy("shared-store", ITEMS))
        hosted = ColocatedConfiguration(SharedStoreConfiguration(True), None, True, 7, 8, 9, 10, ("first", "second"))
        self.assertEqual((shared.colocated, shared.shared_store), (hosted, SharedStoreConfiguration(False)))
        copied = self.configured(policy("replication", ITEMS))
        hosted = ColocatedConfiguration(ReplicationConfiguration(True), None, True, 7, 8, 9, 10, ("first", "second"))
        self.assertEqual((copied.colocated, copied.replication), (hosted, ReplicationConfiguration(False)))

    def test_defaults(self) -> None:
        for store, backup in zip(STORES, (SharedStoreConfiguration(True), ReplicationConfiguration(True)), strict=True):
            found = self.configured(policy(store, "")).colocated
            self.assertEqual(found, ColocatedConfiguration(backup))
        self.assertEqual(found, ColocatedConfiguration(backup, None, False, -1, 5000, 1, 100, ()))
        self.assertIsNone(Configuration().colocated)

    def test_the_policies_inside(self) -> None:
        for primary, backup in (("primary", "backup"), ("master", "slave")):
            inside = (
                f"<{primary}><failover-on-shutdown>true</failover-on-shutdown></{primary}>"
                f"<{backup}><allow-failback>false</allow-failback><scale-down><group-name>g</group-name></scale-down></{backup}>"
            )
            found = self.load(policy("shared-store", inside)).configuration
            self.assertEqual(found.shared_store, SharedStoreConfiguration(False, failover_on_shutdown=True))
            hosted = ColocatedConfiguration(SharedStoreConfiguration(True, allow_failback=False), ScaleDownConfiguration(group_name="g"))
            self.assertEqual(found.colocated, hosted)
            # It is the hosted backups that scale down.
            self.assertEqual((found.scale_down, found.gives_away), (None, False))

    def test_mistakes(self) -> None:
        role = "<group-name>g</group-name>"
        for store, inside, expected in (
            ("shared-store", "<max-backups>-1</max-backups>", "<max-backups>: '-1' is not valid"),
            ("shared-store", "<backup-port-offset>0</backup-port-offset>", "<backup-port-offset>: '0' is not valid"),
            ("shared-store", "<backup-request-retries>-2</backup-request-retries>", "<backup-request-retries>: '-2' is not valid"),
            ("shared-store", "<excludes><connector-ref>frst</connector-ref></excludes>", "there is no connector frst; did you mean first?"),
            ("shared-store", "<primary/><master/>", "<colocated> holds primary and master: expected one of them"),
            ("shared-store", f"<primary>{role}</primary>", "<group-name> is not an element of <primary>"),
            ("replication", "<backup><cluster-name>d</cluster-name></backup>", "there is no cluster-connection d; expected: c"),
            ("replication", "<primary><manager/></primary>", "<manager> cannot be used: under its old name, and in colocated"),
            ("replication", "<backup><coordination-id>x</coordination-id></backup>", "<coordination-id> is not an element of <backup>"),
        ):
            with self.subTest(inside=inside):
                self.assertIn(expected, self.errors(policy(store, inside))[0])
        for store in STORES:
            both = f"{CLUSTER}<ha-policy><{store}><primary/><colocated/></{store}></ha-policy>"
            self.assertIn(f"<{store}> holds primary, colocated: expected one of them", self.errors(both)[0])
            alone = f"{BASE}<ha-policy><{store}><colocated/></{store}></ha-policy>"
            self.assertTrue(any("<colocated> needs a cluster-connection" in error for error in self.errors(alone)))

    def test_a_lock_folder_of_its_own_is_unknown_to_the_host(self) -> None:
        own = "<node-manager-lock-directory>locks</node-manager-lock-directory>"
        asks = "<request-backup>true</request-backup>"
        self.assertIn("cannot be used with node-manager-lock-directory", self.errors(policy("shared-store", asks, own))[0])
        self.configured(policy("shared-store", "", own))
        self.configured(policy("replication", asks, own))

    def test_overriding_properties(self) -> None:
        lines = {"requestBackup": "true", "maxBackups": "3", "backupPortOffset": "5", "excludedConnectors": "first"}
        values = {f"brokerconfig.HAPolicyConfiguration.{name}": value for name, value in lines.items()}
        inside = "<primary/><backup><scale-down/></backup>"
        found = parse_configuration(document(policy("replication", inside)), substitutions=values).configuration
        expected = ColocatedConfiguration(ReplicationConfiguration(True), ScaleDownConfiguration(), True, -1, 5000, 3, 5, ("first",))
        self.assertEqual(found.colocated, expected)

    def overridden(self, lines: str, core: str = CLUSTER) -> Configuration:
        files = {"/broker.xml": document(core), "/b.properties": "\n".join(f"HAPolicyConfiguration{line}" for line in lines.split())}
        return load_configuration("/broker.xml", lambda path: files[path].encode(), {}, ["/b.properties"]).configuration

    def test_the_policy_and_its_roles_in_properties(self) -> None:
        for lines, own, hosted in (
            ("=COLOCATED", ReplicationConfiguration(False), ReplicationConfiguration(True)),
            (
                "=COLOCATED .primaryConfig=SHARED_STORE_PRIMARY .backupConfig=SHARED_STORE_BACKUP",
                SharedStoreConfiguration(False),
                SharedStoreConfiguration(True),
            ),
            (
                "=COLOCATED .backupConfig=SHARED_STORE_BACKUP .backupConfig.restartBackup=false .primaryConfig=SHARED_STORE_PRIMARY "
                ".primaryConfig.failoverOnServerShutdown=true",
                SharedStoreConfiguration(False, failover_on_shutdown=True),
                SharedStoreConfiguration(True, restart_backup=False),
            ),
            ("=COLOCATED .primaryConfig=SHARED_STORE_PRIMARY", SharedStoreConfiguration(False), SharedStoreConfiguration(True)),
            (
                "=COLOCATED .primaryConfig=REPLICATION_PRIMARY_QUORUM_VOTING .primaryConfig.groupName=g "
                ".backupConfig=REPLICATION_BACKUP_QUORUM_VOTING .backupConfig.groupName=h",
                ReplicationConfiguration(False, "g"),
                ReplicationConfiguration(True, "h"),
            ),
        ):
            for core in (CLUSTER, policy("shared-store", "<primary/><backup/>"), policy("replication", "<max-backups>9</max-backups>")):
                with self.subTest(lines=lines, core=core):
                    found = self.overridden(f"{lines} .maxBackups=3 .portOffset=4", core)
                    self.assertIn(own, (found.shared_store, found.replication))
                    self.assertEqual(found.colocated, ColocatedConfiguration(hosted, max_backups=3))
        found = self.overridden("=COLOCATED .backupConfig.scaleDownConfiguration.groupName=g .maxBackups=3")
        expected = ColocatedConfiguration(ReplicationConfiguration(True), ScaleDownConfiguration(group_name="g"), max_backups=3)
        self.assertEqual(found.colocated, expected)

    def test_the_roles_of_the_file_can_be_changed(self) -> None:
        core = policy("shared-store", "<master><failover-on-shutdown>true</failover-on-shutdown></master><max-backups>9</max-backups>")
        found = self.overridden(".primaryConfig.waitForActivation=false", core)
        self.assertEqual(found.shared_store, SharedStoreConfiguration(False, failover_on_shutdown=True, wait_for_activation=False))
        found = self.overridden(".primaryConfig=SHARED_STORE_PRIMARY", core)
        self.assertEqual(found.shared_store, SharedStoreConfiguration(False))
        found = self.overridden(".primaryConfig=REPLICATION_PRIMARY_QUORUM_VOTING", core)
        self.assertEqual((found.replication, found.shared_store), (ReplicationConfiguration(False), None))
        self.assertEqual(found.colocated, ColocatedConfiguration(ReplicationConfiguration(True), max_backups=9))

    def test_mistakes_in_properties(self) -> None:
        for lines, expected in (
            (
                "=COLOCATED .backupConfig=SHARED_STORE_BACKUP",
                "one of replication, that of its backups one of shared-store: expected the same",
            ),
            (
                "=COLOCATED .primaryConfig=SHARED_STORE_PRIMARY .backupConfig=REPLICATION_BACKUP_QUORUM_VOTING",
                "one of shared-store, that of its backups one of replication: expected the same",
            ),
            ("=COLOCATED .primaryConfig=SHARED_STORE_BACKUP", "expected SHARED_STORE_PRIMARY or REPLICATION_PRIMARY_QUORUM_VOTING"),
            ("=COLOCATED .backupConfig=REPLICATION_BACKUP_LOCK_MANAGER", "SHARED_STORE_BACKUP or REPLICATION_BACKUP_QUORUM_VOTING"),
            ("=COLOCATED .primaryConfg=SHARED_STORE_PRIMARY", "did you mean primaryConfig?"),
            ("=COLOCATED .primaryConfig=SHARED_STORE_PRIMARY .primaryConfig.groupName=g", "there is no property groupName"),
            ("=COLOCATED .backupConfig.scaleDownConfiguration.x=1", "there is no property x"),
            ("=SHARED_STORE_PRIMARY .primaryConfig=SHARED_STORE_PRIMARY", "there is no property primaryConfig"),
        ):
            with self.subTest(lines=lines):
                self.assertIn(expected, str(self.assertRaises(ConfigurationError, self.overridden, lines)))
        backup = policy("shared-store", "<backup/>")
        error = self.assertRaises(ConfigurationError, self.overridden, ".primaryConfig=REPLICATION_PRIMARY_QUORUM_VOTING", backup)
        self.assertIn("/b.properties:1: HAPolicyConfiguration.primaryConfig: the role of this broker is one of replication", str(error))
