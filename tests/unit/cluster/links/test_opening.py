from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from mqbroker.cluster.links.opening import LossListener, ask_product, show_password
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.errors import ClusterSecurityError, MQError, NotConnectedError
from mqclient.wire.packets import ClusterConnect, ClusterConnectReply
from mqclient.wire.primitives import TransportConfiguration


class Peer:
    """A connection to a broker that takes one password."""

    connector = TransportConfiguration("other", "netty", (("host", "10.1.2.3"), ("port", "61617")))

    def __init__(self, password: str) -> None:
        self._password = password
        self.cluster_channel = self

    async def call(self, packet: ClusterConnect, _: type[ClusterConnectReply]) -> ClusterConnectReply:
        right = (packet.cluster_user, packet.cluster_password) == ("cluster", self._password)
        return ClusterConnectReply(right, "theirs", 1) if packet.groups and packet.product == "ours" else ClusterConnectReply(right)


def shown(password: str) -> Deferred[Any]:
    connection: Any = Peer("right")
    return Deferred.fromCoroutine(show_password(connection, ClusterCredentials("cluster", password)))


class PasswordTests(TestCase):
    def test_a_broker_that_takes_the_password_is_content(self) -> None:
        self.assertIsNone(self.successResultOf(shown("right")))

    def test_a_broker_that_is_told_the_product_says_its_own(self) -> None:
        connection: Any = Peer("right")
        asked = ask_product(connection, ClusterCredentials("cluster", "right"), "ours")
        self.assertEqual(self.successResultOf(Deferred.fromCoroutine(asked)), "theirs")

    def test_a_broker_that_refuses_the_password_is_named_without_it(self) -> None:
        error = self.failureResultOf(shown("wrong"), ClusterSecurityError).value
        self.assertIn("10.1.2.3:61617", str(error))
        self.assertNotIn("wrong", str(error))


class LossTests(TestCase):
    def test_the_loss_is_told_with_its_error_and_nothing_before_it(self) -> None:
        told: list[MQError] = []
        listener = LossListener(told.append)
        error = NotConnectedError("gone")
        listener.before_reconnect(error)
        self.assertEqual(told, [])
        listener.connection_failed(error, failed_over=False)
        self.assertEqual(told, [error])
