"""The answers of the master."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.record.changes import wish_of
from mqbroker.imq.record.codec import wish_values
from mqbroker.messaging.administration.registrar import Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqclient.errors import QueueExistsError
from mqclient.management import ManagementError
from tests.unit.imq.net import ONE, TWO, Net, three


def wanted(name: str, **attributes: int) -> dict[str, object]:
    return wish_values(wish_of(Change("create", QueueDefinition(name, name, ANYCAST, **attributes))))  # type: ignore[arg-type]


class KeepingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.one = Net().add(ONE)
        self.keeping = self.one.recording.keeping
        self.generation = self.keeping.record.generation

    def test_a_wish_is_on_record_and_made_here(self) -> None:
        answer = self.keeping.answer_append(TWO, wanted("q"), self.generation, 1, False)
        self.assertEqual((answer["position"], answer["change"]["origin"]), (2, TWO))
        self.assertEqual((self.one.queues, self.keeping.append(wish_of(Change("create", QueueDefinition("r", "r", 1))), False)), (["q"], 3))
        self.keeping.catch_up()
        self.assertEqual(self.one.queues, ["q", "r"])
        self.assertEqual(self.keeping.answer_append(TWO, wanted("q"), self.generation, 1, False), {"position": 2, "change": None})

    def test_a_refusal_has_its_code(self) -> None:
        self.keeping.answer_append(TWO, wanted("q"), self.generation, 1, False)
        answer = self.keeping.answer_append("b3:7676", wanted("q", max_consumers=1), self.generation, 1, False)
        self.assertEqual(answer["error"][0], QueueExistsError.code)

    def test_while_it_takes_no_changes(self) -> None:
        self.keeping.blocked = "for a test"
        self.assertEqual(self.keeping.answer_append(TWO, wanted("q"), self.generation, 1, False), {"retry": True})

    def test_who_is_not_the_master_answers_nobody(self) -> None:
        _, _, two, _ = three()
        keeping = two.recording.keeping
        for ask in (
            lambda: keeping.answer_append(TWO, wanted("q"), "g", 1, False),
            lambda: keeping.answer_join("n", TWO, None, None, 0),
            lambda: keeping.answer_changes("n", "g", 1, None),
        ):
            error = self.assertRaises(ManagementError, ask)
            self.assertIn(ONE, str(error))

    def test_changes_of_another_record_are_everything(self) -> None:
        for generation, floor in (("another", 0), (None, None)):
            self.assertTrue(self.keeping.answer_changes("n", generation, 1, floor)["reset"])
        self.assertFalse(self.keeping.answer_changes("n", self.generation, 1, None)["reset"])
