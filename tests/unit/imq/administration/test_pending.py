"""Requests that wait for work, are handled again, and take its result."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.administration.pending import Pending
from mqbroker.messaging.turns.undecided import Undecided


class PendingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pending = Pending()
        self.begun: list[Deferred[int]] = []
        self.woken: list[str] = []

    def begin(self) -> Deferred[int]:
        self.begun.append(Deferred())
        return self.begun[-1]

    def ask(self, name: str = "a") -> Undecided:
        error = self.assertRaises(Undecided, self.pending.result, "key", self.begin)
        error.when_known(lambda: self.woken.append(name))
        return error  # type: ignore[no-any-return]

    def test_a_result_that_is_there_is_given_at_once(self) -> None:
        self.assertEqual(self.pending.result("key", lambda: succeed(3)), 3)
        self.assertRaises(ValueError, self.pending.result, "key", lambda: fail(ValueError()))

    def test_a_request_waits_and_takes_the_result_once(self) -> None:
        self.ask()
        self.ask("b")
        self.begun[0].callback(5)
        self.assertEqual((len(self.begun), self.woken), (1, ["a", "b"]))
        self.assertEqual(self.pending.result("key", self.begin), 5)
        self.ask()
        self.assertEqual(len(self.begun), 2)

    def test_an_error_is_raised_for_who_has_waited(self) -> None:
        self.ask()
        self.begun[0].errback(ValueError("no"))
        self.assertRaises(ValueError, self.pending.result, "key", self.begin)

    def test_nobody_takes_the_result_of_one_that_has_gone(self) -> None:
        self.ask().withdraw()
        self.begun[0].callback(5)
        self.assertEqual(self.woken, [])
        error = self.ask()
        self.begun[1].callback(6)
        error.withdraw()
        self.ask()
        self.assertEqual(len(self.begun), 3)

    def test_one_that_has_gone_leaves_the_result_to_another_one(self) -> None:
        gone = self.ask()
        self.ask("b")
        gone.withdraw()
        self.begun[0].callback(5)
        self.assertEqual((self.woken, self.pending.result("key", self.begin)), (["b"], 5))

    def test_one_that_goes_with_its_answer_leaves_the_next_one_waiting(self) -> None:
        """Its session ends, perhaps while somebody asks for the same."""
        answered = self.ask()
        self.begun[0].callback(5)
        self.pending.result("key", self.begin)
        self.ask("b")
        answered.withdraw()
        self.begun[1].callback(6)
        self.assertEqual((self.woken, self.pending.result("key", self.begin)), (["a", "b"], 6))
