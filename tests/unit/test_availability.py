"""What a start says of the time that a takeover takes."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.availability import refusal, settings_detection, start_warnings
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import ClusterConnectionConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqclient.urls import TransportUri

MOUNTS = "filer:/a /data nfs4 rw,sync,noac,soft,lookupcache=none,timeo={timeo},retrans=2 0 0\n"


BACKUP = SharedStoreConfiguration(True)


def settings(policy: SharedStoreConfiguration | None = BACKUP, **link: int) -> BrokerSettings:
    configuration = Configuration(
        shared_store=policy,
        connectors={"own": TransportUri("tcp", "h", 1, name="own")},
        cluster_connections=[ClusterConnectionConfiguration("c", "own", **({"check_period": 1000, "connection_ttl": 2000} | link))],
    )
    return BrokerSettings(configuration, Path("/data/broker"))


class WarningTests(SynchronousTestCase):
    def warnings(self, found: BrokerSettings, timeo: int) -> list[str]:
        with mock.patch("mqbroker.availability.read_mounts", lambda: MOUNTS.format(timeo=timeo)):
            return start_warnings(found)

    def test_the_mount_of_the_shared_folder_counts(self) -> None:
        result = settings_detection(settings(), MOUNTS.format(timeo=10))
        assert result is not None
        self.assertEqual(result.delays[0].seconds, 2.5)
        self.assertEqual(result.delays[0].shares[0].setting, "timeo=10 x retrans=2 of /data")

    def test_the_local_folders_of_brokers_with_one_database_do_not_count(self) -> None:
        found = settings()
        store = DatabaseStoreConfiguration("jdbc:postgresql://h/mq", lock_expiration=5000, network_timeout=5000)
        found.configuration.database_store = store
        result = settings_detection(found, MOUNTS.format(timeo=1000))
        assert result is not None
        self.assertEqual(result.delays[0].seconds, 5.5)
        self.assertIsNone(refusal(found, "filer:/a /data nfs rw,nolock,local_lock=all 0 0\n"))

    def test_each_mount_with_a_part_of_the_store_is_compared_and_the_slowest_counts(self) -> None:
        found = settings()
        found.configuration.node_manager_lock_directory = "/locks"
        mounts = MOUNTS.format(timeo=10) + "filer:/b /locks nfs rw,timeo=20,retrans=2 0 0\n"
        with mock.patch("mqbroker.availability.read_mounts", lambda: mounts):
            told = start_warnings(found)
        self.assertEqual([remark.partition(":")[0] for remark in told], ["/locks", "/locks", "/data"])
        result = settings_detection(found, mounts)
        assert result is not None
        self.assertEqual(result.delays[0].shares[0].setting, "timeo=20 x retrans=2 of /locks")

    def test_the_folder_of_the_locks_must_not_be_locked_on_this_machine_only(self) -> None:
        here, everywhere = "filer:/a {} nfs rw,nolock,local_lock=all 0 0\n", "filer:/a {} nfs rw,local_lock=none 0 0\n"
        found = settings()
        self.assertIn("/data: with its mount option nolock", refusal(found, here.format("/data")) or "")
        self.assertIsNone(refusal(found, everywhere.format("/data")))
        self.assertIsNone(refusal(settings(None), here.format("/data")))
        found.configuration.node_manager_lock_directory = "/locks"
        self.assertIsNone(refusal(found, here.format("/data") + everywhere.format("/locks")))
        self.assertIn("/locks: with", refusal(found, everywhere.format("/data") + here.format("/locks")) or "")

    def test_what_takes_long_is_told_at_the_start(self) -> None:
        (mount,) = self.warnings(settings(), 10)
        self.assertIn("noticed after 2 s", mount)
        _, folder = self.warnings(settings(), 100)
        self.assertIn("takes the folder of a dead broker after up to 20.5 s", folder)
        self.assertTrue(folder.endswith("; see 'mqbroker check ha'"))
        _, link = self.warnings(settings(connection_ttl=60_000), 10)
        self.assertIn("connection-ttl: 60 s", link)

    def test_a_broker_without_a_policy_has_nothing_to_tell(self) -> None:
        self.assertIsNone(settings_detection(settings(None), MOUNTS))
        self.assertEqual(self.warnings(settings(None), 600), [])
