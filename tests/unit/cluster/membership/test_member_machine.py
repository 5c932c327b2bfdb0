"""The states of the link to a member: what others hear, and what becomes of messages and bindings."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.member_machine import MemberData, make_member_machine
from tests.support.machines import state_of

WAYS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "disconnected": (),
    "connecting": (("start",),),
    "connected": (("start",), ("connected",)),
    "gone": (("start",), ("stop",)),
}
"""Inputs that lead to each state."""


class Core:
    """Keeps what it is asked to do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.state = "disconnected"

    def entered(self, state: str) -> None:
        self.state = state

    def __getattr__(self, name: str) -> Any:
        def do(*args: Any) -> Any:
            self.done.append(name)
            return self

        return do


class MemberMachineTests(SynchronousTestCase):
    def did(self, state: str, name: str, *arguments: Any) -> list[str]:
        core: Any = Core()
        machine: Any = make_member_machine(MemberData(core))
        for step, *more in WAYS[state]:
            getattr(machine, step)(*more)
        self.assertEqual(core.state, state)
        core.done.clear()
        getattr(machine, name)(*arguments)
        self.assertEqual(core.state, state_of(machine), f"{state}: {name}")
        return list(core.done)

    def test_others_hear_of_a_member_when_its_link_is_up_and_when_it_is_lost(self) -> None:
        self.assertEqual(self.did("connecting", "connected"), ["member_up"])
        self.assertEqual(self.did("connected", "connection_lost"), ["disconnect_bindings", "member_down"])

    def test_a_member_that_was_never_reached_is_nobodys_first_choice(self) -> None:
        self.assertEqual(self.did("connecting", "connection_lost"), ["disconnect_bindings"])

    def test_messages_follow_a_member_that_gave_its_own_away(self) -> None:
        for state in ("connecting", "connected"):
            done = self.did(state, "left", "n3")
            self.assertEqual(done, ["close_link", "member_down", "move_messages", "remove_bindings", "forget"])

    def test_messages_stay_when_a_member_left_without_saying_where_to(self) -> None:
        self.assertNotIn("move_messages", self.did("connected", "left", None))

    def test_bindings_go_when_it_is_not_tried_again(self) -> None:
        self.assertEqual(self.did("connecting", "retries_exhausted"), ["close_link", "member_down", "remove_bindings", "forget"])

    def test_bindings_stay_when_this_broker_stops(self) -> None:
        for state in ("connecting", "connected"):
            self.assertEqual(self.did(state, "stop"), ["close_link", "forget"])
        self.assertEqual(self.did("disconnected", "stop"), ["forget"])

    def test_nothing_is_heard_of_one_that_is_gone(self) -> None:
        for name, *arguments in (("stop",), ("connected",), ("connection_lost",), ("left", "n3"), ("retries_exhausted",)):
            self.assertEqual(self.did("gone", name, *arguments), [])
