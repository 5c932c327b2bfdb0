"""Where metrics and health are served, and what they say."""

from __future__ import annotations

from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import Site

from mqbroker.server.observation.health import CONNECTIONS_MAX, FewConnections, health_root


class ConnectionTests(SynchronousTestCase):
    def test_there_are_only_so_many(self) -> None:
        """They take descriptors of which the journal has to have some."""
        factory = FewConnections(Site(health_root(lambda: None, lambda: None)))  # type: ignore[no-untyped-call]
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
