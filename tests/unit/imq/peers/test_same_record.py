"""Members that follow another record than this broker."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.links.requests import Peer
from mqbroker.imq.peers.same_record import SETTLED_SECONDS, SameRecord
from mqbroker.messaging.turns.turn import Turn
from mqclient.errors import NotConnectedError
from tests.support.clock import FakeClock
from tests.unit.imq.net import MemoryPeers


class _Member:
    node_id, name = "node-b2", "b2:7676"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def ask(self, *asked: Any) -> Deferred[Any]:
        self.asked.append(asked)
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)


class SameRecordTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.peers = FakeClock(), MemoryPeers()
        self.own: str | None = "g"
        self.parted: list[str] = []
        self.same = SameRecord(self.peers, self.clock, Turn(self.clock), lambda: self.own, self.parted.append)
        self.lines: list[str] = []
        lines = self.lines

        def observe(event: Any) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def linked(self, answer: Any, *, there: bool = True) -> Any:
        member: Any = _Member(answer)
        if there:
            self.peers.members[member.node_id] = member
        peer: Peer = member
        self.peers.linked(peer)
        return member

    def test_one_record_is_as_it_should_be(self) -> None:
        member = self.linked("g")
        self.clock.advance(SETTLED_SECONDS)
        self.assertEqual((member.asked, self.parted), ([("follows",)], []))

    def test_another_one_ends_the_link_and_is_told(self) -> None:
        self.linked("h")
        self.clock.advance(SETTLED_SECONDS - 1)
        self.assertEqual(self.parted, [])
        self.clock.advance(1)
        self.assertEqual(self.parted, ["node-b2"])
        self.assertTrue(any("this broker and b2:7676 are not linked: they follow different change records" in line for line in self.lines))

    def test_nothing_is_known_of_a_member_without_a_record_or_without_an_answer(self) -> None:
        for answer in (None, NotConnectedError("lost")):
            self.linked(answer)
            self.clock.advance(SETTLED_SECONDS)
        self.own = None
        self.linked("h")
        self.clock.advance(SETTLED_SECONDS)
        self.assertEqual(self.parted, [])

    def test_a_link_that_has_gone_is_not_ended(self) -> None:
        self.linked("h", there=False)
        self.clock.advance(SETTLED_SECONDS)
        member = self.linked("h")
        self.peers.unlinked(member)
        self.peers.unlinked(member)
        self.clock.advance(SETTLED_SECONDS)
        self.assertEqual((member.asked, self.parted), ([], []))

    def test_after_a_stop_nobody_is_asked(self) -> None:
        member = self.linked("h")
        self.same.stop()
        self.clock.advance(SETTLED_SECONDS)
        self.assertEqual(member.asked, [])
