"""The connection's state machine: every (state, input) pair is decided, and what can come at any time does no harm."""

from __future__ import annotations

from typing import Any

from automat import NoTransition
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.connection.lifecycle import LifecycleData, make_lifecycle
from mqclient.errors import NotConnectedError

IMPOSSIBLE = {
    "idle": {
        "connected",
        "attempt_failed",
        "attempts_exhausted",
        "retry_due",
        "connection_lost",
        "connection_lost_for_good",
        "sessions_restored",
    },
    "connecting": {"open", "retry_due"},
    "waiting to connect": {"open", "connected", "attempt_failed", "attempts_exhausted"},
    "connected": {"open", "connected", "attempt_failed", "attempts_exhausted", "retry_due"},
    "reconnecting": {"open", "retry_due"},
    "waiting to reconnect": {"open", "connected", "attempt_failed", "attempts_exhausted"},
    "restoring sessions": {"open", "connected", "retry_due"},
    "failed": {"open"},
    "closed": {"open"},
}
"""Pairs that the code which drives the machine never makes."""

ERROR = NotConnectedError("lost")
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "connected": ("connection",),
    "attempt_failed": (ERROR, 1.0),
    "attempts_exhausted": (ERROR,),
    "connection_lost": (ERROR,),
    "connection_lost_for_good": (ERROR,),
}


class Retry:
    def __init__(self, core: Core) -> None:
        self.core = core

    def cancel(self) -> None:
        self.core.timers.remove(self)


class Core:
    """Keeps what the machine asks for."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.timers: list[Retry] = []

    def schedule_retry(self, pause: float) -> Retry:
        self.done.append("schedule_retry")
        self.timers.append(Retry(self))
        return self.timers[-1]

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.done.append(name)


def machine(core: Core) -> Any:
    data: Any = core
    return make_lifecycle(LifecycleData(data))


class LifecycleTests(SynchronousTestCase):
    def test_every_pair_is_decided(self) -> None:
        table = make_lifecycle.__automat_automaton__  # type: ignore[attr-defined]
        declared = {(state.name, name) for state, name, _, _ in table.allTransitions()}
        every = {(state.name, name) for state in table.states() for name in table.inputAlphabet()}
        self.assertEqual(every - declared, {(state, name) for state, names in IMPOSSIBLE.items() for name in names})

    @given(st.lists(st.sampled_from(sorted({"open", "close", "retry_due", "sessions_restored", *ARGUMENTS})), max_size=30))
    def test_any_order_of_inputs(self, inputs: list[str]) -> None:
        """Whatever comes: the end is told once, and no timer is left behind it."""
        core = Core()
        built = machine(core)
        for name in inputs:
            waiting = bool(core.timers)
            if name == "retry_due":
                if not waiting:
                    continue
                core.timers.pop()
            try:
                getattr(built, name)(*ARGUMENTS.get(name, ()))
            except NoTransition:
                continue
            self.assertLessEqual(len(core.timers), 1)
        self.assertLessEqual(core.done.count("opened"), 1)
        self.assertLessEqual(core.done.count("closed_by_request"), 1)
        self.assertLessEqual(core.done.count("given_up") + core.done.count("could_not_open"), 1)
        if "closed_by_request" in core.done:
            self.assertEqual(core.timers, [])
            self.assertNotIn("begin_round", core.done[core.done.index("closed_by_request") :])

    def test_life_with_a_failure(self) -> None:
        core = Core()
        built = machine(core)
        built.open()
        built.attempt_failed(ERROR, 1.0)
        built.retry_due()
        built.connected("first")
        built.connection_lost(ERROR)
        built.attempt_failed(ERROR, 1.0)
        core.timers.clear()
        built.retry_due()
        built.connected("second")
        built.sessions_restored()
        built.close()
        self.assertEqual(
            core.done,
            [
                "begin_round",
                "schedule_retry",
                "begin_round",
                "adopt",
                "opened",
                "failure_detected",
                "begin_round",
                "schedule_retry",
                "begin_round",
                "adopt",
                "restore_sessions",
                "recovered",
                "cancel_round",
                "closed_by_request",
            ],
        )
