"""From URLs to connectors and settings."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import WITHOUT_EFFECT, LocatorSettings, url_parameter_names
from mqclient.core.connection.configuration import configuration_from_url


class UrlTests(SynchronousTestCase):
    def test_list_of_brokers(self) -> None:
        found = configuration_from_url(
            "(tcp://a:1?name=node-0,tcp://b?sslEnabled=true)?ha=true&reconnectAttempts=-1&retryIntervalMultiplier=1.5"
        )
        self.assertEqual([connector.name for connector in found.connectors], ["node-0", "connector-1"])
        self.assertEqual(dict(found.connectors[0].parameters), {"host": "a", "port": "1"})
        self.assertEqual(dict(found.connectors[1].parameters), {"host": "b", "port": "61616", "sslEnabled": "true"})
        settings = found.settings
        self.assertEqual((settings.ha, settings.reconnect_attempts, settings.retry_interval_multiplier), (True, -1, 1.5))
        self.assertEqual(found.warnings, [])

    def test_broker_in_the_same_process(self) -> None:
        found = configuration_from_url("vm://3?callTimeout=5")
        self.assertEqual([connector.parameters for connector in found.connectors], [(("serverId", "3"),)])
        settings = found.settings
        self.assertEqual((settings.connection_ttl, settings.client_failure_check_period, settings.call_timeout), (-1, -1, 5))

    def test_defaults(self) -> None:
        self.assertEqual(configuration_from_url("tcp://a").settings, LocatorSettings())

    def test_every_parameter_reaches_its_field(self) -> None:
        samples = {"bool": ("true", True), "int": ("7", 7), "float": ("7", 7.0)}
        for name, attribute in url_parameter_names().items():
            kind = type(getattr(LocatorSettings(), attribute)).__name__
            text, value = samples.get(kind, ("text", "text"))
            settings = configuration_from_url(f"tcp://a?{name}={text}").settings
            self.assertEqual(getattr(settings, attribute), value, name)

    def test_warnings(self) -> None:
        [warning] = configuration_from_url("tcp://a?connectionTtl=5").warnings
        self.assertIn("connectionTTL", warning)
        [warning] = configuration_from_url("tcp://a?useGlobalPools=false").warnings
        self.assertIn(WITHOUT_EFFECT["useGlobalPools"], warning)
        self.assertEqual(configuration_from_url("tcp://a?type=XA_CF", frozenset({"type"})).warnings, [])

    def test_refused(self) -> None:
        for url, word in (
            ("tcp://a?callTimeout=soon", "callTimeout"),
            ("tcp://a?ha=yes", "ha"),
            ("udp://224.0.0.0:9876", "reserved"),
            ("udp://231.7.7.7:9876?localBindPort=5432", "local bind address"),
            ("udp://231.7.7.7:9876?localBindAddress=127.0.0.1&localBindPort=any", "localBindPort"),
            ("(udp://231.7.7.7:9876,udp://231.7.7.8:9876)", "one group"),
            ("jgroups://channel", "stack file"),
            ("tcp://a?socksEnabled=true", "socksEnabled"),
            ("nonsense", "scheme"),
        ):
            self.assertIn(word, str(self.assertRaises(ValueError, configuration_from_url, url)))
