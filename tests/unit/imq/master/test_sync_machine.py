"""Every pair of state and input is decided, and the important ones do what they should."""

from __future__ import annotations

import inspect
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.master import sync_machine as machine_module
from mqbroker.imq.master.sync_machine import SyncData, SyncMachine, make_sync_machine
from tests.support.machines import state_of

INPUTS = [name for name, _ in inspect.getmembers(SyncMachine, inspect.isfunction) if not name.startswith("_")]
WAYS: dict[str, list[str]] = {
    "starting": [],
    "running_unprotected": ["go_unprotected"],
    "running_master": ["keep_record"],
    "waiting_master": ["follow"],
    "syncing": ["follow", "master_linked"],
    "running": ["follow", "master_linked", "record_taken"],
    "running_without_master": ["follow", "master_linked", "record_taken", "master_lost"],
    "exited": ["follow", "master_linked", "join_refused"],
    "stopped": ["stop"],
}


class Core:
    def __init__(self) -> None:
        self.state = "starting"
        self.done: list[str] = []

    def entered(self, state: str) -> None:
        self.state = state

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.done.append(name)


def feed(machine: Any, name: str) -> None:
    getattr(machine, name)(*(("reason",) if name == "join_refused" else ()))


class SyncTests(SynchronousTestCase):
    def brought_to(self, state: str) -> tuple[Any, Core]:
        core = Core()
        machine = make_sync_machine(SyncData(core))
        for name in WAYS[state]:
            feed(machine, name)
        self.assertEqual(core.state, state)
        core.done.clear()
        return machine, core

    def test_every_pair_is_decided(self) -> None:
        states = {name for name in vars(machine_module) if getattr(getattr(machine_module, name), "name", None) == name}
        self.assertEqual(states, set(WAYS))
        for state in WAYS:
            for name in INPUTS:
                machine, core = self.brought_to(state)
                feed(machine, name)
                self.assertIn(core.state, WAYS)
                self.assertEqual(core.state, state_of(machine))

    def test_what_is_done(self) -> None:
        for state, name, following, done in (
            ("starting", "go_unprotected", "running_unprotected", ["serve_all"]),
            ("starting", "keep_record", "running_master", ["forget_requests", "open_record", "serve_all"]),
            ("starting", "follow", "waiting_master", ["serve_administrators"]),
            ("waiting_master", "master_linked", "syncing", ["ask_master"]),
            ("syncing", "record_taken", "running", ["serve_all"]),
            ("syncing", "record_failed", "syncing", ["ask_later"]),
            ("syncing", "join_refused", "exited", ["forget_requests", "leave"]),
            ("syncing", "master_lost", "waiting_master", ["forget_requests"]),
            ("running", "master_lost", "running_without_master", ["forget_requests"]),
            ("running", "record_failed", "running", ["ask_later"]),
            ("running", "record_taken", "running", []),
            ("running", "keep_record", "running_master", ["forget_requests", "open_record", "serve_all"]),
            ("running_without_master", "master_linked", "running", ["ask_master"]),
            ("running_without_master", "record_taken", "running_without_master", []),
            ("running_master", "follow", "running_without_master", []),
            ("running_master", "master_lost", "running_master", []),
            ("waiting_master", "keep_record", "waiting_master", []),
            ("exited", "master_linked", "exited", []),
            ("stopped", "record_taken", "stopped", []),
        ):
            machine, core = self.brought_to(state)
            feed(machine, name)
            self.assertEqual((core.state, core.done), (following, done), (state, name))
