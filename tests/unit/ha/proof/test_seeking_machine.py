"""The states of a copy that seeks the proof: every pair of state and input is decided, and only a raised sequence makes it active."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.seeking_machine import STATES, SeekingData, make_seeking

WAYS: dict[str, tuple[str, ...]] = {
    "passive": (),
    "asking the other copy": ("seek",),
    "asking for the sequence": ("seek", "unanswered"),
    "waiting to ask again": ("seek", "undecided"),
    "raising the sequence": ("seek", "proven"),
    "proven": ("seek", "proven", "raised"),
    "giving up": ("yield_",),
}
"""Inputs that lead to each state."""
INPUTS = ("seek", "unanswered", "proven", "undecided", "again", "refused", "raised", "yield_", "yielded", "cease")


class Core:
    """Keeps what it is asked to do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.state = "passive"

    def entered(self, state: str) -> None:
        self.state = state

    def __getattr__(self, name: str) -> Any:
        return lambda: self.done.append(name)


class SeekingMachineTests(SynchronousTestCase):
    def after(self, state: str, name: str) -> tuple[str, list[str]]:
        core: Any = Core()
        machine: Any = make_seeking(SeekingData(core))
        for each in WAYS[state]:
            getattr(machine, each)()
        self.assertEqual(machine.state(), state)
        core.done.clear()
        getattr(machine, name)()
        self.assertEqual(core.state, machine.state())
        return machine.state(), core.done

    def test_the_other_copy_is_asked_before_the_voters(self) -> None:
        self.assertEqual(self.after("passive", "seek"), ("asking the other copy", ["ask_other"]))
        self.assertEqual(self.after("asking the other copy", "unanswered"), ("asking for the sequence", ["ask_for_sequence"]))
        self.assertEqual(self.after("waiting to ask again", "again"), ("asking the other copy", ["ask_other"]))

    def test_an_active_one_that_lost_its_replica_asks_again(self) -> None:
        self.assertEqual(self.after("proven", "seek"), ("asking the other copy", ["ask_other"]))

    def test_the_sequence_is_raised_before_it_is_active(self) -> None:
        for state in ("asking the other copy", "asking for the sequence", "waiting to ask again"):
            self.assertEqual(self.after(state, "proven"), ("raising the sequence", ["raise_sequence"]))
        self.assertEqual(self.after("raising the sequence", "raised"), ("proven", ["hold"]))

    def test_a_copy_gives_itself_up_in_all_states_but_while_it_raises_the_sequence(self) -> None:
        for state in WAYS:
            expected = (state, []) if state in ("raising the sequence", "giving up") else ("giving up", ["give_up"])
            self.assertEqual(self.after(state, "yield_"), expected)
        self.assertEqual(self.after("giving up", "yielded"), ("passive", ["tell_yielded"]))

    def test_every_state_can_be_left(self) -> None:
        for state in WAYS:
            self.assertEqual(self.after(state, "cease"), ("passive", [] if state == "passive" else ["rest"]))

    def test_late_facts_change_nothing(self) -> None:
        for state in ("passive", "proven", "raising the sequence", "giving up"):
            for fact in ("unanswered", "proven", "undecided", "again", "refused"):
                self.assertEqual(self.after(state, fact), (state, []))

    @given(st.lists(st.sampled_from(INPUTS), max_size=30))
    def test_every_input_is_possible_in_every_state_and_only_proven_ones_hold(self, inputs: list[str]) -> None:
        core: Any = Core()
        machine: Any = make_seeking(SeekingData(core))
        for name in inputs:
            core.done.clear()
            before = machine.state()
            getattr(machine, name)()
            self.assertIn(machine.state(), [state.name for state in STATES])
            self.assertEqual(core.state, machine.state())
            if "hold" in core.done:
                self.assertEqual((before, name), ("raising the sequence", "raised"))
