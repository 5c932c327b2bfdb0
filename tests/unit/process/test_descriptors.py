"""Descriptors: the broker takes what it is allowed, and connections leave enough of them for files."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process.descriptors import DESCRIPTORS_MAX, raise_limit, sockets_max
from mqbroker.server.transport.acceptor import Acceptor, Sockets
from mqclient.urls import TransportUri
from tests.support.broker import World


class LimitTests(SynchronousTestCase):
    def limits(self, soft: int, hard: int) -> list[tuple[int, int]]:
        """Pretend that these hold; returns what is set."""
        found: list[tuple[int, int]] = []
        self.patch(resource, "getrlimit", lambda kind: (soft, hard))
        self.patch(resource, "setrlimit", lambda kind, limits: found.append(limits))
        return found

    def test_it_is_raised_as_far_as_that_is_allowed(self) -> None:
        for soft, hard, expected in (
            (1024, 4096, [(4096, 4096)]),
            (1024, resource.RLIM_INFINITY, [(DESCRIPTORS_MAX, resource.RLIM_INFINITY)]),
            (1024, 1 << 30, [(DESCRIPTORS_MAX, 1 << 30)]),
        ):
            found = self.limits(soft, hard)
            raise_limit()
            self.assertEqual(found, expected)

    def test_it_is_never_lowered(self) -> None:
        for soft in (4096, DESCRIPTORS_MAX + 1, resource.RLIM_INFINITY):
            found = self.limits(soft, soft)
            raise_limit()
            self.assertEqual(found, [])

    def test_connections_leave_some(self) -> None:
        self.limits(1024, 1024)
        self.assertEqual(sockets_max(), 768)
        self.limits(resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        self.assertEqual(sockets_max(), -1)


class AcceptorTests(SynchronousTestCase):
    def test_acceptors_share_what_there_is(self) -> None:
        world = World()
        sockets = Sockets(2)
        first, second = (
            Acceptor(world.server, TransportUri("tcp", "127.0.0.1", 0, {}), None, lambda path: b"", sockets=sockets) for _ in range(2)
        )
        self.assertEqual([first.admit(), second.admit(), first.admit(), second.admit()], [True, True, False, False])
        first.left()
        self.assertEqual([second.admit(), first.admit()], [True, False])
        for acceptor in (second, second):
            acceptor.left()
        self.assertEqual(sockets.open, 0)
