"""What the control of the broker tells of the configuration."""

from __future__ import annotations

import json

from mqbroker.config.model.cluster import (
    ColocatedConfiguration,
    LockManagerConfiguration,
    ReplicationConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.server.cluster_port import ColocatedFigures, CopyFigures, HostedFigures
from mqclient.urls import TransportUri
from tests.unit.cluster.support import KnownOthers
from tests.unit.server.management.test_service import ManagementCase


class ConfiguredTests(ManagementCase):
    def test_the_policy_of_high_availability_has_the_names_of_artemis(self) -> None:
        for policy, name in (
            (None, "Primary Only"),
            (SharedStoreConfiguration(False), "Shared Store Primary"),
            (SharedStoreConfiguration(True), "Shared Store Backup"),
        ):
            self.world.configuration.shared_store = policy
            self.assertEqual(self.call("broker", "getHAPolicy"), name)
            self.assertEqual(self.call("broker", "isSharedStore"), policy is not None)
            # Whoever answers is active, and a shared store has no replica.
            for operation, value in (("isActive", True), ("isStarted", True), ("isBackup", False), ("isReplicaSync", False)):
                self.assertIs(self.call("broker", operation), value)
            self.assertEqual(self.call("broker", "getActivationSequence"), -1)
        self.world.configuration.shared_store = None
        for copied, name in (
            (ReplicationConfiguration(False), "Replication Primary w/quorum voting"),
            (ReplicationConfiguration(True), "Replication Backup w/quorum voting"),
            (ReplicationConfiguration(False, manager=LockManagerConfiguration()), "Replication Primary w/lock manager"),
            (ReplicationConfiguration(True, manager=LockManagerConfiguration()), "Replication Backup w/lock manager"),
        ):
            self.world.configuration.replication = copied
            self.assertEqual((self.call("broker", "getHAPolicy"), self.call("broker", "isSharedStore")), (name, False))

    def test_how_the_copies_of_a_replicated_pair_stand(self) -> None:
        for in_sync in (True, False):
            self.world.server.others = KnownOthers()
            self.world.server.others.copies = CopyFigures(7, in_sync, None, None)
            self.assertEqual((self.call("broker", "isReplicaSync"), self.call("broker", "getActivationSequence")), (in_sync, 7))
            self.assertEqual(self.call("broker", "getReplicaBehind"), -1)
        self.world.server.others.copies = CopyFigures(7, True, 10, 10, 300)
        self.assertEqual(self.call("broker", "getReplicaBehind"), 300)

    def test_hosted_backups_and_the_host_of_the_own_one(self) -> None:
        self.assertEqual((self.call("broker", "getBackupHost"), self.call("broker", "getHostedBackups")), (None, "[]"))
        self.world.server.others = KnownOthers()
        self.world.server.others.colocated = ColocatedFigures("h", [HostedFigures("colocated_backup_1", "n", "passive")])
        self.assertEqual(self.call("broker", "getBackupHost"), "h")
        hosted = [{"name": "colocated_backup_1", "nodeID": "n", "state": "passive"}]
        self.assertEqual(json.loads(self.call("broker", "getHostedBackups")), hosted)
        self.world.configuration.colocated = ColocatedConfiguration(SharedStoreConfiguration(True))
        self.assertEqual(self.call("broker", "getHAPolicy"), "Colocated")

    def test_connectors_are_told_without_their_passwords(self) -> None:
        self.world.configuration.connectors["c"] = TransportUri("tcp", "h", 7, {"keyStorePassword": "p"})
        found = json.loads(self.attribute("broker", "ConnectorsAsJSON"))
        self.assertEqual(found, [{"name": "c", "params": {"host": "h", "port": "7"}}])
