"""Address lists and attributes of Open Message Queue."""

from __future__ import annotations

import warnings

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.configuration import configuration_from_url
from mqclient.core.settings import LocatorSettings
from mqclient.jms.exceptions import IllegalArgumentException
from mqclient.jms.factory import ConnectionFactory
from mqclient.jndi import InitialContext
from mqclient.openmq import DEFAULTS, connection_url
from mqclient.urls import UrlError, parse_connection_url


def places(url: str) -> list[tuple[str, str]]:
    return [(dict(each.parameters)["host"], dict(each.parameters)["port"]) for each in configuration_from_url(url).connectors]


def settings(query: str = "") -> LocatorSettings:
    return configuration_from_url(f"mq://a{query}").settings


class AddressTests(SynchronousTestCase):
    def test_lists(self) -> None:
        self.assertEqual(places("mq://a:1/jms,mqtcp://b:2/jms"), [("a", "1"), ("b", "2")])
        self.assertEqual(places("mq://a mq://b:2,\n mq://c/"), [("a", "7676"), ("b", "2"), ("c", "7676")])
        self.assertEqual(places("(mq://a,b:5)?imqPingInterval=5"), [("a", "7676"), ("b", "5")])
        self.assertEqual(places("mq://[::1]:3/jms"), [("::1", "3")])
        self.assertEqual(places("mq://"), [("localhost", "7676")])

    def test_tls(self) -> None:
        plain, secure = configuration_from_url("mq://a,mqssl://b:7677/ssljms?trustStorePath=t.pem").connectors
        self.assertNotIn("sslEnabled", dict(plain.parameters))
        self.assertEqual(dict(secure.parameters)["sslEnabled"], "true")
        self.assertEqual(dict(secure.parameters)["trustStorePath"], "t.pem")

    def test_addresses_that_cannot_be(self) -> None:
        for text, expected in (
            ("mq://a:1,https://b:2/tunnel", "HTTP tunnels"),
            ("mq://a:1/ssljms", "mqssl://host:port/ssljms"),
            ("mqssl://a:1/jms", "mqtcp?://host:port/jms|mqssl://host:port/ssljms"),
            ("mq://a:66000", "0 to 65535"),
            ("mq://a:x", "expected mq://host:port/jms"),
            ("mq://a,tcp://b:1", "expected mq://host:port/jms"),
        ):
            self.assertRegex(str(self.assertRaises(UrlError, connection_url, text)), expected)
        self.assertIn("empty", str(self.assertRaises(UrlError, connection_url, "tcp://a", {"imqAddressList": " "})))

    def test_passwords_are_not_shown(self) -> None:
        error = self.assertRaises(UrlError, connection_url, "mq://me:secret@host:1")
        self.assertNotIn("secret", str(error))

    @given(st.text(alphabet="mqtcpsl:/,?=& ab1[]()@", max_size=40))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            url = connection_url("mq://" + text)
        except UrlError:
            return
        self.assertTrue(url.endpoints)
        self.assertTrue(all(each.scheme == "tcp" and 0 <= each.port <= 65535 for each in url.endpoints))

    def test_a_url_of_artemis_stays_as_it_is(self) -> None:
        for text in ("tcp://a:1?ha=true", "(tcp://a:1,tcp://b:2)?reconnectAttempts=-1", "vm://0"):
            self.assertEqual(connection_url(text), parse_connection_url(text))


class AttributeTests(SynchronousTestCase):
    def test_without_attributes_there_is_no_reconnect(self) -> None:
        found = settings()
        self.assertEqual((found.reconnect_attempts, found.failover_attempts, found.initial_connect_attempts), (0, 0, 1))
        self.assertEqual((found.retry_interval, found.max_retry_interval, found.client_failure_check_period), (3000, 3000, 30000))
        self.assertEqual((found.user, found.password), ("guest", "guest"))
        self.assertFalse(found.use_topology_for_load_balancing)

    def test_rounds_through_the_list(self) -> None:
        for query, expected in (
            ("?imqReconnectEnabled=true", (0, 1, 1)),
            ("?imqReconnectEnabled=true&imqReconnectAttempts=1&imqAddressListIterations=3", (1, 3, 3)),
            ("?imqReconnectEnabled=true&imqReconnectAttempts=4&imqAddressListIterations=3", (4, 12, 12)),
            ("?imqReconnectEnabled=true&imqReconnectAttempts=4&imqAddressListIterations=0", (4, -1, -1)),
            ("?imqReconnectEnabled=true&imqAddressListIterations=-1", (0, -1, -1)),
            ("?imqReconnectEnabled=true&imqReconnectAttempts=-1", (-1, 0, -1)),
            ("?imqReconnectAttempts=5", (0, 0, 5)),
        ):
            found = settings(query)
            self.assertEqual((found.reconnect_attempts, found.failover_attempts, found.initial_connect_attempts), expected, query)

    def test_old_spellings(self) -> None:
        found = settings("?imqReconnect=true&imqReconnectRetries=7&imqReconnectDelay=40")
        self.assertEqual((found.reconnect_attempts, found.retry_interval), (7, 40))

    def test_the_order_of_the_list(self) -> None:
        self.assertEqual(settings().connection_load_balancing_policy_class_name, "FirstElement")
        self.assertEqual(settings("?imqAddressListBehavior=random").connection_load_balancing_policy_class_name, "RandomSticky")

    def test_pings(self) -> None:
        for query, expected in (
            ("?imqPingInterval=5", (5000, 60000)),
            ("?imqPingInterval=90", (90000, 180000)),
            ("?imqPingInterval=0", (-1, -1)),
            ("?imqPingInterval=5&imqPingAckTimeout=2000&imqAbortOnPingAckTimeout=true", (5000, 7000)),
            ("?imqPingInterval=5&imqPingAckTimeout=2000", (5000, 60000)),
        ):
            found = settings(query)
            self.assertEqual((found.client_failure_check_period, found.connection_ttl), expected, query)

    def test_other_times_and_names(self) -> None:
        found = settings("?imqAckTimeout=70&imqConfiguredClientID=me&imqDefaultUsername=u&imqDefaultPassword=p")
        self.assertEqual((found.call_timeout, found.client_id, found.user, found.password), (70, "me", "u", "p"))
        self.assertEqual(settings("?imqAckTimeout=0").call_timeout, LocatorSettings().call_timeout)
        [connector] = configuration_from_url("mq://a?imqSocketConnectTimeout=900").connectors
        self.assertEqual(dict(connector.parameters)["connect-timeout-millis"], "900")

    def test_values_that_cannot_be(self) -> None:
        for name, value in (
            ("imqReconnectEnabled", "yes"),
            ("imqReconnectInterval", "-1"),
            ("imqAddressListIterations", "many"),
            ("imqAddressListBehavior", "FIRST"),
            ("imqAckTimeout", "1.5"),
        ):
            self.assertIn(name, str(self.assertRaises(UrlError, connection_url, f"mq://a?{name}={value}")))

    def test_an_unknown_attribute_is_named_with_the_nearest(self) -> None:
        [warning] = configuration_from_url("mq://a?imqReconectEnabled=true").warnings
        self.assertIn("imqReconnectEnabled", warning)
        self.assertEqual(
            configuration_from_url("mq://a?" + "&".join(f"{each}={DEFAULTS[each]}" for each in DEFAULTS if DEFAULTS[each])).warnings, []
        )

    def test_attributes_behind_a_url_of_artemis(self) -> None:
        found = configuration_from_url("tcp://a:1?imqReconnectEnabled=true&retryInterval=9").settings
        self.assertEqual((found.failover_attempts, found.retry_interval, found.user), (1, 9, None))
        self.assertEqual(places("tcp://a:1?imqBrokerHostName=b"), [("b", "7676")])
        self.assertEqual(places("tcp://a:1?imqBrokerHostPort=5"), [("localhost", "5")])


class FactoryTests(SynchronousTestCase):
    def test_keywords(self) -> None:
        factory = ConnectionFactory(imqAddressList="mq://a:1,mq://b:2", imqReconnectEnabled=True, imqAddressListIterations=-1)
        self.assertEqual([dict(each.parameters)["port"] for each in factory.connectors], ["1", "2"])
        self.assertEqual(factory.settings.failover_attempts, -1)
        mixed = ConnectionFactory("mq://a?imqAckTimeout=5", imqAckTimeout=6, call_failover_timeout=7)
        self.assertEqual((mixed.settings.call_timeout, mixed.settings.call_failover_timeout), (6, 7))

    def test_keywords_that_cannot_be(self) -> None:
        self.assertRaises(IllegalArgumentException, ConnectionFactory, imqReconnectInterval="soon")
        connectors = ConnectionFactory("tcp://a").connectors
        error = self.assertRaises(IllegalArgumentException, ConnectionFactory, connectors, imqPingInterval=1)
        self.assertIn("imqPingInterval", str(error))
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            ConnectionFactory(imqReconectEnabled=True)
        self.assertIn("imqReconnectEnabled", str(heard[0].message))

    def test_jndi_properties(self) -> None:
        context = InitialContext({"connectionFactory.orders": "mq://a:1,mq://b:2?imqReconnectEnabled=true"})
        factory = context.connection_factory("orders")
        self.assertEqual((len(factory.connectors), factory.settings.failover_attempts), (2, 1))
