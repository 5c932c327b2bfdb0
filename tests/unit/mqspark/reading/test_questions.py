"""Who is waited for when several nodes are asked at once.  The threads are these tests: a question is answered when they say so."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BrokerUnreachableError, FencedError
from mqspark.reading import questions
from mqspark.reading.questions import Questions

UNREACHABLE = BrokerUnreachableError("no broker")


class QuestionsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(questions, "ANSWER_SECONDS", 0)
        self.late: list[Callable[[], None]] = []
        self.silent = False
        self.questions = Questions(self.start)

    def start(self, function: Callable[[], None]) -> None:
        """Run it, or keep it while a silent node is asked: nodes are asked in the order of the questions."""
        if self.silent:
            self.late.append(function)
        else:
            function()

    def ask(self, **answers: object) -> tuple[dict[str, object], dict[str, BrokerUnreachableError]]:
        """Ask nodes; an exception is raised.  A node that is silent comes behind one called ``last``, whose answer is ready."""
        return self.questions.ask({node: self.question(node, answer) for node, answer in answers.items()}, everyone=False)

    def question(self, node: str, answer: object) -> Callable[[], object]:
        def question() -> object:
            self.silent = node == "last"
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return question

    def answer_late(self) -> None:
        self.silent = False
        for function in self.late:
            function()
        self.late.clear()

    def test_answers_come_in_the_order_of_the_questions(self) -> None:
        answers, reasons = self.ask(b=1, a=UNREACHABLE, c=3)
        self.assertEqual((list(answers.items()), reasons), ([("b", 1), ("c", 3)], {"a": UNREACHABLE}))

    def test_a_silent_node_is_left_out_and_asked_nothing_more_until_it_has_answered(self) -> None:
        answers, reasons = self.ask(last=1, b=2)
        self.assertEqual((answers, list(reasons)), ({"last": 1}, ["b"]))
        self.assertTrue(self.questions.busy("b"))
        self.silent = False
        answers, reasons = self.ask(a=1, b=FencedError("asked twice"))
        self.assertEqual((answers, list(reasons)), ({"a": 1}, ["b"]))
        self.answer_late()
        self.assertEqual(self.questions.ended(), {})
        self.assertFalse(self.questions.busy("b"))
        self.assertEqual(self.ask(a=1, b=2)[0], {"a": 1, "b": 2})

    def test_a_question_that_fails_late_names_its_node(self) -> None:
        self.ask(last=1, b=UNREACHABLE)
        self.assertEqual(self.questions.ended(), {})
        self.answer_late()
        self.assertEqual(self.questions.ended(), {"b": UNREACHABLE})

    def test_other_errors_are_raised_in_time_and_late(self) -> None:
        self.assertRaises(FencedError, self.ask, a=1, b=FencedError("another one"))
        self.ask(last=1, b=FencedError("another one"))
        self.answer_late()
        self.assertRaises(FencedError, self.questions.ended)
        self.assertFalse(self.questions.busy("b"))

    def test_one_node_is_asked_in_the_thread_of_the_caller(self) -> None:
        self.silent = True
        self.assertEqual(self.ask(a=1), ({"a": 1}, {}))

    def test_what_is_to_be_done_with_a_free_connection_waits_for_the_open_question(self) -> None:
        done: list[str] = []
        self.ask(last=1, b=2)
        self.questions.when_free("a", lambda: done.append("a"))
        self.questions.when_free("b", lambda: done.append("b"))
        self.assertEqual(done, ["a"])
        self.answer_late()
        self.assertEqual(done, ["a", "b"])
