"""Connection factories and JNDI names: what a URL or a properties file means."""

from __future__ import annotations

import warnings

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import TransportConfiguration
from mqclient.jms.exceptions import IllegalArgumentException, IllegalStateException
from mqclient.jms.factory import ConnectionFactory
from mqclient.jms.settings import FactorySettings


class UrlCase(SynchronousTestCase):
    def warned(self, url: str) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ConnectionFactory(url)
        return [str(warning.message) for warning in caught]


class UrlTests(UrlCase):
    def test_connectors(self) -> None:
        one, two = ConnectionFactory("(tcp://a:1?name=n0&sslEnabled=true,tcp://b)?reconnectAttempts=3&trustAll=true").connectors
        self.assertEqual((one.name, dict(one.parameters)), ("n0", {"host": "a", "port": "1", "sslEnabled": "true", "trustAll": "true"}))
        self.assertEqual(dict(two.parameters), ({"host": "b", "port": "61616", "trustAll": "true"}))
        given = [TransportConfiguration("x", "factory", (("host", "h"),))]
        self.assertEqual(list(ConnectionFactory(given, ha=True).connectors), given)

    def test_in_vm_connections_are_not_pinged(self) -> None:
        settings = ConnectionFactory("vm://0").settings
        self.assertEqual((settings.connection_ttl, settings.client_failure_check_period), (-1, -1))

    def test_keywords_win_over_the_url(self) -> None:
        self.assertEqual(ConnectionFactory("tcp://h?callTimeout=1", call_timeout=2).settings.call_timeout, 2)
        with self.assertRaisesRegex(AttributeError, "call_timeout"):
            ConnectionFactory("tcp://h", call_timout=2)
        with self.assertRaises(AttributeError):
            ConnectionFactory("tcp://h").settings.reconnects = 1

    def test_masked_passwords(self) -> None:
        self.assertRaises(IllegalArgumentException, ConnectionFactory, "tcp://h?password=ENC(x)")
        self.assertEqual(ConnectionFactory("tcp://h?password=ENC(x)", password_codec=str.upper).settings.password, "X")

    def test_a_frozen_factory_cannot_be_set(self) -> None:
        settings = FactorySettings()
        settings.freeze()
        with self.assertRaises(IllegalStateException):
            settings.call_timeout = 1

    def test_passwords_are_not_shown(self) -> None:
        factory = ConnectionFactory("tcp://h:1?user=u&password=hidden")
        self.assertNotIn("hidden", repr(factory) + repr(factory.settings))
