"""What the broker tells on its notification address."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqclient.wire import packets as wire
from mqclient.wire.message import decode_message
from tests.support.broker import World


class NotificationTests(SynchronousTestCase):
    def listen(self, **settings: Any) -> World:
        world = World(Configuration(**settings))
        self.listener = world.peer().open(username="admin", password="secret")
        self.listener.ok(wire.CreateQueueV2("activemq.notifications", "n", durable=False, temporary=True, routing_type=0))
        self.listener.consume("n")
        self.told()
        return world

    def told(self) -> list[dict[str, object]]:
        contents = [decode_message(packet.message) for packet in self.listener.received()]
        return [{name: value for name, (_, value) in content.properties.items()} for content in contents]

    def kinds(self) -> list[object]:
        return [entry["_AMQ_NotifType"] for entry in self.told()]

    def test_the_life_of_a_client(self) -> None:
        world = self.listen()
        session = world.peer().open(username="admin", password="secret")
        session.create_queue("q")
        session.consume(filter="a = 1")
        session.peer.lose()
        self.assertEqual(self.kinds(), ["SESSION_CREATED", "BINDING_ADDED", "CONSUMER_CREATED", "CONSUMER_CLOSED", "SESSION_CLOSED"])

    def test_a_durable_queue_is_told_of_once_it_is_on_the_disk(self) -> None:
        world = self.listen(suppress_session_notifications=True)
        session = world.peer().open(username="admin", password="secret")
        store = world.store
        store.held = True
        session.send(wire.CreateQueueV2("q", "q"))
        stored = store.ticket()
        session.send(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        self.assertIn("q", world.messaging.core.queues)
        self.assertEqual(self.told(), [])
        store.sync(stored - 1)
        world.clock.advance(0)
        self.assertEqual(self.told(), [])
        store.sync(stored)
        world.clock.advance(0)
        self.assertEqual(
            [(each["_AMQ_NotifType"], each["_AMQ_RoutingName"]) for each in self.told()], [("BINDING_ADDED", "q"), ("BINDING_ADDED", "t")]
        )

    def test_a_queue_that_is_not_durable_waits_for_no_disk(self) -> None:
        world = self.listen(suppress_session_notifications=True)
        session = world.peer().open(username="admin", password="secret")
        world.store.held = True
        session.send(wire.CreateQueueV2("t", "t", durable=False, temporary=True))
        self.assertEqual(self.kinds(), ["BINDING_ADDED"])

    def test_browsers_are_not_told(self) -> None:
        world = self.listen()
        session = world.peer().open(username="admin", password="secret")
        session.create_queue("q")
        self.told()
        session.consume(browse_only=True)
        session.ok(wire.ConsumerClose(0))
        self.assertEqual(self.kinds(), [])

    def test_refusals(self) -> None:
        world = self.listen()
        world.peer().session(username="who", password="?")
        nobody = world.peer().open(username="nobody", password="nothing")
        nobody.error(wire.CreateQueueV2("q", "q"))
        login, _, permission = self.told()
        self.assertEqual((login["_AMQ_NotifType"], login["_AMQ_User"]), ("SECURITY_AUTHENTICATION_VIOLATION", "who"))
        self.assertEqual(
            (permission["_AMQ_NotifType"], permission["_AMQ_Address"], permission["_AMQ_CheckType"], permission["_AMQ_User"]),
            ("SECURITY_PERMISSION_VIOLATION", "q", "CREATE_DURABLE_QUEUE", "nobody"),
        )

    def test_session_notifications_can_be_suppressed(self) -> None:
        world = self.listen(suppress_session_notifications=True)
        world.peer().open(username="admin", password="secret").ok(wire.SessionClose())
        self.assertEqual(self.kinds(), [])

    def test_nothing_is_made_for_nobody(self) -> None:
        world = World()
        before = world.store.next_id()
        world.session().peer.lose()
        self.assertLess(world.store.next_id() - before, 3)
        self.assertNotIn("activemq.notifications", world.messaging.core.addresses)
