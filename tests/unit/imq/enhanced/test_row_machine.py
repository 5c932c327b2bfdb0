"""The life of the own row takes every input in every state, in whatever order they come."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.enhanced.row_machine import RowData, make_row_machine

ALWAYS = ("lost", "emptied", "quiesce", "unquiesce", "operate", "leave", "end")
ANSWERS = ("joined", "held", "taken_over", "refused")


class _Core:
    def __init__(self) -> None:
        self.written: list[str] = []
        self.looks = 0
        self.given_up = 0

    def look_at_row(self) -> None:
        self.looks += 1

    def look_later(self, taken_over: bool) -> None: ...

    def grant(self) -> None: ...

    def write(self, state: str) -> None:
        self.written.append(state)

    def write_end(self) -> None:
        self.written.append("end")

    def give_up(self) -> None:
        self.given_up += 1

    def rest(self) -> None: ...


class RowMachineTests(SynchronousTestCase):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from((*ALWAYS, "look", "start", *ANSWERS)), max_size=30))
    def test_every_order(self, inputs: list[str]) -> None:
        core = _Core()
        machine = make_row_machine(RowData(core))
        for each in inputs:
            state = machine.state()
            if each == "start" and state != "absent":
                continue
            if each in ANSWERS and state != "looking":
                continue
            if each == "look" and state == "looking":
                continue
            getattr(machine, each)()

    def test_a_whole_life(self) -> None:
        core = _Core()
        machine = make_row_machine(RowData(core))
        for each in ("start", "held", "look", "taken_over", "look", "joined", "operate", "quiesce", "emptied", "unquiesce", "leave", "end"):
            getattr(machine, each)()
        self.assertEqual(core.written, ["OPERATING", "QUIESCE_STARTED", "QUIESCE_COMPLETED", "OPERATING", "SHUTDOWN_STARTED", "end"])
        self.assertEqual((machine.state(), core.looks, core.given_up), ("absent", 3, 0))

    def test_a_lost_row_is_given_up_once(self) -> None:
        core = _Core()
        machine = make_row_machine(RowData(core))
        for each in ("start", "joined", "operate", "lost", "lost", "end"):
            getattr(machine, each)()
        self.assertEqual((machine.state(), core.given_up, core.written), ("absent", 1, ["OPERATING"]))
