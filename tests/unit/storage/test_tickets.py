"""Tickets: work counts as durable when all conditions hold for it, and not before."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.storage.tickets import Condition, Tickets


class TicketMachine(RuleBasedStateMachine):
    """Conditions come, hold for more and go; the model knows for each ticket which conditions it was handed over under."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = Tickets()
        self.conditions: list[Condition] = [self.tickets.own]
        self.needed: dict[int, list[Condition]] = {}
        self.asked: list[int] = []
        self.called: list[int] = []

    @rule()
    def work_is_handed_over(self) -> None:
        self.tickets.last += 1
        self.needed[self.tickets.last] = list(self.conditions)
        self.asked.append(self.tickets.last)
        self.tickets.when_synced(self.tickets.last, self.called.append, self.tickets.last)

    @rule(number=st.integers(0, 5), ticket=st.integers(0, 60))
    def holds(self, number: int, ticket: int) -> None:
        self.conditions[number % len(self.conditions)].hold(min(ticket, self.tickets.last))

    @rule()
    def is_demanded(self) -> None:
        if len(self.conditions) < 4:
            self.conditions.append(self.tickets.demand(f"condition {len(self.conditions)}"))

    @rule(number=st.integers(1, 5))
    def is_withdrawn(self, number: int) -> None:
        if len(self.conditions) > 1:
            gone = self.conditions.pop(1 + number % (len(self.conditions) - 1))
            gone.withdraw()
            for needed in self.needed.values():
                if gone in needed:
                    needed.remove(gone)

    @invariant()
    def exactly_what_all_conditions_hold_for_was_told_in_order(self) -> None:
        kept = [ticket for ticket, needed in self.needed.items() if all(condition.reached >= ticket for condition in needed)]
        self.check(self.called == self.asked[: len(self.called)], "out of order")
        self.check(set(self.called) == set(kept), f"called {self.called}, and not {kept}")
        self.check(self.tickets.synced >= max(self.called, default=0), "synced is behind")

    def check(self, true: bool, text: str) -> None:
        if not true:
            raise AssertionError(text)


class TicketTests(SynchronousTestCase):
    def test_work_is_told_when_its_conditions_hold(self) -> None:
        machine = TicketMachine.TestCase()
        machine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
        machine.runTest()

    def test_a_condition_never_holds_for_less_than_before(self) -> None:
        tickets = Tickets()
        tickets.last = 5
        tickets.own.hold(5)
        late = tickets.demand("late")
        late.hold(2)
        self.assertEqual(tickets.synced, 5)

    def test_nobody_is_called_after_the_end(self) -> None:
        tickets = Tickets()
        tickets.last = 1
        called: list[int] = []
        tickets.when_synced(1, called.append, 1)
        tickets.close()
        tickets.own.hold(1)
        self.assertEqual(called, [])

    def test_work_under_way_may_wait_for_a_new_condition_too(self) -> None:
        tickets = Tickets()
        tickets.last = 3
        tickets.own.hold(1)
        called: list[int] = []
        for ticket in (2, 3):
            tickets.when_synced(ticket, called.append, ticket)
        condition = tickets.demand("late", under_way=True)
        tickets.own.hold(3)
        self.assertEqual((called, tickets.synced), ([], 1))
        condition.hold(2)
        self.assertEqual((called, tickets.synced), ([2], 2))

    def test_that_a_condition_holds_is_told_before_anybody_who_waited_is_called(self) -> None:
        tickets = Tickets()
        tickets.last = 2
        called: list[object] = []
        tickets.when_synced(2, called.append, "waited")
        no_longer = tickets.own.held.subscribe(called.append)
        tickets.own.hold(2)
        self.assertEqual(called, [2, "waited"])
        no_longer()
        tickets.own.hold(2)
        self.assertEqual(called, [2, "waited"])
