"""Which nodes' data a member has, and what it says of that."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.taken import Adopted, Taken
from mqbroker.imq.links.operations import MemberOperations
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import NotConnectedError

OWN, LOST, GONE = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2, 3))


def digits(node_id: str) -> str:
    return node_id.replace("-", "")


class AdoptedTests(SynchronousTestCase):
    def test_what_it_has_is_told_once_it_is_known(self) -> None:
        adopted = Adopted(OWN)
        operations = MemberOperations({"hasDataOf": adopted.answer})
        undecided = self.assertRaises(Undecided, operations.answer, "hasDataOf", [digits(LOST), digits(GONE)])
        answers: list[Any] = []
        undecided.when_known(lambda: answers.append(operations.answer("hasDataOf", [digits(LOST), digits(GONE)])))
        self.assertFalse(adopted.complete)
        adopted.begin([LOST])
        self.assertEqual(answers, [[digits(LOST)]])
        self.assertEqual(operations.answer("hasDataOf", [digits(OWN)]), [digits(OWN)])

    def test_what_no_member_asks(self) -> None:
        for asked in (None, "text", [1], {}):
            with self.assertRaises(ValueError):
                Adopted(OWN).answer(asked)


class TakenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.by_id: dict[str, Any] = {"member": self}
        self.taken = Taken(lambda: {OWN}, self)  # type: ignore[arg-type]

    def ask(self, *asked: Any) -> Deferred[Any]:
        self.asked.append(asked)
        return succeed([digits(LOST), "what else"])

    def at(self, member: str) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.taken.at(member, {bytes.fromhex(digits(node)) for node in (LOST, GONE)}))

    def test_a_member_is_asked(self) -> None:
        self.assertEqual(self.successResultOf(self.at("member")), [bytes.fromhex(digits(LOST))])
        self.assertEqual(self.asked, [("hasDataOf", [digits(LOST), digits(GONE)])])
        self.assertEqual(self.taken.nodes, {OWN})

    def test_there_is_no_link(self) -> None:
        self.failureResultOf(self.at("another"), NotConnectedError)
