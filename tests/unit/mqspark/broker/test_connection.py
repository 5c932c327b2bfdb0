"""What of a connection URL holds for queries, and what does not."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import LocatorSettings
from mqclient.core.factories.locator import Locator
from mqclient.errors import NotConnectedError
from mqclient.wire.packets import ClusterTopologyV4
from mqclient.wire.primitives import TransportConfiguration
from mqspark.broker import connection
from mqspark.broker.broker import connect
from mqspark.broker.connection import Connection
from mqspark.broker.nodes import Node
from mqspark.errors import BrokerUnreachableError
from mqspark.options import Options, Use


class SilentBrokerTests(SynchronousTestCase):
    """A host that was switched off, or a process that hangs, does not refuse connections: it is silent."""

    def listening(self) -> socket.socket:
        made = socket.create_server(("127.0.0.1", 0))
        made.setblocking(False)
        self.addCleanup(made.close)
        return made

    def test_the_next_one_is_tried_in_time(self) -> None:
        """The backup of a node, or another broker of the URL."""
        silent, other = self.listening(), self.listening()
        ports = [each.getsockname()[1] for each in (silent, other)]
        connectors = [TransportConfiguration("c", "f", (("host", "127.0.0.1"), ("port", str(port)))) for port in ports]
        urls = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
        options = Options.parse({"url": f"({urls})", "connectTimeout": "400"}, Use.JOB)
        for node in (Node("n", tuple(connectors)), None):
            self.assertRaises(BrokerUnreachableError, connect, options, node, patient=False)
            for listener in (silent, other):
                made, _ = listener.accept()
                made.close()


class MembersTests(SynchronousTestCase):
    def members(self, primary: TransportConfiguration | None) -> list[Node]:
        """The nodes that a broker tells of whose announcement has this connector."""
        options = Options.parse({"url": "tcp://127.0.0.1:61616"}, Use.JOB)
        found: Any = Connection(options, None, {})
        self.addCleanup(found.runtime.close)
        locator = Locator(found.runtime, options.configuration().connectors)
        (own,) = options.configuration().connectors
        locator.topology_received(ClusterTopologyV4(False, "n", 1, primary, None, True), own)
        found._locator = locator
        found._factory = SimpleNamespace(connector=own, node_id="n")
        found._session = SimpleNamespace(closed=False)
        members: list[Node] = found.members()
        return members

    def test_a_broker_in_no_cluster_announces_no_connector(self) -> None:
        (node,) = self.members(None)
        self.assertTrue(node.alone)

    def test_a_broker_in_a_cluster_of_one(self) -> None:
        """Others may join: even where it announces the connector that the URL names."""
        (announced,) = Options.parse({"url": "tcp://127.0.0.1:61616"}, Use.JOB).configuration().connectors
        (node,) = self.members(announced)
        self.assertFalse(node.alone)


class SettingsTests(SynchronousTestCase):
    def settings_for(self, parameters: str) -> LocatorSettings:
        found: list[LocatorSettings] = []

        def locator(runtime: Any, brokers: Any, settings: LocatorSettings) -> Any:
            found.append(settings)
            raise NotConnectedError("nobody is there")

        self.patch(connection, "Locator", locator)
        options = Options.parse({"url": f"tcp://127.0.0.1:1?{parameters}", "connectTimeout": "1"}, Use.JOB)
        self.assertRaises(BrokerUnreachableError, connect, options)
        return found[0]

    def test_nothing_is_acknowledged_before_it_is_delivered(self) -> None:
        """On a broker without readers messages that are not wanted come along, and are given back."""
        self.assertFalse(self.settings_for("preAcknowledge=true").pre_acknowledge)

    def test_reconnecting_is_the_business_of_the_query(self) -> None:
        found = self.settings_for("reconnectAttempts=-1&failoverAttempts=-1&initialConnectAttempts=-1&callTimeout=1234")
        self.assertEqual((found.reconnect_attempts, found.failover_attempts, found.initial_connect_attempts), (0, 0, 1))
        self.assertEqual(found.call_timeout, 1234)
