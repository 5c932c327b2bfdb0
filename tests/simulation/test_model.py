"""The ledger must see every kind of broken promise: a judge that overlooks something proves nothing."""

from __future__ import annotations

import unittest

from tests.simulation.counting import RECORDS
from tests.simulation.model import DRAIN, Copy, Ledger, Outcome, Receipt, Sent


class LedgerTests(unittest.TestCase):
    def setUp(self) -> None:
        self.ledger = Ledger()
        self.time = 0.0
        self.ids: dict[str, int] = {}

    def send(self, identity: str, outcome: Outcome = Outcome.DONE, number: int = 1, queue: str = "q", durable: bool = True) -> Copy:
        self.ledger.send(Sent(identity, "sender", number, 4, durable, (queue,)))
        self.ledger.decide(identity, outcome)
        return queue, identity

    def receive(self, copy: Copy, who: str = DRAIN, message_id: int = 0, place: str | None = None, late: float = 0) -> str | None:
        """``late``: seconds that the client had it."""
        self.time += 1
        identifier = message_id or self.ids.setdefault(copy[1], 1 + len(self.ids))
        return self.ledger.receive(Receipt(self.time, self.time - late, copy, place or copy[0], identifier, 1, who))

    def acknowledge(self, copy: Copy, outcome: Outcome) -> None:
        unit = self.ledger.unit("acknowledgement")
        unit.acknowledged.append(copy)
        unit.asked = self.time
        self.ledger.finish(unit, outcome)

    def assert_found(self, text: str) -> None:
        self.assertIn(text, "\n".join(self.ledger.problems()))

    def assert_fine(self) -> None:
        self.assertEqual(self.ledger.problems(), [])

    def test_a_message_goes_through(self) -> None:
        copy = self.send("m")
        self.assertIsNone(self.receive(copy, "receiver"))
        self.acknowledge(copy, Outcome.DONE)
        self.assert_fine()

    def test_a_confirmed_message_is_lost(self) -> None:
        self.send("m")
        self.assert_found("is lost")

    def test_an_unconfirmed_message_may_be_there_or_not(self) -> None:
        self.send("absent", Outcome.UNKNOWN)
        self.receive(self.send("present", Outcome.UNKNOWN))
        self.assert_fine()

    def test_a_received_message_is_lost(self) -> None:
        self.receive(self.send("m", Outcome.UNKNOWN), "receiver")
        self.assert_found("is lost")

    def test_a_message_that_is_not_durable_is_lost_by_a_crash_only(self) -> None:
        self.send("m", durable=False)
        self.assert_found("is lost")
        self.ledger.lost_memory = True
        self.assert_fine()

    def test_an_acknowledged_message_comes_again(self) -> None:
        copy = self.send("m")
        self.receive(copy, "receiver")
        self.acknowledge(copy, Outcome.DONE)
        self.assertIn("was confirmed", str(self.receive(copy)))
        self.assert_found("was confirmed")

    def test_a_client_may_still_have_what_another_one_has_acknowledged(self) -> None:
        copy = self.send("m")
        self.receive(copy, "receiver")
        self.acknowledge(copy, Outcome.DONE)
        self.assertIsNone(self.receive(copy, "cut off", late=1))
        self.assert_fine()

    def test_an_acknowledgement_in_doubt_leaves_both_possible(self) -> None:
        gone, back = self.send("gone"), self.send("back")
        for copy in (gone, back):
            self.receive(copy, "receiver")
            self.acknowledge(copy, Outcome.UNKNOWN)
        self.receive(back)
        self.assert_fine()

    def test_an_acknowledgement_that_was_rolled_back_loses_the_message(self) -> None:
        copy = self.send("m")
        self.receive(copy, "receiver")
        self.acknowledge(copy, Outcome.NEVER)
        self.assert_found("is lost")

    def test_a_message_is_there_twice(self) -> None:
        copy = self.send("m")
        self.receive(copy, message_id=1)
        self.receive(copy, message_id=2)
        self.assert_found("was in its queue 2 times")
        self.assert_found("was stored twice")

    def test_a_message_id_is_used_twice(self) -> None:
        self.receive(self.send("one"), message_id=1)
        self.receive(self.send("two"), message_id=1)
        self.assert_found("message id 1 was used")

    def test_a_rolled_back_send_is_received(self) -> None:
        self.receive(self.send("m", Outcome.NEVER))
        self.assert_found("was rolled back")

    def test_what_was_never_sent_is_received(self) -> None:
        self.assertIn("never sent", str(self.ledger.receive(Receipt(1.0, 1.0, ("q", "m"), "q", 1, 1, DRAIN))))

    def test_half_a_transaction(self) -> None:
        unit = self.ledger.unit("transaction")
        for identity in ("one", "two"):
            self.send(identity, Outcome.UNKNOWN)
            unit.sends.append(identity)
        self.receive(("q", "one"))
        self.assert_found("only a part")
        self.receive(("q", "two"))
        self.assert_fine()

    def test_a_transaction_sends_but_does_not_acknowledge(self) -> None:
        taken = self.send("taken")
        unit = self.ledger.unit("transaction")
        self.receive(taken, "receiver")
        unit.acknowledged.append(taken)
        self.send("sent", Outcome.UNKNOWN)
        unit.sends.append("sent")
        unit.asked = self.time
        self.receive(("q", "sent"))
        self.assert_fine()
        self.receive(taken)
        self.assert_found("the sends took effect")

    def test_a_transaction_acknowledges_but_does_not_send(self) -> None:
        taken = self.send("taken")
        unit = self.ledger.unit("transaction")
        self.receive(taken, "receiver")
        unit.acknowledged.append(taken)
        self.send("sent", Outcome.UNKNOWN)
        unit.sends.append("sent")
        unit.asked = self.time
        self.assert_found("is lost")

    def test_dead_letters(self) -> None:
        copy = self.send("m", queue="jobs")
        self.receive(copy, "receiver", message_id=1)
        self.receive(copy, message_id=2, place="dead")
        self.assert_fine()
        self.receive(copy, "receiver", message_id=1)
        self.assert_found("dead letter")

    def test_order(self) -> None:
        for number, identity in enumerate(("one", "two", "three")):
            self.send(identity, Outcome.UNKNOWN if identity == "two" else Outcome.DONE, number)
            self.receive(("q", identity))
        self.ledger.sequences.append(("receiver", ["two", "one", "three"]))
        self.assert_fine()
        self.ledger.sequences.append(("receiver", ["three", "one"]))
        self.assert_found("got three before one")

    # --- delivery counts

    def count(self, copy: Copy, delivery_count: int, place: str = "", life: int = 1) -> str | None:
        self.time += 1
        return self.ledger.receive(Receipt(self.time, self.time, copy, place or copy[0], 1, delivery_count, "receiver", life))

    def roll_back(self, copy: Copy, life: int = 1) -> None:
        self.time += 1
        self.ledger.counts.tried(copy[0], copy)
        self.ledger.counts.in_vain(copy[0], [copy], life, self.time)

    def test_what_was_not_tried_counts_as_one_delivery(self) -> None:
        copy = self.send("m")
        self.assertIsNone(self.count(copy, 1))
        self.assertIn("not 1 to 1", str(self.count(copy, 2)))

    def test_each_rollback_counts(self) -> None:
        copy = self.send("m")
        self.roll_back(copy)
        self.roll_back(copy)
        self.assertIsNone(self.count(copy, 3))
        self.assertIn("not 3 to 3", str(self.count(copy, 2)))
        self.assertIn("not 3 to 3", str(self.count(copy, 4)))

    def test_a_delivery_in_doubt_may_count(self) -> None:
        copy = self.send("m")
        self.ledger.counts.tried("q", copy)
        self.assertIsNone(self.count(copy, 1))
        self.assertIsNone(self.count(copy, 2))

    def test_a_restart_may_forget_what_is_not_known_to_be_durable(self) -> None:
        copy = self.send("m")
        self.roll_back(copy)
        durable = self.time
        self.roll_back(copy)
        self.ledger.counts.durable(1, durable)
        self.assertIsNone(self.count(copy, 2, life=2))
        self.assertIsNone(self.count(copy, 3, life=2))
        self.assertIn("not 2 to 3", str(self.count(copy, 1, life=2)))

    def test_a_restart_may_forget_changes_that_are_not_written_any_more(self) -> None:
        copy = self.send("m")
        for _ in range(RECORDS + 2):
            self.roll_back(copy)
        self.ledger.counts.durable(1, self.time)
        self.assertIn(f"not {RECORDS + 3} to", str(self.count(copy, RECORDS + 1)))
        self.assertIsNone(self.count(copy, RECORDS + 1, life=2))
        self.assertIn(f"not {RECORDS + 1} to", str(self.count(copy, RECORDS, life=2)))

    def test_what_a_lost_connection_held_may_count(self) -> None:
        copy = self.send("m")
        self.ledger.counts.opened("q", "other")
        self.ledger.counts.left("other", False)
        self.assertIsNone(self.count(copy, 2))
        self.assertIn("not 1 to 2", str(self.count(copy, 3)))

    def test_a_message_becomes_a_dead_letter_neither_early_nor_late(self) -> None:
        self.ledger.counts.attempts["q"] = (2, 2)
        copy = self.send("m")
        self.assertIn("is a dead letter, although", str(self.count(copy, 1, "dead")))
        for _ in range(2):
            self.roll_back(copy)
        self.assertIsNone(self.count(copy, 1, "dead"))
        self.assertIn("is a dead letter after 2", str(self.count(copy, 3)))

    def test_what_the_broker_was_to_forget_comes_again(self) -> None:
        copy = self.send("m")
        self.ledger.forgotten[copy] = 1
        self.assertIn("was to forget it", str(self.count(copy, 1)))
        self.assertIsNone(self.count(copy, 1, life=2))
