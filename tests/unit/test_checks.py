"""What is checked in files that have been read, before a broker starts with them."""

from __future__ import annotations

from pathlib import Path

from mqbroker.checks import check_settings, idle_parts, odd_settings
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import LockManagerConfiguration, ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.lock_managers import FILE
from mqbroker.settings import read_file
from tests.unit.config.broker_xml.test_cluster_assembly import BASE
from tests.unit.config.test_parse import ConfigurationTestCase


class IdleTests(ConfigurationTestCase):
    def test_a_grouping_handler_without_a_cluster_is_told(self) -> None:
        handler = "<grouping-handler name='g'><type>LOCAL</type><address>a</address></grouping-handler>"
        self.assertIn("no effect without a cluster connection", next(idle_parts(self.configured(handler))))
        self.assertEqual(list(idle_parts(self.configured(BASE))), [])


class NetworkCheckTests(ConfigurationTestCase):
    def test_a_list_that_only_has_the_broker_itself_is_a_problem(self) -> None:
        settings = BrokerSettings(self.configured("<network-check-list>127.0.0.1</network-check-list>"), Path())
        (problem,) = check_settings(settings, (), "broker.xml", "", read_file)
        self.assertIn("broker.xml: network-check-list: 127.0.0.1 is this broker itself", str(problem))

    def test_the_command_that_artemis_create_writes_is_told(self) -> None:
        ping = "<network-check-ping-command>ping -c 1 -t %d %s</network-check-ping-command>"
        configuration = self.configured(f"<network-check-list>192.0.2.1</network-check-list>{ping}")
        settings = BrokerSettings(configuration, Path())
        self.assertEqual(check_settings(settings, (), "broker.xml", "", read_file), [])
        self.assertIn("number of hops", " ".join(odd_settings(settings, read_file)))


class LockManagerTests(ConfigurationTestCase):
    def problems(self, manager: LockManagerConfiguration) -> list[str]:
        settings = BrokerSettings(self.configured(BASE), Path())
        settings.configuration.replication = ReplicationConfiguration(False, manager=manager)
        return [str(each) for each in check_settings(settings, (), "broker.xml", "", read_file)]

    def test_a_manager_that_cannot_be_used_is_a_problem(self) -> None:
        (problem,) = self.problems(LockManagerConfiguration("org.foo.MyQuorumVotingPlugin"))
        self.assertIn("broker.xml: the lock manager org.foo.MyQuorumVotingPlugin cannot be used", problem)

    def test_a_manager_that_can_be_used_is_none(self) -> None:
        self.assertEqual(self.problems(LockManagerConfiguration(FILE[0], {"locks-folder": "/locks"})), [])


class AvailabilityTests(ConfigurationTestCase):
    def test_a_pair_that_takes_too_long_is_told_of_whatever_its_policy(self) -> None:
        connection = "<cluster-connection name='c'><connector-ref>own</connector-ref></cluster-connection>"
        configuration = self.configured(f"{BASE}<cluster-connections>{connection}</cluster-connections>")
        settings = BrokerSettings(configuration, Path("/"))
        self.assertEqual(odd_settings(settings, read_file), [])
        configuration.shared_store = SharedStoreConfiguration(False)
        self.assertIn("connection-ttl: 60 s", odd_settings(settings, read_file)[0])
        configuration.shared_store, configuration.replication = None, ReplicationConfiguration(False)
        self.assertIn("connection-ttl: 60 s", odd_settings(settings, read_file)[0])
