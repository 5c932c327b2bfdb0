"""How nodes are described."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.configuration import NETTY_CONNECTOR
from mqclient.wire.primitives import TransportConfiguration
from mqspark.broker.nodes import Node, with_tls_of


def connector(name: str = "c", **parameters: object) -> TransportConfiguration:
    return TransportConfiguration(name, NETTY_CONNECTOR, tuple((key, str(value)) for key, value in parameters.items()))


class NodeTests(SynchronousTestCase):
    def test_a_node_says_where_it_is(self) -> None:
        node = Node("n-1", (connector(host="a", port=1), connector(host="b", port=2)))
        self.assertEqual(str(node), "n-1 (a:1, b:2)")

    def test_an_announced_connector_gets_the_stores_of_this_side(self) -> None:
        own = connector(host="a", port=1, sslEnabled="true", trustStorePath="mine", verifyHost="false", localPort=7)
        announced = connector(host="b", port=2, sslEnabled="true", verifyHost="true")
        merged = dict(with_tls_of(own, announced).parameters)
        self.assertEqual(merged, {"host": "b", "port": "2", "sslEnabled": "true", "verifyHost": "true", "trustStorePath": "mine"})
        plain = connector(host="b", port=2)
        self.assertIs(with_tls_of(own, plain), plain)

    def test_no_password_is_shown(self) -> None:
        connector = TransportConfiguration("c", "f", (("host", "h"), ("port", "1"), ("sslEnabled", "true"), ("keyStorePassword", "secret")))
        self.assertEqual(repr([Node("n", (connector,))]), "[n (h:1)]")
