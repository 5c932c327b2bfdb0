from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.ports import UnreachableError
from mqbroker.ha.replication.packets import Answered, Question, Reply, Said
from mqbroker.ha.replication.questions import QUESTIONS_MAX, Questions
from mqclient.errors import MalformedPacketError


class QuestionsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.said: list[Said] = []
        self.asked: list[tuple[str, bytes]] = []
        self.answers: list[Deferred[bytes]] = []
        self.questions = Questions(self.said.append, self.answer)

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        if handler == "bad":
            raise MalformedPacketError("Question", "handler", "bad")
        self.asked.append((handler, question))
        self.answers.append(Deferred())
        return self.answers[-1]

    def test_answers_find_their_questions_in_any_order(self) -> None:
        first, second = self.questions.ask("h", b"1"), self.questions.ask("h", b"2")
        self.assertEqual(self.said, [Question(1, "h", b"1"), Question(2, "h", b"2")])
        for packet in (Reply(2, b"two"), Reply(2, b"again"), Reply(1, b"one")):
            self.assertTrue(self.questions.received(packet))
        self.assertEqual((self.successResultOf(first), self.successResultOf(second)), (b"one", b"two"))

    def test_the_other_one_is_answered_when_the_answer_is_there(self) -> None:
        self.assertTrue(self.questions.received(Question(7, "h", b"?")))
        self.assertEqual((self.asked, self.said), ([("h", b"?")], []))
        self.answers[0].callback(b"!")
        self.assertEqual(self.said, [Reply(7, b"!")])
        self.assertRaises(MalformedPacketError, self.questions.received, Question(8, "bad", b""))
        self.assertFalse(self.questions.received(Answered(1)))

    def test_with_the_connection_the_answers_end(self) -> None:
        waiting = self.questions.ask("h", b"1")
        cancelled = self.questions.ask("h", b"2")
        cancelled.cancel()
        self.failureResultOf(cancelled)
        self.questions.received(Question(7, "h", b"?"))
        self.questions.end("gone")
        self.failureResultOf(waiting, UnreachableError)
        self.failureResultOf(self.questions.ask("h", b"3"), UnreachableError)
        self.answers[0].callback(b"late")
        self.assertEqual(len(self.said), 2)

    def test_questions_are_bounded_in_both_directions(self) -> None:
        for number in range(QUESTIONS_MAX + 1):
            self.questions.received(Question(number, "h", b""))
        self.assertEqual(len(self.asked), QUESTIONS_MAX)
        waiting = [self.questions.ask("h", b"") for _ in range(QUESTIONS_MAX + 1)]
        self.failureResultOf(waiting[-1], UnreachableError)
        self.assertEqual(len(self.said), QUESTIONS_MAX)

    def test_a_question_without_an_answer_is_logged(self) -> None:
        self.questions.received(Question(1, "h", b""))
        self.answers[0].errback(ValueError("no"))
        self.assertEqual((self.said, len(self.flushLoggedErrors(ValueError))), ([], 1))
