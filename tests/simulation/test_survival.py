"""What the judge says of disks that have lost their power."""

from __future__ import annotations

import unittest

from tests.simulation.model import Ledger, Outcome, Receipt, Sent, Unit
from tests.simulation.survival import Found, Kept, judge
from tests.simulation.workload import body_of

NAME = "sender-1"
COPY = ("orders", NAME)


class SurvivalTests(unittest.TestCase):
    def setUp(self) -> None:
        self.ledger = Ledger()
        self.ledger.clock_is_ahead("broker", 0, 0.0)
        self.kept = Kept(next_ids={"broker": 100})

    def sent(self, outcome: Outcome = Outcome.DONE, **more: object) -> Sent:
        message = Sent(NAME, "sender", 1, 4, True, ("orders",), outcome, size=20)
        for key, value in more.items():
            setattr(message, key, value)
        self.ledger.send(message)
        return message

    def there(self, body: bytes = body_of(NAME, 20), scheduled: int = 0) -> None:
        self.kept.copies.setdefault(COPY, []).append(Found("orders", "broker", 7, scheduled, 0, body))

    def acknowledged(self, outcome: Outcome, asked: float = 1.0) -> Unit:
        unit = self.ledger.unit("receiver's")
        unit.acknowledged.append(COPY)
        unit.asked = asked
        self.ledger.finish(unit, outcome)
        return unit

    def check(self, *expected: str) -> None:
        found = judge(self.ledger, self.kept, 2.0)
        self.assertEqual(len(found), len(expected), found)
        for text, part in zip(found, expected, strict=True):
            self.assertIn(part, text)

    def test_what_was_confirmed_is_there(self) -> None:
        self.sent()
        self.check("('orders', 'sender-1') would be lost: it was confirmed to sender")
        self.there()
        self.check()

    def test_what_is_in_doubt_may_be_missing_unless_somebody_has_received_it(self) -> None:
        self.sent(Outcome.UNKNOWN)
        self.check()
        self.ledger.receive(Receipt(1.0, 1.0, COPY, "orders", 7, 1, "receiver"))
        self.check("receiver has received it")

    def test_what_was_acknowledged_is_not_there(self) -> None:
        self.sent()
        self.there()
        self.acknowledged(Outcome.UNKNOWN)
        self.check()
        self.acknowledged(Outcome.DONE)
        self.check("would be back in orders of broker as 7")

    def test_an_acknowledgement_of_an_open_transaction_takes_nothing(self) -> None:
        self.sent()
        self.acknowledged(Outcome.UNKNOWN, asked=float("inf"))
        self.check("would be lost")

    def test_nothing_of_an_open_transaction_is_there(self) -> None:
        self.sent(Outcome.UNKNOWN)
        self.ledger.unit("sender's").sends.append(NAME)
        self.check()
        self.there()
        self.check("of sender's, whose end nobody has asked for")

    def test_a_transaction_is_there_as_a_whole(self) -> None:
        self.sent(Outcome.UNKNOWN)
        self.ledger.send(Sent("sender-2", "sender", 2, 4, True, ("orders",)))
        unit = self.ledger.unit("sender's")
        unit.sends += [NAME, "sender-2"]
        unit.asked = 1.0
        self.check()
        self.there()
        self.check("only a part would be there: ['sender-2'] are missing")

    def test_bodies_are_whole_and_a_copy_is_there_once(self) -> None:
        self.sent()
        self.there(body_of(NAME, 20)[:16])
        self.check("would be damaged (16 of 20 bytes)")
        self.there()
        self.check("would be stored 2 times", "would be damaged")

    def test_a_schedule_is_as_it_was_sent(self) -> None:
        self.sent(due=[1_700_000_009_000])
        self.there(scheduled=1_700_000_009_000)
        self.check()
        self.kept.copies.clear()
        self.there()
        self.check("would be due at 0; it was sent for [1700000009000]")

    def test_a_duplicate_id_is_remembered(self) -> None:
        self.sent(remembered=True)
        self.there()
        self.check("the duplicate id of sender-1 would be forgotten")
        self.kept.remembered.add(NAME)
        self.check()

    def test_an_id_is_not_given_out_again(self) -> None:
        self.sent()
        self.there()
        self.ledger.receive(Receipt(1.0, 1.0, COPY, "orders", 100, 1, "receiver"))
        self.check("the next id would be 100")
