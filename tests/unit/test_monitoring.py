"""Where metrics and health are served, and what they say."""

from __future__ import annotations

from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import Site

from mqbroker.config.model.configuration import Configuration, MetricsConfiguration
from mqbroker.config.model.monitoring_ports import Binding, bindings
from mqbroker.server.observation.figures import BrokerFigures
from mqbroker.server.observation.health import CONNECTIONS_MAX, few_connections, health_root
from mqbroker.server.observation.metrics import render
from tests.unit.server.support import World

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


class ConnectionTests(SynchronousTestCase):
    def test_there_are_only_so_many(self) -> None:
        """They take descriptors of which the journal has to have some."""
        factory = few_connections(Site(health_root(lambda: None, lambda: None)))  # type: ignore[no-untyped-call]
        transports = [StringTransportWithDisconnection() for _ in range(CONNECTIONS_MAX)]
        for transport in transports:
            transport.protocol = factory.buildProtocol(None)
            transport.protocol.makeConnection(transport)
        self.assertIsNone(factory.buildProtocol(None))
        transports[0].protocol.dataReceived(b"GET /health/live HTTP/1.0\r\n\r\n")
        self.assertIn(b"200 OK", transports[0].value())
        self.assertFalse(transports[0].connected)
        self.assertIsNotNone(factory.buildProtocol(None))
        for transport in transports[1:]:
            transport.loseConnection()


class FigureTests(SynchronousTestCase):
    def lines(self, world: World) -> set[str]:
        return set(b"".join(render(BrokerFigures(world.server, lambda: 0.25, lambda: None))).decode().splitlines())

    def test_of_a_broker_at_work(self) -> None:
        world = World(Configuration(name="b", security_enabled=False))
        session = world.session()
        session.create_queue("q")
        for _ in range(3):
            session.publish()
        session.consume(credits=1)
        lines = self.lines(world)
        for line in (
            'artemis_connection_count{broker="b"} 1',
            'artemis_session_count{broker="b"} 1',
            'artemis_active{broker="b"} 1',
            'artemis_disk_store_usage{broker="b"} 0.25',
            'artemis_routed_message_count{broker="b",address="q"} 3',
            'artemis_message_count{broker="b",address="q",queue="q"} 3',
            'artemis_delivering_message_count{broker="b",address="q",queue="q"} 1',
            'artemis_consumer_count{broker="b",address="q",queue="q"} 1',
        ):
            self.assertIn(line, lines)

    def test_addresses_without_metrics(self) -> None:
        world = World(Configuration(security_enabled=False, address_settings={"quiet.#": {"enable_metrics": False}}))
        session = world.session()
        session.create_queue("quiet.q")
        session.create_queue("loud")
        text = "\n".join(self.lines(world))
        self.assertIn("loud", text)
        self.assertNotIn("quiet", text)

    def test_logins(self) -> None:
        world = World(Configuration(name="b"))
        world.peer().open(username="admin", password="secret")
        world.peer().session(username="admin", password="wrong")
        lines = self.lines(world)
        self.assertIn('artemis_authentication_count{broker="b",result="success"} 1', lines)
        self.assertIn('artemis_authentication_count{broker="b",result="failure"} 1', lines)
