"""The ways of clients into a broker: their end."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker import listening
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import Configuration
from mqbroker.listening import Listeners
from mqclient.urls import parse_transport_uri
from tests.support.broker import World


class CloseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.closed: Deferred[None] = Deferred()
        """Completes when Twisted has closed the port."""
        self.port = port = SimpleNamespace(
            socket=self.listening,
            fileno=self.listening.fileno,
            stopReading=lambda: None,
            startReading=lambda: None,
            getHost=lambda: SimpleNamespace(host="127.0.0.1", port=1),
            doRead=lambda: None,
            stopListening=lambda: self.closed,
        )
        reactor: Any = SimpleNamespace(listenTCP=lambda *args: port)
        settings = BrokerSettings(Configuration(acceptors=[parse_transport_uri("tcp://127.0.0.1:1", "artemis")]), Path("/"))
        self.listeners = Listeners(World().server, settings, reactor, Path.read_bytes)  # type: ignore[arg-type]
        self.address = self.listening.getsockname()
        self.listeners.open()
        self.addCleanup(port.socket.close)

    def test_a_port_is_closed_before_connections_when_the_process_is_killed(self) -> None:
        self.assertEqual((self.listening.fileno(), self.port.socket.getsockname()), (-1, self.address))
        self.assertGreater(self.port.fileno(), 500)

    def test_a_port_stays_as_it_is_where_no_other_descriptor_is_free(self) -> None:
        before = self.port.fileno()
        self.patch(listening, "high_descriptor", Mock(side_effect=OSError("too many open files")))
        listening._close_first(self.port)
        self.assertEqual((self.port.fileno(), self.port.socket.fileno()), (before, before))

    def test_nobody_can_connect_any_more_although_the_socket_is_closed_later(self) -> None:
        """Who is sent away meanwhile connects again, and would wait for an answer that never comes."""
        socket.create_connection(self.address).close()
        end = self.listeners.close()
        self.assertRaises(ConnectionRefusedError, socket.create_connection, self.address)
        self.assertNoResult(end)
        self.closed.callback(None)
        self.successResultOf(end)

    def test_a_socket_that_cannot_be_shut_down_is_closed_later(self) -> None:
        self.port.socket.close()
        end = self.listeners.close()
        self.closed.callback(None)
        self.successResultOf(end)
