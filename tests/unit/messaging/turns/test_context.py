"""The order of what a session causes: each after its work is durable, and after all that it asked for before."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.turns.context import OperationContext
from tests.support.held_store import HeldStore


class ContextTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = HeldStore()
        self.store.held = True
        self.context = OperationContext(self.store)
        self.done: list[str] = []

    def run_after(self, ticket: int, name: str) -> None:
        self.context.run(ticket, self.done.append, name)

    def work(self) -> int:
        ticket: int = self.store.commit(self.store.begin())
        return ticket

    def test_work_that_needs_no_durability_runs_at_once(self) -> None:
        self.run_after(0, "reply")
        self.assertEqual((self.done, self.context.idle), (["reply"], True))

    def test_durable_work_runs_when_it_is_durable(self) -> None:
        self.run_after(self.work(), "reply")
        self.assertEqual((self.done, self.context.idle), ([], False))
        self.store.sync()
        self.assertEqual((self.done, self.context.idle), (["reply"], True))

    def test_what_needs_no_durability_waits_behind_durable_work_of_its_session_alone(self) -> None:
        self.run_after(self.work(), "durable")
        self.run_after(0, "behind")
        OperationContext(self.store).run(0, self.done.append, "other session")
        self.assertEqual(self.done, ["other session"])
        self.store.sync()
        self.assertEqual(self.done, ["other session", "durable", "behind"])

    def test_a_smaller_ticket_waits_for_the_greater_one_before_it(self) -> None:
        first, second = self.work(), self.work()
        self.run_after(second, "second")
        self.run_after(first, "first")
        self.store.sync()
        self.assertEqual(self.done, ["second", "first"])


class HoldTests(SynchronousTestCase):
    """Something outside of the store has to happen first, for one session alone."""

    def setUp(self) -> None:
        self.store: Any = HeldStore()
        self.context = OperationContext(self.store)
        self.done: list[str] = []

    def ask(self, name: str) -> None:
        self.context.run(0, self.done.append, name)

    def test_what_is_asked_later_waits_and_other_sessions_do_not(self) -> None:
        self.ask("before")
        go_on = self.context.hold()
        self.ask("1")
        self.ask("2")
        OperationContext(self.store).run(0, self.done.append, "other session")
        self.assertEqual((self.done, self.context.idle), (["before", "other session"], False))
        go_on()
        self.assertEqual((self.done, self.context.idle), (["before", "other session", "1", "2"], True))
        self.ask("3")
        self.assertEqual(self.done[-1], "3")

    def test_it_has_its_place_behind_durable_work(self) -> None:
        self.store.held = True
        ticket = self.store.commit(self.store.begin())
        self.context.run(ticket, self.done.append, "durable")
        go_on = self.context.hold()
        self.ask("behind")
        self.store.sync()
        self.assertEqual(self.done, ["durable"])
        go_on()
        self.assertEqual((self.done, self.context.idle), (["durable", "behind"], True))

    def test_one_that_has_ended_before_its_turn_holds_nothing(self) -> None:
        self.store.held = True
        ticket = self.store.commit(self.store.begin())
        self.context.run(ticket, self.done.append, "durable")
        go_on = self.context.hold()
        self.ask("behind")
        go_on()
        self.assertEqual(self.done, [])
        self.store.sync()
        self.assertEqual((self.done, self.context.idle), (["durable", "behind"], True))

    def test_two_in_a_row(self) -> None:
        first = self.context.hold()
        self.ask("1")
        second = self.context.hold()
        self.ask("2")
        first()
        self.assertEqual(self.done, ["1"])
        second()
        self.assertEqual((self.done, self.context.idle), (["1", "2"], True))

    def test_an_effect_that_asks_for_another_one_does_not_let_it_overtake_the_others(self) -> None:
        go_on = self.context.hold()
        self.context.run(0, self.ask, "asked meanwhile")
        self.ask("2")
        go_on()
        self.assertEqual((self.done, self.context.idle), (["2", "asked meanwhile"], True))

    def test_an_effect_that_raises_keeps_nothing_back(self) -> None:
        go_on = self.context.hold()
        self.context.run(0, [].remove, "absent")
        self.ask("2")
        self.assertRaises(ValueError, go_on)
        self.ask("3")
        self.assertEqual((self.done, self.context.idle), (["2", "3"], True))
