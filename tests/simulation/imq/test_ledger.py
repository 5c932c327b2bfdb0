"""What the ledger of home brokers says of receipts."""

from __future__ import annotations

import unittest

from tests.simulation.imq.ledger import HomeLedger
from tests.simulation.model import DRAIN, Outcome, Receipt, Sent

COPY = ("q", "sender-1")


class ReceiptTests(unittest.TestCase):
    def setUp(self) -> None:
        self.ledger = HomeLedger(has_record=True)
        self.ledger.homes.update({"one": "node1", "two": "node1", "sender": "node0"})
        self.ledger.send(Sent("sender-1", "sender", 1, 4, True, ("q",)))

    def receipt(self, sent: float, message_id: int, who: str) -> Receipt:
        return Receipt(sent, sent, COPY, "q", message_id, 1, who)

    def acknowledge(self, asked: float) -> None:
        unit = self.ledger.unit("acknowledgement of two")
        unit.acknowledged.append(COPY)
        unit.asked = asked
        self.ledger.finish(unit, Outcome.DONE, asked)

    def test_what_is_sent_again_to_a_client_that_is_back_was_given_to_it_before(self) -> None:
        self.ledger.taken_back["node1", 51] = 2.0
        self.ledger.receive(self.receipt(2.4, 83, "two"))
        self.acknowledge(2.6)
        self.assertIsNone(self.ledger.receive(self.receipt(2.8, 51, "one")))

    def test_what_was_not_given_before_is_a_violation(self) -> None:
        self.ledger.taken_back["node1", 51] = 2.0
        self.ledger.receive(self.receipt(2.4, 83, "two"))
        self.acknowledge(2.6)
        self.assertIn("was confirmed", str(self.ledger.receive(self.receipt(2.8, 84, "one"))))

    def test_with_a_record_nobody_gets_what_was_sent_before_a_subscription(self) -> None:
        for has_record in (True, False):
            ledger = HomeLedger(has_record)
            ledger.homes.update({"one": "node1", "s": "node1", "sender": "node0"})
            ledger.send(Sent("sender-1", "sender", 1, 4, True, (), Outcome.DONE, "news", done=1.0))
            subscription = ledger.subscribe("s", "news", "", 2.0)
            wrong = ledger.receive(Receipt(3.0, 3.0, (subscription.key, "sender-1"), "s", 7, 1, "one"))
            self.assertEqual(wrong is not None, has_record)

    def test_what_others_have_of_a_former_life_of_which_they_have_not_heard_the_end(self) -> None:
        self.ledger.homes["s"] = "node1"
        self.ledger.send(Sent("sender-2", "sender", 2, 4, True, (), Outcome.DONE, "news", done=1.0))
        former, present = (self.ledger.subscribe("s", "news", "", asked) for asked in (0.5, 2.0))
        former.deleting = 1.5

        def received(message_id: int) -> str | None:
            return self.ledger.receive(Receipt(3.0, 3.0, (present.key, "sender-2"), "s", message_id, 1, DRAIN))

        self.assertIn("before this life", str(received(7)))
        self.ledger.unheard.add("s")
        self.assertIsNone(received(7))
        self.assertEqual([each.copy for each in self.ledger.receipts], [(life.key, "sender-2") for life in (present, former)])
        unit = self.ledger.unit("acknowledgement of one")
        unit.acknowledged.append((former.key, "sender-2"))
        unit.asked = 1.2
        self.ledger.finish(unit, Outcome.DONE, 1.2)
        self.assertIn("was confirmed", str(received(7)))

    def test_what_was_sent_before_the_first_life_is_nobodys(self) -> None:
        self.ledger.homes["s"] = "node1"
        self.ledger.send(Sent("sender-2", "sender", 2, 4, True, (), Outcome.DONE, "news", done=1.0))
        subscription = self.ledger.subscribe("s", "news", "", 2.0)
        self.ledger.unheard.add("s")
        receipt = Receipt(3.0, 3.0, (subscription.key, "sender-2"), "s", 7, 1, DRAIN)
        self.assertIn("before this life", str(self.ledger.receive(receipt)))
