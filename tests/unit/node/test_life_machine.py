"""The states of a broker: every pair of state and input is decided."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.node.life_machine import STATES, LifeData, make_life


class Core:
    """Does its work at once, or leaves it to be reported by the test."""

    def __getattr__(self, name: str) -> Any:
        return lambda: None


class MachineTests(SynchronousTestCase):
    @given(st.lists(st.sampled_from(("start", "stop", "fail")), max_size=20), st.data())
    def test_every_request_is_possible_in_every_state(self, requests: list[str], data: st.DataObject) -> None:
        core: Any = Core()
        machine = make_life(LifeData(core))
        facts = {
            "starting": ("opened", "refused"),
            "starting, to be stopped": ("opened", "refused", "activated"),
            "locked": ("wait", "activate"),
            "passive": ("activate",),
            "activating": ("activated", "refused"),
            "active": ("step_back",),
            "becoming passive": ("ended",),
            "leaving": ("left",),
            "stopping": ("written",),
        }
        for request in requests:
            if request != "start" or machine.state() in ("stopped", "failed"):
                getattr(machine, request)()
            possible = facts.get(machine.state(), ())
            if possible and data.draw(st.booleans()):
                getattr(machine, data.draw(st.sampled_from(possible)))()
            self.assertIn(machine.state(), [state.name for state in STATES])
