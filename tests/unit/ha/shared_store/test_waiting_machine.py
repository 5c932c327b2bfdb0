"""The states of a broker that shares its store: what each fact leads to, and that a broker may cease in all of them."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.shared_store.waiting_machine import WaitingData, make_waiting

BACKUP = (("wait_as_backup",),)
WAYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "idle": (),
    "behind another backup": BACKUP,
    "backup": (*BACKUP, ("queued",)),
    "primary that waits": (("wait_as_primary",),),
    "holder of the lock": (("wait_as_primary",), ("taken",)),
}
"""Inputs that lead to each state."""


class Core:
    """Keeps what it is asked to do."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.done.append(name)


class WaitingMachineTests(SynchronousTestCase):
    def after(self, state: str, name: str) -> tuple[str, list[str]]:
        core: Any = Core()
        machine: Any = make_waiting(WaitingData(core))
        for (each,) in WAYS[state]:
            getattr(machine, each)()
        self.assertEqual(machine.state(), state)
        core.done.clear()
        getattr(machine, name)()
        return machine.state(), core.done

    def test_a_backup_asks_for_the_folder_only_when_it_is_the_next_one(self) -> None:
        self.assertEqual(self.after("idle", "wait_as_backup"), ("behind another backup", ["queue"]))
        self.assertEqual(self.after("behind another backup", "queued"), ("backup", ["take"]))

    def test_a_backup_behind_another_one_looks_again_and_shows_nothing(self) -> None:
        self.assertEqual(self.after("behind another backup", "refused"), ("behind another backup", ["look_later"]))
        self.assertEqual(self.after("behind another backup", "look"), ("behind another backup", ["queue"]))

    def test_the_next_backup_and_a_primary_that_waits_are_shown_to_the_cluster(self) -> None:
        for state in ("backup", "primary that waits"):
            self.assertEqual(self.after(state, "refused"), (state, ["show_backup", "look_later"]))
            self.assertEqual(self.after(state, "look"), (state, ["take"]))
            self.assertEqual(self.after(state, "taken"), ("holder of the lock", ["hold"]))

    def test_the_holder_goes_on_looking_after_its_lock(self) -> None:
        self.assertEqual(self.after("holder of the lock", "look"), ("holder of the lock", ["watch"]))
        self.assertEqual(self.after("holder of the lock", "watched"), ("holder of the lock", ["look_later"]))

    def test_every_state_can_be_left(self) -> None:
        for state in WAYS:
            done = {"idle": [], "primary that waits": ["want_no_more", "rest"]}.get(state, ["rest"])
            self.assertEqual(self.after(state, "cease"), ("idle", done))
