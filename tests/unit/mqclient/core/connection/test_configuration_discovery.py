"""URLs of clients that find their brokers by announcements."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.configuration import configuration_from_url, one_kind
from mqclient.protocol.discovery import (
    DiscoveryGroupConfiguration,
    JGroupsEndpoint,
    UdpEndpoint,
)
from tests.support.network import connector
from tests.unit.mqclient.core.discovery.test_discovery import GROUP


class UrlTests(SynchronousTestCase):
    def test_udp(self) -> None:
        found = configuration_from_url(
            "udp://231.7.7.7:5432?localBindAddress=127.0.0.1&localBindPort=3333&refreshTimeout=5000&initialWaitTimeout=7000&ha=true"
        )
        self.assertEqual(found.warnings, [])
        self.assertEqual(found.brokers, DiscoveryGroupConfiguration(UdpEndpoint("231.7.7.7", 5432, "127.0.0.1", 3333), 5000, 7000))
        self.assertTrue(found.settings.ha)

    def test_defaults_and_the_other_name_of_the_wait(self) -> None:
        self.assertEqual(configuration_from_url("udp://231.7.7.7").brokers, DiscoveryGroupConfiguration(GROUP, 10000, 10000))
        found = configuration_from_url("udp://231.7.7.7:9876?discoveryInitialWaitTimeout=1")
        self.assertEqual(found.brokers, DiscoveryGroupConfiguration(GROUP, 10000, 1))

    def test_jgroups(self) -> None:
        found = configuration_from_url("jgroups://activemq_broadcast_channel?file=etc/test-jgroups-file_ping.xml&refreshTimeout=5000")
        self.assertEqual(found.warnings, [])
        endpoint = JGroupsEndpoint("activemq_broadcast_channel", "etc/test-jgroups-file_ping.xml")
        self.assertEqual(found.brokers, DiscoveryGroupConfiguration(endpoint, 5000, 10000))

    def test_a_name_that_is_not_known_is_told(self) -> None:
        self.assertIn("is localBindAddress meant?", configuration_from_url("udp://231.7.7.7?locallBindAddress=1").warnings[0])

    def test_programmatic_forms(self) -> None:
        group = DiscoveryGroupConfiguration(GROUP)
        self.assertEqual(one_kind([connector(1), connector(2)]), (connector(1), connector(2)))
        self.assertEqual(one_kind([group]), group)
        self.assertRaises(ValueError, one_kind, [group, connector(1)])
        self.assertRaises(ValueError, one_kind, [group, group])
