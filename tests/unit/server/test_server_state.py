"""What a server knows of all of its sessions together."""

from __future__ import annotations

from mqbroker.config.model.configuration import Configuration, ResourceLimit
from mqclient.wire import packets as wire
from tests.support.broker import World
from tests.unit.server.session.test_sessions import CreationCase


class LimitTests(CreationCase):
    def test_sessions_of_one_user_are_limited(self) -> None:
        self.world = World(Configuration(resource_limits={"admin": ResourceLimit(max_connections=1)}))
        self.peer = self.world.peer()
        user = {"username": "admin", "password": "secret"}
        first = self.peer.open(**user)
        self.assertEqual(self.refused(**user), 112)
        first.ok(wire.SessionClose())
        self.peer.open(**user)

    def test_queues_of_one_user_are_limited(self) -> None:
        world = World(Configuration(resource_limits={"admin": ResourceLimit(max_queues=1)}))
        session = world.peer().open(username="admin", password="secret")
        session.create_queue("one")
        self.assertEqual(session.error(wire.CreateQueueV2("two", "two")), 105)
        session.ok(wire.DeleteQueue("one"))
        session.create_queue("two")
