"""While there is a reason, new clients are refused; administrators, other brokers and who is here already are not."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL, SESSION_CHANNEL
from tests.support.broker import Peer, World

ADMIN = {"username": "admin", "password": "secret"}
CLIENT = {"username": "nobody", "password": "nothing"}


class AdmissionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(Configuration(cluster_user="links", cluster_password="links"))
        self.admission = self.world.server.admission

    def answer(self, peer: Peer | None = None, **request: Any) -> wire.Packet:
        peer = peer or self.world.peer()
        peer.session(**request)
        (answer,) = peer.take(SESSION_CHANNEL)
        return answer

    def taken(self, peer: Peer | None = None, **request: Any) -> bool:
        return isinstance(self.answer(peer, **request), wire.CreateSessionResponse)

    def test_a_client_is_refused_with_the_reason_until_the_last_one_is_lifted(self) -> None:
        self.assertIsNone(self.admission.reason)
        self.admission.restrict("quiesced", "the broker is quiesced")
        self.admission.restrict("record", "the broker waits for its master")
        answer = self.answer(**CLIENT)
        assert isinstance(answer, wire.ExceptionResponse)
        self.assertEqual((answer.error_code, answer.message), (112, "AMQ229008: Server not started: the broker is quiesced"))
        self.admission.lift("quiesced")
        self.admission.lift("quiesced")
        self.assertFalse(self.taken(**CLIENT))
        self.admission.lift("record")
        self.assertTrue(self.taken(**CLIENT))

    def test_administrators_and_other_brokers_are_taken(self) -> None:
        self.admission.restrict("quiesced", "the broker is quiesced")
        self.assertTrue(self.taken(**ADMIN))
        self.assertTrue(self.taken(name="link", username="links", password="links"))

    def test_a_connection_that_is_there_may_open_further_sessions(self) -> None:
        peer = self.world.peer()
        self.assertTrue(self.taken(peer, **CLIENT))
        self.admission.restrict("quiesced", "the broker is quiesced")
        self.assertTrue(self.taken(peer, name="second", channel=11, **CLIENT))

    def test_without_security_nobody_is_an_administrator(self) -> None:
        self.world = World()
        self.world.server.admission.restrict("quiesced", "the broker is quiesced")
        self.assertFalse(self.taken())

    def test_without_security_other_brokers_are_taken(self) -> None:
        """They have shown the password of the cluster before."""
        self.world = World(Configuration(security_enabled=False, cluster_user="links", cluster_password="links"))
        self.world.server.admission.restrict("record", "the broker waits for its master")
        peer = self.world.peer()
        peer.send(wire.ClusterConnect("links", "links"), CLUSTER_CHANNEL)
        peer.read()
        self.assertTrue(self.taken(peer, username="links"))
        self.assertFalse(self.taken(username="links"))

    def test_the_broker_is_not_ready_meanwhile(self) -> None:
        self.assertIsNone(self.world.server.problem())
        self.admission.restrict("record", "the broker waits for its master")
        self.assertEqual(self.world.server.problem(), "the broker waits for its master")
        self.admission.lift("record")
        self.assertIsNone(self.world.server.problem())
