"""Why a connection has ended, in words that an operator understands."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.server.transport.acceptor import BrokerProtocol
from mqclient.shells.twisted_losses import loss_reason
from mqclient.shells.twisted_network import LinkProtocol

CLOSED = Failure(ConnectionDone())
"""What Twisted gives when the other process is killed: its system closes the socket."""


class LossTests(SynchronousTestCase):
    def test_a_peer_that_ends_is_not_called_clean(self) -> None:
        self.assertEqual(loss_reason(CLOSED), "the peer has closed the connection")

    def test_another_loss_has_the_reason_of_the_system(self) -> None:
        self.assertIn("reset", loss_reason(Failure(ConnectionLost("reset"))))

    def test_client_and_broker_are_told_so(self) -> None:
        handler = mock.Mock()
        LinkProtocol(handler, no_delay=True).connectionLost(CLOSED)
        handler.link_lost.assert_called_once_with("the peer has closed the connection")
        protocol: Any = BrokerProtocol()
        protocol.factory = mock.Mock()
        connection = protocol.connection = mock.Mock()
        protocol.connectionLost(CLOSED)
        connection.lost.assert_called_once_with("the peer has closed the connection")
