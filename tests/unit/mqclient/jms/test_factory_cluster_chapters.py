"""What the chapters on clusters print for clients: properties of JNDI names, and objects."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import TransportConfiguration
from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.jms.factory import ConnectionFactory
from mqclient.jndi import InitialContext
from mqclient.protocol.discovery import DiscoveryGroupConfiguration, UdpEndpoint
from mqclient.protocol.retry import LoadBalancingPolicy, load_balancing_policy

SERVER_1 = TransportConfiguration("server1", NETTY_CONNECTOR, (("host", "myhost"), ("port", "61616")))
SERVER_2 = TransportConfiguration("server2", NETTY_CONNECTOR, (("host", "myhost2"), ("port", "61617")))

DISCOVERED = """
java.naming.factory.initial = org.apache.activemq.jndi.ActiveMQInitialContextFactory
connectionFactory.myConnectionFactory=udp://231.7.7.7:9876
"""
DISCOVERED_LATER = """
java.naming.factory.initial = ActiveMQInitialContextFactory
connectionFactory.myConnectionFactory=udp://231.7.7.7:9876
"""
LISTED = """
java.naming.factory.initial=org.apache.activemq.jndi.ActiveMQInitialContextFactory
connectionFactory.myConnectionFactory=(tcp://myhost:61616,tcp://myhost2:61616)
"""
LISTED_LATER = """
java.naming.factory.initial=org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory
connectionFactory.myConnectionFactory=(tcp://myhost:61616,tcp://myhost2:61616)
"""
BALANCED = """
java.naming.factory.initial=org.apache.activemq.jndi.ActiveMQInitialContextFactory
connection.myConnectionFactory=tcp://localhost:61616?loadBalancingPolicyClassName=org.apache.activemq.api.core.client.loadbalance.RandomConnectionLoadBalancingPolicy
"""


class JndiTests(SynchronousTestCase):
    def factory(self, text: str) -> ConnectionFactory:
        file = Path(self.mktemp())
        file.write_text(text, "latin-1")
        return InitialContext(file).connection_factory("myConnectionFactory")

    def test_discovery(self) -> None:
        for text in (DISCOVERED, DISCOVERED_LATER):
            factory = self.factory(text)
            self.assertEqual(factory._brokers(), DiscoveryGroupConfiguration(UdpEndpoint("231.7.7.7", 9876), 10000, 10000))
            self.assertIn("udp://231.7.7.7:9876", repr(factory))

    def test_a_list(self) -> None:
        for text in (LISTED, LISTED_LATER):
            places = [dict(connector.parameters) for connector in self.factory(text).connectors]
            self.assertEqual(places, [{"host": "myhost", "port": "61616"}, {"host": "myhost2", "port": "61616"}])

    def test_a_policy(self) -> None:
        settings = self.factory(BALANCED).settings
        policy = load_balancing_policy(settings.connection_load_balancing_policy_class_name, lambda count: count - 1)
        self.assertIsInstance(policy, LoadBalancingPolicy)
        self.assertEqual([policy.select(5), policy.select(3)], [4, 2], "random each time")

    def test_parameters_of_the_discovery(self) -> None:
        factory = self.factory(
            "connectionFactory.myConnectionFactory=udp://231.7.7.7:9876?refreshTimeout=5000&initialWaitTimeout=2000&ha=true"
        )
        self.assertEqual(factory._brokers(), DiscoveryGroupConfiguration(UdpEndpoint("231.7.7.7", 9876), 5000, 2000))
        self.assertTrue(factory.settings.ha)
        factory.settings.refresh_timeout = 7000
        self.assertEqual(factory._brokers(), DiscoveryGroupConfiguration(UdpEndpoint("231.7.7.7", 9876), 7000, 2000))

    def test_jgroups(self) -> None:
        factory = self.factory("connectionFactory.myConnectionFactory=jgroups://mychannel?file=stack.xml")
        self.assertIn("jgroups://mychannel", repr(factory))

    def test_what_cannot_be_used_names_the_key(self) -> None:
        for url in ("udp://224.0.0.0:9876", "jgroups://mychannel", "udp://231.7.7.7:0"):
            with self.assertRaisesRegex(ValueError, "connectionFactory.myConnectionFactory"):
                self.factory(f"connectionFactory.myConnectionFactory={url}")


class ObjectTests(SynchronousTestCase):
    def test_discovery(self) -> None:
        group = DiscoveryGroupConfiguration(UdpEndpoint("231.7.7.7", 9876, None, -1), refresh_timeout=5000, initial_wait_timeout=1000)
        factory = ConnectionFactory(group)
        self.assertEqual(factory._brokers(), group)
        self.assertEqual((factory.settings.refresh_timeout, factory.settings.discovery_initial_wait_timeout), (5000, 1000))
        self.assertEqual(list(factory.connectors), [])
        reserved = DiscoveryGroupConfiguration(UdpEndpoint("224.0.0.0", 9876))
        self.assertIn("reserved", str(self.assertRaises(ValueError, ConnectionFactory, reserved)))

    def test_connectors_with_and_without_ha(self) -> None:
        factory = ConnectionFactory.with_ha(SERVER_1, SERVER_2, reconnect_attempts=-1)
        self.assertEqual(list(factory.connectors), [SERVER_1, SERVER_2])
        self.assertEqual((factory.settings.ha, factory.settings.reconnect_attempts), (True, -1))
        self.assertFalse(ConnectionFactory.without_ha(SERVER_1, SERVER_2).settings.ha)
        self.assertRaises(ValueError, ConnectionFactory.with_ha, SERVER_1, DiscoveryGroupConfiguration(UdpEndpoint("231.7.7.7", 9876)))

    def test_a_policy_of_the_application(self) -> None:
        factory = ConnectionFactory.with_ha(SERVER_1, SERVER_2)
        factory.settings.connection_load_balancing_policy_class_name = "tests.unit.mqclient.protocol.test_retry.LastElement"
        policy = load_balancing_policy(factory.settings.connection_load_balancing_policy_class_name, lambda count: 0)
        self.assertEqual(policy.select(2), 1)
