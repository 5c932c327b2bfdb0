"""A session that sends and receives encoded messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.errors import IllegalStateError
from mqclient.wire.packets import CreateConsumer, CreateProducer
from tests.support.network import ScriptedBroker, World
from tests.unit.mqclient.core.consuming.test_encoded import Heard
from tests.unit.mqclient.core.sending.test_encoded_sends import link_world


class EncodedMethodsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.broker = ScriptedBroker()

    def test_each_producer_and_consumer_of_a_session_has_an_id_of_its_own(self) -> None:
        world = link_world(self.broker)
        session = world.session(world.factory())
        world.finish(session.create_producer("a"))
        sends = session.open_encoded_sends()
        self.assertIs(session.open_encoded_sends(), sends)
        world.finish(session.create_producer("b"))
        world.finish(session.create_consumer("q"))
        world.finish(session.create_encoded_consumer("q", None, Heard()))
        self.assertEqual([packet.producer_id for packet in self.broker.got(CreateProducer)], [1, 2, 3])
        self.assertEqual([packet.consumer_id for packet in self.broker.got(CreateConsumer)], [0, 1])

    def test_a_session_that_may_outlive_its_connection_is_refused(self) -> None:
        session = World(self.broker, reconnect_attempts=1).session()
        self.assertRaises(IllegalStateError, session.open_encoded_sends)
