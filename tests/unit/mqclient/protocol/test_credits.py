"""Credits, retries, rates, load balancing, the topology."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.protocol.credits import ConsumerCredits, ProducerCredits


class ConsumerCreditTests(SynchronousTestCase):
    @given(st.integers(1, 5000), st.lists(st.integers(1, 2000), max_size=50))
    def test_what_is_taken_is_returned(self, window: int, sizes: list[int]) -> None:
        """The broker never ends without credits while everything was taken, and never has more than the window at once."""
        credits = ConsumerCredits(window)
        balance = credits.initial()
        for size in sizes:
            self.assertGreater(balance, 0)
            balance += (credits.taken(size) or 0) - size
            self.assertLessEqual(balance, window)

    @given(st.lists(st.integers(2, 2000), max_size=20))
    def test_on_demand_the_balance_ends_at_zero(self, sizes: list[int]) -> None:
        credits, balance = ConsumerCredits(0), 0
        for size in sizes:
            balance += credits.ask() or 0
            self.assertEqual((balance, credits.ask()), (1, None))
            credits.arrived()
            balance += (credits.taken(size) or 0) - size
            self.assertEqual(balance, 0)
        self.assertFalse(credits.withdraw())
        credits.ask()
        self.assertTrue(credits.withdraw())

    def test_once_a_credit_was_withdrawn_the_balance_is_set_to_zero_unless_another_receive_has_asked(self) -> None:
        credits = ConsumerCredits(0)
        credits.ask()
        credits.withdraw()
        credits.arrived()
        self.assertEqual(credits.taken(300), 0)
        self.assertEqual((credits.ask(), credits.taken(300)), (1, 299))
        credits.after_recreation()
        credits.arrived()
        self.assertEqual(credits.taken(300), 299)

    def test_parts_of_a_large_message_on_demand(self) -> None:
        credits = ConsumerCredits(0)
        self.assertEqual([credits.part_taken(100, False), credits.part_taken(50, False), credits.part_taken(50, True)], [100, 50, 49])

    def test_after_a_failure(self) -> None:
        self.assertEqual([ConsumerCredits(window).after_recreation() for window in (-1, 0, 1, 1000)], [-1, 1, 1, 500])
        self.assertEqual((ConsumerCredits(-1).taken(100), ConsumerCredits(-1).part_taken(100, True)), (None, None))


class ProducerCreditTests(SynchronousTestCase):
    @given(st.integers(2, 10_000), st.lists(st.integers(1, 20_000), max_size=40))
    def test_what_was_asked_for_suffices(self, window: int, sizes: list[int]) -> None:
        credits = ProducerCredits(window)
        for size in sizes:
            asked = credits.request(size)
            self.assertEqual(credits.request(size), 0)
            credits.granted(asked)
            self.assertTrue(credits.spend(size))
            self.assertGreaterEqual(credits.balance, 0)

    @given(st.integers(2, 10_000), st.lists(st.tuples(st.integers(1, 20_000), st.integers(0, 2)), max_size=20))
    def test_who_does_not_wait_for_credits_has_some_in_the_end(self, window: int, sends: list[tuple[int, int]]) -> None:
        credits = ProducerCredits(window)
        on_their_way = []
        for size, grants in sends:
            on_their_way.append(credits.request(size))
            credits.balance -= size
            for _ in range(grants):
                if on_their_way:
                    credits.granted(on_their_way.pop(0))
                    on_their_way.append(credits.request(0))
        while on_their_way:
            self.assertGreaterEqual(min(on_their_way), 0)
            credits.granted(on_their_way.pop(0))
        self.assertGreaterEqual(credits.balance, 0)

    def test_request_takes_no_account_of_the_balance(self) -> None:
        credits = ProducerCredits(1000)
        credits.granted(credits.request(0))
        credits.spend(100)
        self.assertEqual(credits.request(10), 500)

    def test_refusal_is_told_once_and_empties_the_balance(self) -> None:
        credits = ProducerCredits(1000)
        credits.refused(credits.request(100))
        self.assertEqual((credits.take_refusal(), credits.take_refusal(), credits.balance), (True, False, 0))
        credits.granted(500)
        self.assertEqual(credits.balance, 500)

    def test_refusal_that_no_send_has_met_is_out_of_date_once_there_is_room(self) -> None:
        credits = ProducerCredits(1000)
        credits.refused(credits.request(100))
        self.assertEqual(credits.spare, 0)
        credits.granted(500)
        self.assertEqual((credits.take_refusal(), credits.balance, credits.spare), (False, 500, 500))

    def test_after_a_failure(self) -> None:
        credits = ProducerCredits(1000)
        self.assertEqual(credits.after_recreation(), 1000)
        credits.request(5000)
        self.assertEqual(credits.after_recreation(), 5000)
