"""What a quiesced broker waits for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.imq.administration.quiescence import has_clients, has_transient_messages
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL
from tests.support.broker import World

ADMIN = {"username": "admin", "password": "secret"}
CLIENT = {"username": "nobody", "password": "nothing"}


class ClientTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(Configuration(cluster_user="links", cluster_password="links"))

    def test_a_client_until_it_has_gone(self) -> None:
        peer = self.world.peer()
        self.assertFalse(has_clients(self.world.server), "it has not logged in")
        session = peer.open(**CLIENT)
        self.assertTrue(has_clients(self.world.server))
        session.ok(wire.SessionClose())
        self.assertTrue(has_clients(self.world.server), "its connection is there")
        peer.lose()
        self.assertFalse(has_clients(self.world.server))

    def test_administrators_and_other_brokers_do_not_count(self) -> None:
        admin, broker = self.world.peer(), self.world.peer()
        admin.open(**ADMIN)
        broker.send(wire.ClusterConnect("links", "links"), CLUSTER_CHANNEL)
        broker.read()
        broker.open(username="links", password="links")
        self.assertFalse(has_clients(self.world.server))
        admin.open(**CLIENT)
        self.assertTrue(has_clients(self.world.server), "a connection of several users")

    def test_without_security_everybody_is_a_client(self) -> None:
        world = World()
        world.peer().open()
        self.assertTrue(has_clients(world.server))


class TransientTests(SynchronousTestCase):
    def test_a_message_that_a_stop_would_lose(self) -> None:
        world = World()
        session = world.session()
        session.create_queue("q")
        session.publish(b"stays")
        self.assertFalse(has_transient_messages(world.server))
        session.publish(b"is lost", durable=False)
        self.assertTrue(has_transient_messages(world.server))
        world.registry.invoke("queue.q", "removeAllMessages", ())
        self.assertFalse(has_transient_messages(world.server))
