"""Addresses for metrics and health, as configurations write them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import MetricsConfiguration
from mqbroker.config.model.monitoring_ports import Binding, bindings

PLUGIN = "org.apache.activemq.artemis.core.server.metrics.plugins.ArtemisPrometheusMetricsPlugin"


class BindingTests(SynchronousTestCase):
    def test_nothing_unless_configured(self) -> None:
        self.assertEqual(bindings(None, ()), ([], []))
        self.assertEqual(bindings(MetricsConfiguration(), ()), ([], []))

    def test_the_plugin_alone_is_served_on_the_loopback(self) -> None:
        self.assertEqual(bindings(MetricsConfiguration(PLUGIN), ())[0], [Binding("127.0.0.1", 8161, True)])

    def test_the_plugin_says_where(self) -> None:
        metrics = MetricsConfiguration(PLUGIN, {"host": "127.0.0.2", "port": "0"})
        self.assertEqual(
            bindings(metrics, ("http://localhost:8161",))[0], [Binding("127.0.0.2", 0, True), Binding("127.0.0.1", 8161, False)]
        )

    def test_the_console_of_an_instance(self) -> None:
        self.assertEqual(bindings(None, ("http://localhost:9",))[0], [Binding("127.0.0.1", 9, False)])
        self.assertEqual(bindings(MetricsConfiguration(PLUGIN), ("http://0.0.0.0",))[0], [Binding("0.0.0.0", 8161, True)])

    def test_what_cannot_be(self) -> None:
        found, warnings = bindings(None, ("https://localhost:8443",))
        self.assertEqual((found, len(warnings)), ([], 1))
        self.assertIn("port=x", str(self.assertRaises(ValueError, bindings, MetricsConfiguration(PLUGIN, {"port": "x"}), ())))
