"""Requests to linked members: one after the other, and an end for each."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.links import requests as requests_module
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.requests import LinkedPeers, Peer
from mqbroker.messaging.turns.turn import Turn
from mqclient.errors import MQError, NotConnectedError, OperationTimeoutError
from mqclient.management import ManagementError
from tests.support.clock import FakeClock


class Management:
    """Of one session; answers are given by the test."""

    opened: list[Management]

    def __init__(self, session: Any, name: str) -> None:
        self.session = session
        self.name = name
        self.asked: list[tuple[tuple[Any, ...], Deferred[Any]]] = []

    @classmethod
    async def open(cls, session: Any, name: str, timeout: int) -> Management:
        assert timeout == 7000
        made = cls(session, name)
        cls.opened.append(made)
        return made

    def invoke(self, *request: Any) -> Deferred[Any]:
        answered: Deferred[Any] = Deferred()
        self.asked.append((request, answered))
        return answered


class Member:
    node_id = "n2"
    name = "b2:7676"
    up = True

    def __init__(self) -> None:
        self.problem: MQError | None = None
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1
        raise NotConnectedError("gone")

    async def open_session(self, *, transacted: bool = False, xa: bool = False) -> Any:
        if self.problem is not None:
            raise self.problem
        return self

    def fail(self, reason: Exception) -> None: ...


class RequestTests(SynchronousTestCase):
    def setUp(self) -> None:
        Management.opened = []
        self.patch(requests_module, "Management", Management)
        self.links = HomeLinks()
        names = iter(("one", "two", "three"))
        self.peers = LinkedPeers(self.links, lambda: next(names), 7, Turn(FakeClock()))
        self.member: Any = Member()
        self.links.up(self.member)

    @property
    def peer(self) -> Peer:
        return self.peers.by_id["n2"]

    def management(self) -> Management:
        return Management.opened[-1]

    def test_one_after_the_other_over_one_session(self) -> None:
        first, second = self.peer.ask("a", 1), self.peer.ask("b")
        self.assertEqual([request for request, _ in self.management().asked], [("imq", "a", 1)])
        self.management().asked[0][1].callback("x")
        self.assertEqual(self.successResultOf(first), "x")
        self.assertEqual(self.management().asked[1][0], ("imq", "b"))
        self.management().asked[1][1].callback("y")
        self.assertEqual(self.successResultOf(second), "y")
        self.assertEqual([each.name for each in Management.opened], ["one"])

    def test_a_refusal_leaves_the_session(self) -> None:
        first = self.peer.ask("a")
        self.management().asked[0][1].errback(ManagementError("no"))
        self.failureResultOf(first, ManagementError)
        self.peer.ask("b")
        self.assertEqual(len(Management.opened), 1)

    def test_after_another_error_there_is_another_session(self) -> None:
        first = self.peer.ask("a")
        self.management().asked[0][1].errback(OperationTimeoutError("late"))
        self.failureResultOf(first, OperationTimeoutError)
        self.peer.ask("b")
        self.assertEqual([each.name for each in Management.opened], ["one", "two"])
        self.assertEqual(self.member.closed, 1)

    def test_an_answer_that_is_none(self) -> None:
        first = self.peer.ask("a")
        self.management().asked[0][1].errback(ValueError("no JSON"))
        self.failureResultOf(first, ValueError)
        self.peer.ask("b")
        self.assertEqual(len(Management.opened), 2)

    def test_a_session_that_cannot_be_opened(self) -> None:
        self.member.problem = MQError("no session")
        self.failureResultOf(self.peer.ask("a"), MQError)
        self.member.problem = None
        self.peer.ask("a")
        self.assertEqual(len(Management.opened), 1)

    def test_a_lost_link_ends_everything(self) -> None:
        peer, gone = self.peer, []
        self.peers.unlinked.subscribe(gone.append)
        first, second = peer.ask("a"), peer.ask("b")
        self.links.down(self.member)
        self.failureResultOf(second, NotConnectedError)
        self.assertNoResult(first)
        self.management().asked[0][1].errback(NotConnectedError("lost"))
        self.failureResultOf(first, NotConnectedError)
        self.failureResultOf(peer.ask("c"), NotConnectedError)
        self.assertEqual((gone, self.peers.at("b2:7676")), ([peer], None))

    def test_who_is_linked(self) -> None:
        self.assertIs(self.peers.at("b2:7676"), self.peer)
        self.assertIsNone(self.peers.at("b3:7676"))
        later = LinkedPeers(self.links, lambda: "", 7, Turn(FakeClock()))
        self.assertEqual(list(later.by_id), ["n2"])
        seen: list[Peer] = []
        later.linked.subscribe(seen.append)
        self.links.up(self.member)
        self.assertEqual(seen, [later.by_id["n2"]])
