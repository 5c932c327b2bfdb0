"""Members whose properties differ are not linked, and both say what differs."""

from __future__ import annotations

from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.links.agreement import Agreement
from mqclient.errors import NotConnectedError
from tests.unit.imq.administration.test_reloading import Asked, AskedPeers

OWN = {"imq.autocreate.queue": "true"}


class AgreementTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []
        lines = self.lines

        def observe(event: Any) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        self.parted: list[str] = []
        self.peers = AskedPeers("b:1")
        self.agreement = Agreement(OWN, self.peers, self.parted.append)
        self.peer: Asked = self.peers.peers["b:1"]
        self.peers.linked(self.peer)
        [(self.operation, self.answer)] = self.peer.answers

    def test_each_member_is_asked(self) -> None:
        self.assertEqual((self.operation, self.agreement.answer()), ("matchProperties", OWN))
        self.answer.callback(dict(OWN))
        self.assertEqual((self.parted, self.lines), ([], []))

    def test_one_that_differs_is_named_and_left(self) -> None:
        self.answer.callback({"imq.autocreate.queue": "false"})
        self.assertEqual(self.parted, ["b:1"])
        self.assertIn("this broker and b:1 are not linked: imq.autocreate.queue is true here and false there.", self.lines[0])

    def test_one_that_does_not_answer_is_told(self) -> None:
        self.answer.errback(NotConnectedError("the link was lost"))
        self.assertEqual((self.parted, self.lines), ([], ["b:1 has not told its properties: the link was lost"]))
