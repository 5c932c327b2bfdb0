"""Who is admitted to a server, and when."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.security.login import Identity
from mqclient.wire import packets as wire
from mqclient.wire.frames import SESSION_CHANNEL
from tests.support.broker import World
from tests.unit.server.session.test_sessions import CreationCase


class AdmissionTests(CreationCase):
    def test_nobody_is_admitted_before_the_start_and_after_the_stop(self) -> None:
        self.world.server.started = False
        self.assertEqual(self.refused(), 112)

    def test_two_users_cannot_take_the_same_name_at_once(self) -> None:
        waiting: list[Deferred[Any]] = []

        def later(function: Any, *args: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            return waiting[-1]

        world = World(Configuration(), defer_to_thread=later)
        peers = [world.peer(), world.peer()]
        users = ("admin", "bob")
        for peer, user in zip(peers, users, strict=True):
            peer.session(name="n", username=user, password="secret")
        for login, user in zip(waiting, users, strict=True):
            login.callback(Identity(user, frozenset({"all"})))
        kinds = [type(peer.take(SESSION_CHANNEL)[0]) for peer in peers]
        self.assertEqual(kinds, [wire.CreateSessionResponse, wire.ExceptionResponse])
