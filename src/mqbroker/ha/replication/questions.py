"""Questions of the proof over the connection of an active broker and its replica, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from mqbroker.ha.proof.ports import UnreachableError
from mqbroker.ha.replication.packets import Question, Reply, Said

if TYPE_CHECKING:
    from twisted.python.failure import Failure

QUESTIONS_MAX = 10
"""Questions of the proof over one connection that wait for their answer, in each direction."""

log = Logger(namespace="mqbroker.ha")


class Questions:
    """``say`` sends a packet, ``answer(handler, question)`` answers the other broker, and raises MalformedPacketError."""

    def __init__(self, say: Callable[[Said], object], answer: Callable[[str, bytes], Deferred[bytes]]) -> None:
        self._say = say
        self._answer = answer
        self._asked: dict[int, Deferred[bytes]] = {}
        self._number = 0
        self._answering = 0
        self.over = ""
        """Why nobody is asked any more; empty while the connection lasts."""

    def ask(self, handler: str, data: bytes) -> Deferred[bytes]:
        """The result fails with UnreachableError when the connection ends, or too many questions wait."""
        if self.over or len(self._asked) >= QUESTIONS_MAX:
            return fail(UnreachableError(self.over or "earlier questions have no answer"))
        self._number += 1
        number = self._number

        def forget(answer: object) -> None:
            self._asked.pop(number, None)

        answer: Deferred[bytes] = Deferred(forget)
        self._asked[number] = answer
        self._say(Question(number, handler, data))
        return answer

    def received(self, packet: object) -> bool:
        """Is it a question or a reply?  Raises MalformedPacketError."""
        if isinstance(packet, Reply):
            waiting = self._asked.pop(packet.number, None)
            if waiting is not None:
                waiting.callback(packet.data)
            return True
        if not isinstance(packet, Question):
            return False
        if self._answering < QUESTIONS_MAX:
            self._answering += 1
            number = packet.number
            answer = self._answer(packet.handler, packet.data)
            answer.addCallback(lambda data: None if self.over else self._say(Reply(number, data))).addErrback(self._no_answer)
            answer.addBoth(self._answered)
        return True

    def _no_answer(self, failure: Failure) -> None:
        log.failure("a question of the other copy has no answer", failure)

    def _answered(self, result: object) -> None:
        self._answering -= 1

    def end(self, reason: str) -> None:
        """The connection is over."""
        self.over = reason
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            waiting.errback(UnreachableError(reason))
