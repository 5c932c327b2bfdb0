"""The states of a bridge: what each input does in them, and that every request is possible in all of them."""

from __future__ import annotations

from typing import Any

from automat import NoTransition
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.bridge_machine import BridgeData, make_bridge_machine
from mqclient.errors import NotConnectedError
from tests.support.machines import state_of

ERROR = NotConnectedError("away")
WAYS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "stopped": (),
    "connecting": (("start",),),
    "started": (("start",), ("connected",)),
    "paused": (("start",), ("connected_while_paused",)),
    "waiting": (("start",), ("attempt_failed", ERROR, 1.0)),
    "stopping": (("start",), ("connected",), ("stop",)),
    "failed": (("start",), ("attempts_exhausted", ERROR)),
}
"""Inputs that lead to each state."""


class Core:
    """Keeps what it is asked to do."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.state = "stopped"

    def entered(self, state: str) -> None:
        self.state = state

    def __getattr__(self, name: str) -> Any:
        def do(*args: Any) -> Any:
            self.done.append(name)
            return self

        return do


class BridgeMachineTests(SynchronousTestCase):
    def machine(self, state: str) -> Any:
        self.core: Any = Core()
        machine: Any = make_bridge_machine(BridgeData(self.core))
        for name, *arguments in WAYS[state]:
            getattr(machine, name)(*arguments)
        self.core.done.clear()
        self.assertEqual(self.core.state, state)
        return machine

    def did(self, state: str, name: str, *arguments: Any) -> list[str]:
        getattr(self.machine(state), name)(*arguments)
        return list(self.core.done)

    def test_every_request_is_possible_in_every_state(self) -> None:
        for state in WAYS:
            for request in ("start", "stop", "pause", "resume"):
                self.did(state, request)

    def test_each_new_state_is_told(self) -> None:
        facts = (("connected",), ("connected_while_paused",), ("attempt_failed", ERROR, 1.0), ("attempts_exhausted", ERROR))
        waited = (("retry_due",), ("target_appeared",))
        for state in WAYS:
            for name, *arguments in (("start",), ("stop",), ("pause",), ("resume",), *facts, *waited, ("lost", ERROR, 1.0), ("settled",)):
                machine = self.machine(state)
                try:
                    getattr(machine, name)(*arguments)
                except NoTransition:
                    continue
                self.assertEqual(self.core.state, state_of(machine), f"{state}: {name}")

    def test_a_stop_ends_what_is_under_way(self) -> None:
        self.assertEqual(self.did("connecting", "stop"), ["cancel_attempt", "tell_stopped"])
        self.assertEqual(self.did("waiting", "stop"), ["cancel", "tell_stopped"])
        self.assertEqual(self.did("failed", "stop"), ["tell_stopped"])
        self.assertEqual(self.did("paused", "stop"), ["settle"])

    def test_outstanding_acknowledgements_come_before_the_end_of_the_link(self) -> None:
        self.assertEqual(self.did("stopping", "settled"), ["close_link", "tell_stopped"])
        self.assertEqual(self.did("stopping", "lost", ERROR, 1.0), ["tell_stopped"])

    def test_a_lost_link_is_tried_again_and_the_timer_is_there_before_anybody_is_told(self) -> None:
        for state in ("started", "paused"):
            self.assertEqual(self.did(state, "lost", ERROR, 1.0), ["schedule_retry", "tell_lost"])
        self.assertEqual(self.did("waiting", "retry_due"), ["begin_attempt"])

    def test_a_target_that_appears_shortens_the_wait(self) -> None:
        machine = self.machine("waiting")
        machine.target_appeared()
        self.assertEqual(self.core.done, ["cancel", "schedule_retry"])
        machine.stop()
        self.assertEqual(self.core.done, ["cancel", "schedule_retry", "cancel", "tell_stopped"])

    def test_a_start_while_it_stops_waits_for_the_stop(self) -> None:
        self.assertEqual(self.did("stopping", "start"), ["start_again"])

    def test_a_bridge_that_gave_up_can_be_started_again(self) -> None:
        self.assertEqual(self.did("failed", "start"), ["begin_attempt"])

    def test_late_facts_about_what_is_over_do_nothing(self) -> None:
        for state in ("stopped", "failed"):
            self.assertEqual(self.did(state, "lost", ERROR, 1.0), [])
            self.assertEqual(self.did(state, "settled"), [])

    def test_a_pause_in_advance_holds_the_bridge_once_it_is_connected(self) -> None:
        for state in ("stopped", "connecting", "waiting", "stopping", "failed"):
            self.assertEqual((self.did(state, "pause"), self.did(state, "resume")), (["hold"], ["release"]))
