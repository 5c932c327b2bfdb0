"""Links under Twisted: how they write."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.abstract import FileDescriptor
from twisted.trial.unittest import SynchronousTestCase

from mqclient.shells.twisted_network import LinkProtocol, TwistedLink


class Socket(FileDescriptor):
    """A TCP connection without TLS, as Twisted has it."""

    def __init__(self) -> None:
        super().__init__(mock.Mock())  # type: ignore[no-untyped-call]
        self.connected = True
        self.socket = mock.Mock()
        self.socket.send = len


class LinkTests(SynchronousTestCase):
    def link(self, transport: Any) -> TwistedLink:
        self.protocol = LinkProtocol(mock.Mock(), no_delay=True)
        self.protocol.transport = transport
        return TwistedLink(self.protocol, "peer")

    def test_what_the_peer_waits_for_does_not_wait_for_the_reactor(self) -> None:
        transport = Socket()
        with mock.patch.object(transport.socket, "send", side_effect=len) as send:
            self.link(transport).write_at_once(b"now")
        send.assert_called_once_with(b"now")
        self.assertEqual(transport._tempDataBuffer, [])  # type: ignore[attr-defined]

    def test_with_tls_it_goes_as_all_else(self) -> None:
        transport = mock.Mock()
        self.link(transport).write_at_once(b"now")
        transport.write.assert_called_once_with(b"now")

    def test_a_link_that_is_lost_writes_nothing(self) -> None:
        for transport in (Socket(), mock.Mock()):
            link = self.link(transport)
            self.protocol.lost = True
            with mock.patch.object(transport, "write") as write, mock.patch.object(transport.socket, "send") as send:
                link.write_at_once(b"now")
            self.assertEqual((write.called, send.called), (False, False))
